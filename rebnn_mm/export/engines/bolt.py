"""Writing a model so that BOLT, the engine the paper deploys with, recognises its binary convolutions."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass
from rich.console import Console

from ..exporter import write as write_whole
from ..operators import DOMAIN
from ..options import Options
from ..packing import unpack_bits
from ..rewriting import constant, constant_array, take_over
from ..source import Source
from .border import border_sums
from .common import check_graph, compare, outputs_of, say

INPUT_MULTIPLE, OUTPUT_MULTIPLE = 32, 16
"""BOLT takes a convolution as binary only if its channels are multiples of these."""


def write(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write an ONNX file that BOLT's converter recognises, check it under BOLT's rules, and print what was found.

    Raises:
        ValueError: the model or an option does not go into such a file; no file is left.
    """
    graph, images = check_graph(source, 'bolt', options, console)
    model, excluded = to_bolt(graph, source.size)
    say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first. Convert it with X2bolt -i BNN.',
    )
    for layer, reason in excluded.items():
        say(console, f"{layer} keeps full precision there, because BOLT's rules exclude it: {reason}.")
    results = outputs_of(emulate_bolt(model), images)
    compare("BOLT's rules, emulated,", outputs_of(graph, images), results, console)
    onnx.checker.check_model(model, full_check=True)
    data = model.SerializeToString()
    write_whole(data, path)
    say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB, weights as float32 until BOLT converts them.')


