"""One binary operator and its inputs: as an ONNX model of one node, and in NumPy as docs/operators.md says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

VECTORS = {
    'BinaryConv': ('shift', 'scale', 'bias'),
    'BinaryBlock': ('shift', 'scale', 'mul', 'add', 'R', 'pre', 'slope', 'post', 'next_shift'),
    'BinaryClipBlock': ('shift', 'scale', 'mul', 'add', 'R', 'pre', 'slope', 'post', 'next_shift'),
    'PackedBinaryConv': ('scale', 'bias'),
    'PackedBinaryBlock': ('scale', 'mul', 'add', 'R', 'pre', 'slope', 'post', 'next_shift'),
    'PackedBinaryClipBlock': ('scale', 'mul', 'add', 'R', 'pre', 'slope', 'post', 'next_shift'),
    'BinaryLinear': ('shift', 'scale', 'bias'),
}
CLIP = {'low': -0.75, 'high': 1.5}
# What a comparison with zero and an addition may go wrong with.
ODD_VALUES = np.array([0.0, -0.0, np.nan, 1e-42, -1e-42, np.inf, -np.inf], np.float32)


def pack(negative: np.ndarray) -> np.ndarray:
    return np.packbits(negative.astype(bool), axis=-1, bitorder='little')


def with_odd_values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = rng.standard_normal(shape).astype(np.float32)
    chosen = rng.random(shape) < 0.1
    x[chosen] = rng.choice(ODD_VALUES, chosen.sum())
    return x


@dataclass(frozen=True)
class Case:
    """Settings of one operator; ``size`` is that of the input image, or the leading dimensions of a linear layer."""

    op: str
    channels: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    size: tuple[int, ...] = (2, 6, 5)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    group: int = 1
    pad_value: int = 0
    layout: str = 'NCHW'
    bits: bool = True
    seed: int = 0
    weights: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        object.__setattr__(self, 'weights', rng.integers(0, 2, (self.outputs, *self.kernel, self.channels)) == 1)

    @property
    def is_linear(self) -> bool:
        return self.op == 'BinaryLinear'

    @property
    def is_packed(self) -> bool:
        return self.op.startswith('Packed')

    @property
    def gives_bits(self) -> bool:
        return self.op.endswith('Block') and self.bits

    @property
    def clips(self) -> bool:
        return self.op.endswith('ClipBlock')

    def attributes(self) -> dict[str, Any]:
        if self.is_linear:
            return {'channels': self.channels}
        names = ('channels', 'strides', 'dilations', 'pads', 'group', 'pad_value', 'layout')
        return {name: getattr(self, name) for name in names} | (CLIP if self.clips else {})

    def output_shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        if self.is_linear:
            return (*size, self.outputs)
        n, *image = size
        h, w = (
            (side + self.pads[i] + self.pads[i + 2] - self.dilations[i] * (self.kernel[i] - 1) - 1) // self.strides[i]
            + 1
            for i, side in enumerate(image)
        )
        return (n, self.outputs, h, w) if self.layout == 'NCHW' else (n, h, w, self.outputs)

    def inputs(self, size: tuple[int, ...] | None = None) -> dict[str, np.ndarray]:
        """Random arrays for every input but the weights."""
        size = self.size if size is None else size
        rng = np.random.default_rng(self.seed + 1)
        every = self.channels * self.group
        arrays = {}
        if self.is_packed:
            arrays['P'] = pack(rng.integers(0, 2, (*size, every)))
        elif self.is_linear or self.layout == 'NHWC':
            arrays['X'] = with_odd_values(rng, (*size, every))
        else:
            arrays['X'] = with_odd_values(rng, (size[0], every, *size[1:]))
        for name in VECTORS[self.op]:
            if name == 'R':
                arrays[name] = with_odd_values(rng, self.output_shape(size))
            else:
                count = every if name == 'shift' else self.outputs
                arrays[name] = rng.standard_normal(count).astype(np.float32)
        return arrays

    def packed_weights(self) -> np.ndarray:
        packed = pack(self.weights)
        return packed[:, 0, 0] if self.is_linear else packed

    def expected(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Y, and P where the operator gives it; images of Y in the case's own layout."""
        moved = not self.is_linear and self.layout == 'NCHW'
        y = self._sums(arrays).astype(np.float32)  # channels last from here on
        residual = arrays.get('R')
        with np.errstate(all='ignore'):
            y = y * arrays['scale']
            if residual is None:
                y = y + arrays['bias']
            else:
                y = y * arrays['mul'] + arrays['add']
                y = y + (residual.transpose(0, 2, 3, 1) if moved else residual)
                y = y + arrays['pre']
                y = np.where(y > 0, y, y * arrays['slope'])
                y = y + arrays['post']
                if self.clips:
                    y = np.clip(y, np.float32(CLIP['low']), np.float32(CLIP['high']))
            outputs = [y.transpose(0, 3, 1, 2) if moved else y]
            if self.gives_bits:
                outputs.append(pack(y + arrays['next_shift'] < 0))
        return outputs

    def _sums(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        every = self.channels * self.group
        if self.is_packed:
            bits = np.unpackbits(arrays['P'], axis=-1, bitorder='little')[..., :every]
            x = 1 - 2 * bits.astype(np.int64)
        else:
            real = arrays['X']
            if not self.is_linear and self.layout == 'NCHW':
                real = real.transpose(0, 2, 3, 1)
            with np.errstate(all='ignore'):
                x = np.where(real + arrays['shift'] < 0, -1, 1).astype(np.int64)
        w = np.where(self.weights, -1, 1).astype(np.int64)
        if self.is_linear:
            return x @ w[:, 0, 0].T
        height, width = x.shape[1:3]
        top, left, bottom, right = self.pads
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=self.pad_value)
        shape = replace(self, layout='NHWC').output_shape((len(x), height, width))
        sums = np.zeros(shape, np.int64)
        per_group = self.outputs // self.group
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows = slice(i * self.dilations[0], None, self.strides[0])
                columns = slice(j * self.dilations[1], None, self.strides[1])
                tap = x[:, rows, columns][:, : shape[1], : shape[2]]
                for g in range(self.group):
                    inputs = slice(g * self.channels, (g + 1) * self.channels)
                    outputs = slice(g * per_group, (g + 1) * per_group)
                    sums[..., outputs] += tap[..., inputs] @ w[outputs, i, j].T
        return sums


