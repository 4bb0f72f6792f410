"""Writing a model so that BOLT, the engine the paper deploys with, recognises its binary convolutions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from rich.console import Console

from ..exporter import write as write_whole
from ..options import Options
from ..packing import unpack_bits
from ..source import Source
from .border import border_sums
from .common import checked_graph, compare, outputs_of, say

INPUT_MULTIPLE, OUTPUT_MULTIPLE = 32, 16
"""BOLT takes a convolution as binary only if its channels are multiples of these."""


def write(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write an ONNX file that BOLT's converter recognises, check it under BOLT's rules, and print what was found.

    Raises:
        ValueError: the model or an option does not go into such a file; no file is left.
    """
    graph, images = checked_graph(source, 'bolt', options, console)
    model, excluded = to_bolt(graph, source.size)
    say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first. Convert it with X2bolt -i BNN.',
    )
    for layer, reason in excluded.items():
        say(console, f"{layer} stays real-valued there, because BOLT's rules exclude it: {reason}.")
    results = outputs_of(emulate_bolt(model), images)
    compare("BOLT's rules, emulated,", outputs_of(graph, images), results, console)
    onnx.checker.check_model(model, full_check=True)
    data = model.SerializeToString()
    write_whole(data, path)
    say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB, weights as float32 until BOLT converts them.')


def to_bolt(model: onnx.ModelProto, size: tuple[int, int]) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Rewrite a packed model for BOLT's converter (``X2bolt -i BNN``).

    BOLT knows a binary convolution by its weights, which are all -1 or +1; it takes the sign of the real-valued input
    by itself and pads with -1. So each convolution gets such weights, an ``Add`` of a constant map that makes the
    border right (which fixes the image size), and one ``BatchNormalization`` that holds the scaling factors. A layer
    that BOLT's rules exclude becomes standard operators with real arithmetic, its scale inside the weights.

    Args:
        model: an ONNX model whose binary operators are not fused.
        size: height and width of the image.

    Returns:
        the model, of standard operators only, and the reason for each excluded layer by its name.

    Source: BOLT's documentation and converter (https://github.com/huawei-noah/bolt).
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _fix_size(result, size)
    shapes = _input_shapes(result)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    excluded: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.domain != 'rebnn':
            nodes.append(node)
            continue
        layer = _Layer(node, constants)
        reason = layer.excluded_because()
        if reason:
            excluded[node.name] = reason
        nodes += layer.as_standard() if reason else layer.as_bolt(shapes[node.input[0]])
        result.graph.initializer.extend(layer.initializers)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    del result.functions[:]
    _drop_unused(result)
    return result, excluded