def to_bolt(model: onnx.ModelProto, size: tuple[int, int]) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Rewrite a packed model for BOLT's converter (``X2bolt -i BNN``).

    BOLT knows a binary convolution by its weights, which are all -1 or +1; it takes the sign of the full-precision
    input by itself and pads with -1. So each convolution gets such weights, an ``Add`` of a constant map that makes
    the border right (which fixes the image size), and one ``BatchNormalization`` that holds the scaling factors. A
    layer that BOLT's rules exclude becomes standard operators with real arithmetic, its scale inside the weights.

    Args:
        model: an ONNX model whose binary operators are not fused.
        size: height and width of the image.

    Returns:
        the model, of standard operators only, and the reason for each excluded layer by its name.

    Source: BOLT's documentation and converter (https://github.com/huawei-noah/bolt).
    """
    shapes = _input_shapes(model, size)
    result = ir.from_proto(model)
    graph = result.graph
    graph.inputs[0].shape = ir.Shape([1, *graph.inputs[0].shape[1:2], *size])  # type: ignore[index]
    excluded: dict[str, str] = {}
    for node in list(graph):
        if node.domain != DOMAIN:
            continue
        layer = _Layer(graph, node)
        reason = layer.excluded_because()
        if reason:
            excluded[layer.name] = reason
        take_over(node.outputs[0], layer.as_standard() if reason else layer.as_bolt(shapes[layer.name]))
        graph.remove(node, safe=True)
    Sequential(RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass(), RemoveUnusedOpsetsPass())(result)
    return ir.to_proto(result), excluded


def emulate_bolt(model: onnx.ModelProto) -> onnx.ModelProto:
    """A standard model that computes what BOLT makes of ``model``: signs and a border of -1 written out.

    BOLT's half-precision arithmetic of the full-precision layers is not emulated.
    """
    result = ir.from_proto(model)
    graph = result.graph
    for node in list(graph):
        weight = constant_array(node.inputs[1]) if node.op_type == 'Conv' else None
        if weight is None or not _recognise_binary(weight):
            continue
        pads = node.attributes.pop('pads', None)
        top, left, bottom, right = (0, 0, 0, 0) if pads is None else pads.as_ints()
        amounts = constant(graph, np.array([0, 0, top, left, 0, 0, bottom, right]), f'{node.name}_border')
        value = constant(graph, np.array(-1, np.float32), f'{node.name}_border_value')
        signs = _signs(graph, node, node.inputs[0])
        node.replace_input_with(0, _before(graph, node, 'Pad', signs, amounts, value))
    return ir.to_proto(result)


class _Layer:
    """One binary operator, and what is written before it to take its place."""

    def __init__(self, graph: ir.Graph, node: ir.Node) -> None:
        self.graph, self.node, self.name = graph, node, str(node.name)
        self.options: dict[str, Any] = {key: attribute.value for key, attribute in node.attributes.items()}
        arrays: list[Any] = [constant_array(value) for value in node.inputs[1:5]]
        packed, self.shift, self.scale, self.bias = arrays
        self.codes = unpack_bits(packed, self.options['channels'])
        self.linear = node.op_type == 'BinaryLinear'
        if not self.linear:
            self.codes = self.codes.transpose(0, 3, 1, 2)

    def excluded_because(self) -> str:
        """Name the rule of BOLT that excludes the layer; empty if none does."""
        if self.linear:
            return 'it is a linear layer'
        outputs, inputs, height, width = self.codes.shape
        if self.options.get('group', 1) != 1:
            return f'it has {self.options["group"]} groups'
        if inputs % INPUT_MULTIPLE:
            return f'its {inputs} input channels are not a multiple of {INPUT_MULTIPLE}'
        if outputs % OUTPUT_MULTIPLE:
            return f'its {outputs} output channels are not a multiple of {OUTPUT_MULTIPLE}'
        if height * width % 8 != 1:
            return f'it has a {height}x{width} kernel'
        return ''

    def as_bolt(self, shape: tuple[int, ...]) -> ir.Value:
        """A convolution that BOLT takes for binary, its border made right, and a norm."""
        y = self._convolution(self._shift_input(), self.codes)
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
            y = self._before('Add', y, correction)
        zeros, ones = np.zeros_like(self.scale), np.ones_like(self.scale)
        norm = [
            self._constant(part, values)
            for part, values in (('scale', self.scale), ('bias', self.bias), ('mean', zeros), ('var', ones))
        ]
        return self._before('BatchNormalization', y, *norm, name=f'{self.name}_norm', epsilon=0.0)

    def as_standard(self) -> ir.Value:
        """The layer in real arithmetic, with the scale inside the weights so that BOLT does not take it for binary."""
        x = _signs(self.graph, self.node, self._shift_input())
        weight = self.codes * self.scale.reshape(-1, *[1] * (self.codes.ndim - 1))
        if self.linear:
            product = self._before('MatMul', x, self._constant('weight', weight.T))
            return self._before('Add', product, self._constant('bias', self.bias))
        pads, pad_value = self.options.get('pads', [0, 0, 0, 0]), self.options.get('pad_value', 0)
        if any(pads) and pad_value:
            amounts = self._constant('border', np.array([0, 0, *pads[:2], 0, 0, *pads[2:]]))
            x = self._before('Pad', x, amounts, self._constant('border_value', np.array(pad_value, np.float32)))
            self.options['pads'] = [0, 0, 0, 0]
        return self._convolution(x, weight, self._constant('bias', self.bias))

    def _shift_input(self) -> ir.Value | None:
        x = self.node.inputs[0]
        if not np.any(self.shift):
            return x
        shift = self.shift if self.linear else self.shift.reshape(1, -1, 1, 1)
        return self._before('Add', x, self._constant('shift', shift))

    def _convolution(self, x: ir.Value | None, weight: NDArray[np.float32], *bias: ir.Value) -> ir.Value:
        options = {key: self.options[key] for key in ('strides', 'pads', 'dilations', 'group') if key in self.options}
        weights = self._constant('weight', weight), *bias
        return self._before('Conv', x, *weights, name=self.name, kernel_shape=weight.shape[2:], **options)

    def _constant(self, part: str, values: NDArray[Any]) -> ir.Value:
        return constant(self.graph, values, f'{self.name}_{part}')

    def _before(self, kind: str, *inputs: ir.Value | None, **options: Any) -> ir.Value:
        return _before(self.graph, self.node, kind, *inputs, **options)


def _before(
    graph: ir.Graph, place: ir.Node, kind: str, *inputs: ir.Value | None, name: str | None = None, **attributes: Any
) -> ir.Value:
    """Write a standard operator before a node."""
    node = ir.node(kind, inputs, attributes, name=name, num_outputs=1)
    graph.insert_before(place, node)
    return node.outputs[0]


def _recognise_binary(weight: NDArray[np.float32]) -> bool:
    """Check whether BOLT takes a convolution with this weight for a binary one."""
    outputs, inputs, height, width = weight.shape
    fits = inputs % INPUT_MULTIPLE == 0 and outputs % OUTPUT_MULTIPLE == 0 and height * width % 8 == 1
    return fits and bool(np.all(np.abs(weight) == 1))


def _signs(graph: ir.Graph, place: ir.Node, x: ir.Value | None) -> ir.Value:
    """Write -1 where x < 0, else +1."""
    zero, minus, plus = (constant(graph, np.array(value, np.float32), f'sign_{value}') for value in (0, -1, 1))
    return _before(graph, place, 'Where', _before(graph, place, 'Less', x, zero), minus, plus)


def _input_shapes(model: onnx.ModelProto, size: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """Shape of what each binary operator is given, by its name, from a run on an empty image."""
    inputs = {node.name: node.input[0] for node in model.graph.node if node.domain == DOMAIN}
    names = sorted(set(inputs.values()))
    if not names:
        return {}
    probe = deepcopy(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=['CPUExecutionProvider'])
    image = session.get_inputs()[0]
    values = session.run(names, {image.name: np.zeros((1, image.shape[1], *size), np.float32)})
    shapes = {name: value.shape for name, value in zip(names, values, strict=True)}
    return {node: shapes[name] for node, name in inputs.items()}