def one_node_model(
    case: Case,
    *,
    name: str = 'layer',
    attributes: Mapping[str, Any] | None = None,
    weights: np.ndarray | None = None,
    computed_weights: bool = False,
    constants: Mapping[str, np.ndarray] | None = None,
    inputs: list[str] | None = None,
    types: Mapping[str, int] | None = None,
    opset: int = 18,
) -> ModelProto:
    """A model whose inputs are those of the operator, the weights excepted.

    Args:
        case: the settings.
        name: of the node.
        attributes: in place of the case's own.
        weights: in place of the case's own, as they lie in the file.
        computed_weights: feed the weights at run time.
        constants: further inputs that are initializers, by name.
        inputs: of the node, in place of all that the operator has.
        types: element type of a graph input, by name; default float, and uint8 for P and W.
        opset: version of the standard operators.
    """
    data = 'P' if case.is_packed else 'X'
    names = [data, 'W', *VECTORS[case.op]] if inputs is None else inputs
    outputs = ['Y', 'bits'] if case.gives_bits else ['Y']
    attributes = case.attributes() if attributes is None else attributes
    node = helper.make_node(case.op, names, outputs, name=name, domain='rebnn', **attributes)
    kind = {'P': TensorProto.UINT8, 'W': TensorProto.UINT8, **(types or {})}
    held = dict(constants or {})
    if not computed_weights:
        held['W'] = case.packed_weights() if weights is None else weights
    fed = [n for n in dict.fromkeys(names) if n and n not in held]
    graph = helper.make_graph(
        [node],
        'graph',
        [helper.make_tensor_value_info(n, kind.get(n, TensorProto.FLOAT), None) for n in fed],
        [
            helper.make_tensor_value_info(n, TensorProto.UINT8 if n == 'bits' else TensorProto.FLOAT, None)
            for n in outputs
        ],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    opsets = [helper.make_opsetid('', opset), helper.make_opsetid('rebnn', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal bit for bit, any NaN being as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype != np.float32:
        return np.array_equal(a, b)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return bool(((a.view(np.int32) == b.view(np.int32)) | (np.isnan(a) & np.isnan(b))).all())