def emulate_bolt(model: onnx.ModelProto) -> onnx.ModelProto:
    """A standard model that computes what BOLT makes of ``model``: signs and a border of -1 written out.

    BOLT's half-precision arithmetic of the real-valued layers is not emulated.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    new: list[onnx.TensorProto] = []
    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type == 'Conv' else None
        if weight is None or not _recognised(weight):
            nodes.append(node)
            continue
        conv = onnx.NodeProto()
        conv.CopyFrom(node)
        top, left, bottom, right = _take(conv, 'pads', (0, 0, 0, 0))
        signs, tensors = _signs(node.input[0], f'{node.name}_emulated')
        amounts = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
        new += [*tensors, numpy_helper.from_array(amounts, f'{node.name}_border')]
        new.append(numpy_helper.from_array(np.array(-1, np.float32), f'{node.name}_border_value'))
        padded = [signs[-1].output[0], f'{node.name}_border', f'{node.name}_border_value']
        conv.input[0] = f'{node.name}_padded'
        nodes += [*signs, helper.make_node('Pad', padded, [conv.input[0]]), conv]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    result.graph.initializer.extend(new)
    return result


class _Layer:
    """One binary operator on its way to standard ones."""

    def __init__(self, node: onnx.NodeProto, constants: dict[str, NDArray[Any]]) -> None:
        self.node = node
        self.options = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        packed, self.shift, self.scale, self.bias = (constants[name] for name in node.input[1:5])
        self.codes = unpack_bits(packed, self.options['channels'])
        self.linear = node.op_type == 'BinaryLinear'
        if not self.linear:
            self.codes = self.codes.transpose(0, 3, 1, 2)
        self.initializers: list[onnx.TensorProto] = []

    def excluded_because(self) -> str:
        """Name the rule of BOLT that excludes the layer; empty if none does."""
        if self.linear:
            return 'it is a linear layer'
        outputs, inputs, height, width = self.codes.shape
        if self.options.get('group', 1) != 1:
            return f'it has {self.options["group"]} groups'
        if inputs % INPUT_MULTIPLE:
            return f'its {inputs} input channels are no multiple of {INPUT_MULTIPLE}'
        if outputs % OUTPUT_MULTIPLE:
            return f'its {outputs} output channels are no multiple of {OUTPUT_MULTIPLE}'
        if height * width % 8 != 1:
            return f'it has a {height}x{width} kernel'
        return ''

    def as_bolt(self, shape: tuple[int, ...]) -> list[onnx.NodeProto]:
        """A convolution that BOLT takes for binary, its border made right, and a norm."""
        name = self.node.name
        nodes, x = self._shifted()
        y = f'{name}_sums'
        nodes.append(self._convolution(x, self.codes, y))
        pads = tuple(self.options.get('pads', (0, 0, 0, 0)))
        pad_value = self.options.get('pad_value', 0)
        if any(pads) and pad_value != -1:
            border = border_sums(
                self.codes,
                (shape[2], shape[3]),
                tuple(self.options.get('strides', (1, 1))),
                (pads[0], pads[1], pads[2], pads[3]),
                tuple(self.options.get('dilations', (1, 1))),
            )
            correction = self._constant('correction', (pad_value + 1) * border.transpose(2, 0, 1)[None])
            nodes.append(helper.make_node('Add', [y, correction], [f'{name}_corrected']))
            y = f'{name}_corrected'
        zeros, ones = np.zeros_like(self.scale), np.ones_like(self.scale)
        norm = [
            self._constant(part, values)
            for part, values in (('scale', self.scale), ('bias', self.bias), ('mean', zeros), ('var', ones))
        ]
        nodes.append(helper.make_node('BatchNormalization', [y, *norm], self.node.output, f'{name}_norm', epsilon=0.0))
        return nodes

    def as_standard(self) -> list[onnx.NodeProto]:
        """The layer in real arithmetic, with the scale inside the weights so that BOLT does not take it for binary."""
        nodes, x = self._shifted()
        signs, tensors = _signs(x, self.node.name)
        self.initializers += tensors
        nodes += signs
        x = signs[-1].output[0]
        weight = self.codes * self.scale.reshape(-1, *[1] * (self.codes.ndim - 1))
        if self.linear:
            inputs = [x, self._constant('weight', np.ascontiguousarray(weight.T))]
            product = helper.make_node('MatMul', inputs, [f'{self.node.name}_product'])
            total = helper.make_node('Add', [product.output[0], self._constant('bias', self.bias)], self.node.output)
            return [*nodes, product, total]
        pads, pad_value = self.options.get('pads', [0, 0, 0, 0]), self.options.get('pad_value', 0)
        if any(pads) and pad_value:
            amounts = np.array([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64)
            value = self._constant('border_value', np.array(pad_value, np.float32))
            nodes.append(helper.make_node('Pad', [x, self._constant('border', amounts), value], [f'{x}_padded']))
            x, self.options['pads'] = f'{x}_padded', [0, 0, 0, 0]
        return [*nodes, self._convolution(x, weight, self.node.output[0], self.bias)]

    def _shifted(self) -> tuple[list[onnx.NodeProto], str]:
        x = self.node.input[0]
        if not np.any(self.shift):
            return [], x
        shift = self._constant('shift', self.shift if self.linear else self.shift.reshape(1, -1, 1, 1))
        return [helper.make_node('Add', [x, shift], [f'{self.node.name}_shifted'])], f'{self.node.name}_shifted'

    def _convolution(
        self, x: str, weight: NDArray[np.float32], y: str, bias: NDArray[np.float32] | None = None
    ) -> onnx.NodeProto:
        inputs = [x, self._constant('weight', weight), *([] if bias is None else [self._constant('bias', bias)])]
        options = {key: self.options[key] for key in ('strides', 'pads', 'dilations', 'group') if key in self.options}
        return helper.make_node('Conv', inputs, [y], self.node.name, kernel_shape=weight.shape[2:], **options)

    def _constant(self, part: str, values: NDArray[Any]) -> str:
        name = f'{self.node.name}_{part}'
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name


def _recognised(weight: NDArray[np.float32]) -> bool:
    """Whether BOLT takes a convolution with this weight for a binary one."""
    outputs, inputs, height, width = weight.shape
    fits = inputs % INPUT_MULTIPLE == 0 and outputs % OUTPUT_MULTIPLE == 0 and height * width % 8 == 1
    return fits and bool(np.all(np.abs(weight) == 1))


def _signs(x: str, name: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes and constants for -1 where x < 0, else +1."""
    values = {'zero': 0, 'minus': -1, 'plus': 1}
    tensors = [
        numpy_helper.from_array(np.array(value, np.float32), f'{name}_{part}') for part, value in values.items()
    ]
    nodes = [
        helper.make_node('Less', [x, f'{name}_zero'], [f'{name}_negative']),
        helper.make_node('Where', [f'{name}_negative', f'{name}_minus', f'{name}_plus'], [f'{name}_signs']),
    ]
    return nodes, tensors


def _take(node: onnx.NodeProto, name: str, default: Iterable[int]) -> Iterable[int]:
    """Remove an attribute and return its value."""
    for index, attribute in enumerate(node.attribute):
        if attribute.name == name:
            value = list(attribute.ints)
            del node.attribute[index]
            return value
    return default


def _fix_size(model: onnx.ModelProto, size: tuple[int, int]) -> None:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, value in zip((dims[0], dims[2], dims[3]), (1, *size), strict=True):
        dim.Clear()
        dim.dim_value = value


def _input_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes of what binary operators are given, from a run on an empty image."""
    names = sorted({node.input[0] for node in model.graph.node if node.domain == 'rebnn'})
    if not names:
        return {}
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=['CPUExecutionProvider'])
    image = session.get_inputs()[0]
    values = session.run(names, {image.name: np.zeros(image.shape, np.float32)})
    return {name: value.shape for name, value in zip(names, values, strict=True)}


def _drop_unused(model: onnx.ModelProto) -> None:
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    kept_domains = [entry for entry in model.opset_import if entry.domain != 'rebnn']
    del model.opset_import[:]
    model.opset_import.extend(kept_domains)
