"""Leaves out of a finished graph what a reader does not need."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..operators import DOMAIN, stored_inputs

SMALLEST = 16
"""A shorter vector of one value is left as it is: to state it otherwise takes as many bytes."""


def compact(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make a finished graph smaller without changing what it computes.

    Vectors of one and the same value (a shift of 0, a slope of 1) are made by ``ConstantOfShape`` instead of stored;
    values inside of our functions get short names; attributes with their default values, sizes of values inside the
    graph and the names of standard nodes are left out.

    Args:
        model: it is not changed.

    Example:
        >>> zeros = numpy_helper.from_array(np.zeros(64, np.float32), 'zeros')
        >>> graph = helper.make_graph([helper.make_node('Neg', ['zeros'], ['y'])], 'g', [], [], [zeros])
        >>> [node.op_type for node in compact(helper.make_model(graph)).graph.node]
        ['ConstantOfShape', 'Neg']
    """
    small = onnx.ModelProto()
    small.CopyFrom(model)
    del small.graph.value_info[:]
    _make_constants(small.graph)
    for function in small.functions:
        if function.domain == DOMAIN:
            _shorten(function)
    defaults = {
        (function.domain, function.name): {attribute.name: attribute for attribute in function.attribute_proto}
        for function in small.functions
    }
    for node in small.graph.node:
        if node.domain == '':
            node.name = ''
        known = defaults.get((node.domain, node.op_type), {})
        written = [attribute for attribute in node.attribute if attribute != known.get(attribute.name)]
        del node.attribute[:]
        node.attribute.extend(written)
    return small


def _make_constants(graph: onnx.GraphProto) -> None:
    stored, lengths, nodes = [], {}, []
    kept = {value.name for value in graph.output} | stored_inputs(graph)
    for tensor in graph.initializer:
        value = _only_value(tensor)
        if value is None or tensor.name in kept:
            stored.append(tensor)
            continue
        length = tensor.dims[0]
        lengths[length] = numpy_helper.from_array(np.array([length], np.int64), f'length_{length}')
        nodes.append(
            helper.make_node(
                'ConstantOfShape',
                [lengths[length].name],
                [tensor.name],
                value=numpy_helper.from_array(np.array([value], np.float32)),
            )
        )
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend([*stored, *lengths.values()])
    graph.node.extend(nodes)


def _only_value(tensor: TensorProto) -> float | None:
    """The value that a long float32 vector consists of; None if there are several, or it is no such vector."""
    if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 1 or tensor.dims[0] < SMALLEST:
        return None
    values = numpy_helper.to_array(tensor)
    return float(values[0]) if (values.view(np.uint32) == values.view(np.uint32)[0]).all() else None


def _shorten(function: onnx.FunctionProto) -> None:
    names = {name: name for name in ['', *function.input, *function.output]}
    fresh = _short_names(set(names))

    def short(name: str) -> str:
        if name not in names:
            names[name] = next(fresh)
        return names[name]

    def rename(nodes: list[onnx.NodeProto]) -> None:
        for node in nodes:
            for field in (node.input, node.output):
                field[:] = [short(name) for name in field]
            for attribute in node.attribute:
                if attribute.HasField('g'):
                    for value in attribute.g.output:
                        value.name = short(value.name)
                    rename(list(attribute.g.node))

    rename(list(function.node))


def _short_names(taken: set[str]) -> Iterator[str]:
    letters = 'abcdefghijklmnopqrstuvwxyz'
    number = 0
    while True:
        name = letters[number % 26] + (str(number // 26) if number >= 26 else '')
        if name not in taken:
            yield name
        number += 1
