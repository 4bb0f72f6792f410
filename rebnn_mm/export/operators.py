"""The operators of the domain ``rebnn`` as ONNX functions, which any runtime runs, slowly (docs/operators.md)."""

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from rebnn_mm.deploy.errors import first_sentence

from ..errors import RebnnError
from .operator_sources import SOURCES

DOMAIN = 'rebnn'
DOMAIN_VERSION = 1
OPSET = 18
"""Version of the standard operators in the functions, and in the files."""

IR_VERSION = 9
"""The first version with default values of a function's attributes."""

OPERATORS = tuple(SOURCES)
"""Names of the operators."""

STORING = ('Cast', 'ConstantOfShape', 'DequantizeLinear')
"""Operators of ONNX by which a file stores constants in another form."""


def operator_function(name: str) -> onnx.FunctionProto:
    """The function that defines an operator, with short names inside: every file holds it.

    Raises:
        KeyError: there is no such operator.

    Example:
        >>> list(operator_function('BinaryLinear').input)
        ['X', 'W', 'shift', 'scale', 'bias']
    """
    signature, body = SOURCES[name]
    function = onnx.parser.parse_function(
        f'<domain: "{DOMAIN}", opset_import: ["" : {OPSET}]>\n{name} {signature}\n{{{body}}}'
    )
    _shorten(function)
    return function


def attach_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a model the functions of those operators of ours that its graph uses, and no other of ours.

    Nodes inside of subgraphs count. The import of the domain is set to match; functions of other domains stay.
    Returns the same object.

    Raises:
        ValueError: a node of our domain is not an operator that exists.

    Example:
        >>> node = onnx.helper.make_node('BinaryLinear', ['X', 'W', 's', 'a', 'b'], ['Y'], domain='rebnn', channels=9)
        >>> model = onnx.helper.make_model(onnx.helper.make_graph([node], 'g', [], []))
        >>> [function.name for function in attach_functions(model).functions]
        ['BinaryLinear']
    """
    used = {node.op_type for node in all_nodes(model.graph) if node.domain == DOMAIN}
    unknown = used - set(OPERATORS)
    if unknown:
        raise RebnnError(f'{DOMAIN}.{min(unknown)} is not an operator; there are {", ".join(OPERATORS)}.')
    others = [function for function in model.functions if function.domain != DOMAIN]
    imports = [entry for entry in model.opset_import if entry.domain != DOMAIN]
    del model.functions[:], model.opset_import[:]
    model.functions.extend([*others, *(operator_function(name) for name in OPERATORS if name in used)])
    model.opset_import.extend(imports)
    if used:
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, DOMAIN_VERSION))
    return model


def all_nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    """Every node of a graph and of the graphs inside its nodes.

    Example:
        >>> list(all_nodes(onnx.GraphProto()))
        []
    """
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from all_nodes(inner)


def constants_of(graph: onnx.GraphProto) -> dict[str, NDArray]:
    """The constants of a graph by name, those that nodes make of stored ones too, as of half precision and int8."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in STORING or any(name not in known for name in node.input):
            continue
        made, feeds = node.output[0], {name: known[name] for name in node.input}
        try:
            results: list[Any] = list(ReferenceEvaluator(node).run(None, feeds))
        except Exception as error:  # of NumPy, at attributes that do not fit
            raise RebnnError(f'the constant {made!r} cannot be computed: {first_sentence(error)}.') from error
        known[made] = results[0]
    return known


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
