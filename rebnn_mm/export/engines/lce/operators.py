"""Translates an ONNX graph of a classifier into TensorFlow Lite, operator by operator, with images in NHWC order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from ....errors import RebnnError
from ...packing import unpack_bits
from .binary import SAME, VALID, binary_convolution
from .builder import TFLiteBuilder

AXES = (0, 3, 1, 2)
"""Axes of an image's dimensions in the file."""


@dataclass(frozen=True)
class Activation:
    """A tensor of the file, and its shape in ONNX: an image (four dimensions) is NCHW there and NHWC in the file."""

    index: int
    shape: tuple[int, ...]

    @property
    def is_image(self) -> bool:
        """Whether the order of dimensions differs between the two files."""
        return len(self.shape) == 4


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """NCHW to NHWC; other shapes stay."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


class Translator:
    """Writes each node of a graph, whose binary operators are not fused, as one or several operators.

    The file takes one image [1, H, W, C], normalised as ``rebnn.preprocess`` says, and gives what the model gives.
    Sums are the same integers; scaling factors and batch norms stay operators of their own, in the same order.

    Source: larq compute engine 0.16 (operators ``LceQuantize`` and ``LceBconv2d``).
    """

    def __init__(self, model: onnx.ModelProto, size: tuple[int, int]) -> None:
        self.model = model
        self.builder = TFLiteBuilder()
        self.values: dict[str, Activation | NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        image = model.graph.input[0]
        channels = image.type.tensor_type.shape.dim[1].dim_value
        self.image = Activation(self.builder.tensor((1, *size, channels), np.float32), (1, channels, *size))
        self.values[image.name] = self.image

    def translate(self, description: str) -> bytes:
        """The TensorFlow Lite file."""
        for node in self.model.graph.node:
            self._node(node)
        outputs = [self.activation(output.name).index for output in self.model.graph.output]
        return self.builder.finish([self.image.index], outputs, description)

    def activation(self, name: str) -> Activation:
        """The tensor of that name, written as a constant if it is one."""
        value = self.values[name]
        if isinstance(value, Activation):
            return value
        order = value.transpose(0, 2, 3, 1) if value.ndim == 4 else value
        return Activation(self.builder.constant(order.astype(np.float32)), value.shape)

    def constant(self, node: onnx.NodeProto, index: int) -> NDArray[Any]:
        """An input that has to be known when the file is written."""
        value = self.values[node.input[index]]
        if isinstance(value, Activation):
            raise RebnnError(f'{_describe(node)}: input {index} must be a constant, and it is computed')
        return value

    def write(
        self, name: str, inputs: list[int], shape: tuple[int, ...], options_type: str = '', **options: Any
    ) -> Activation:
        """Add an operator whose output has this shape in ONNX's order."""
        return Activation(self.builder.operator(name, inputs, _image_shape(shape), options_type, **options), shape)

    def _node(self, node: onnx.NodeProto) -> None:
        known = [self.values.get(name) for name in node.input if name]
        if node.op_type == 'Shape' and isinstance(known[0], Activation):
            options = _attributes(node)
            part = slice(options.get('start'), options.get('end'))
            self.values[node.output[0]] = np.array(known[0].shape[part], np.int64)
        elif all(isinstance(value, np.ndarray) for value in known) and node.domain != 'rebnn':
            feeds = {name: self.values[name] for name in node.input if name}
            results: list[Any] = list(ReferenceEvaluator(node).run(None, feeds))
            self.values.update(zip(node.output, results, strict=True))
        else:
            translate = TRANSLATIONS.get(node.op_type)
            if translate is None:
                raise RebnnError(
                    f'{_describe(node)}: {node.op_type} is not translated to TensorFlow Lite. --format lce writes '
                    f'classifiers of these operators: {", ".join(sorted(TRANSLATIONS))}. Use --format onnx.'
                )
            self.values[node.output[0]] = translate(self, node)


def _describe(node: onnx.NodeProto) -> str:
    """Operator and name of a node, to begin an error message with."""
    return f'{node.op_type} {node.name!r}'


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _pads(node: onnx.NodeProto, options: dict[str, Any]) -> tuple[int, int, int, int]:
    if options.get('auto_pad', b'NOTSET') != b'NOTSET':
        raise RebnnError(f'{_describe(node)}: auto_pad={options["auto_pad"].decode()} is not translated; pads is')
    top, left, bottom, right = options.get('pads', (0, 0, 0, 0))
    return top, left, bottom, right


def _pad_activation(
    t: Translator, x: Activation, pads: tuple[int, int, int, int], value: float | None = None
) -> Activation:
    """Write a border; zeros, or ``value``."""
    if not any(pads):
        return x
    n, c, h, w = x.shape
    top, left, bottom, right = pads
    amounts = t.builder.constant(np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32))
    shape = (n, c, h + top + bottom, w + left + right)
    if value is None:
        return t.write('PAD', [x.index, amounts], shape, 'PadOptions')
    filling = t.builder.constant(np.array([value], np.float32))
    return t.write('PADV2', [x.index, amounts, filling], shape, 'PadV2Options')


def _optional(t: Translator, node: onnx.NodeProto, index: int, default: NDArray[Any]) -> NDArray[Any]:
    return t.constant(node, index) if len(node.input) > index and node.input[index] else default


def _pad(t: Translator, node: onnx.NodeProto) -> Activation:
    x, mode = t.activation(node.input[0]), _attributes(node).get('mode', b'constant').decode()
    amounts, value = t.constant(node, 1), float(_optional(t, node, 2, np.zeros(())))
    axes = _optional(t, node, 3, np.arange(len(x.shape)))
    around = {axis % len(x.shape): sides for axis, *sides in zip(axes, *np.split(amounts, 2), strict=True)}
    (top, bottom), (left, right) = around.pop(2, (0, 0)), around.pop(3, (0, 0))
    if mode != 'constant' or not x.is_image or np.any(list(around.values())) or min(amounts) < 0:
        raise RebnnError(
            f'{_describe(node)}: only a border of a constant around height and width is translated to TensorFlow Lite'
        )
    return _pad_activation(t, x, (top, left, bottom, right), value or None)


def _convolution(t: Translator, node: onnx.NodeProto) -> Activation:
    options, x, weight = _attributes(node), t.activation(node.input[0]), t.constant(node, 1)
    groups = options.get('group', 1)  # CONV_2D reads them off the kernel's channels
    depthwise = groups == x.shape[1] > 1
    bias = t.constant(node, 2) if len(node.input) > 2 else np.zeros(len(weight), np.float32)
    strides, dilations = options.get('strides', (1, 1)), options.get('dilations', (1, 1))
    x = _pad_activation(t, x, _pads(node, options))
    spatial = [
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation in zip(x.shape[2:], weight.shape[2:], strides, dilations, strict=True)
    ]
    kernel = t.builder.constant(weight.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1)))
    more = {'depth_multiplier': len(weight) // groups} if depthwise else {}
    return t.write(
        'DEPTHWISE_CONV_2D' if depthwise else 'CONV_2D',
        [x.index, kernel, t.builder.constant(bias)],
        (x.shape[0], len(weight), *spatial),
        'DepthwiseConv2DOptions' if depthwise else 'Conv2DOptions',
        padding=VALID,
        stride_h=strides[0],
        stride_w=strides[1],
        dilation_h_factor=dilations[0],
        dilation_w_factor=dilations[1],
        **more,
    )


def _broadcast(t: Translator, x: Activation, other: NDArray[Any]) -> int:
    """A constant that ONNX broadcasts over x, in the file's order of dimensions."""
    other = other.astype(np.float32)
    if x.is_image and other.ndim:
        other = other.reshape((1,) * (4 - other.ndim) + other.shape).transpose(0, 2, 3, 1)
    return t.builder.constant(other)


def _elementwise(t: Translator, node: onnx.NodeProto) -> Activation:
    operands = [t.values[name] for name in node.input]
    image = next(value for value in operands if isinstance(value, Activation))
    indices = [value.index if isinstance(value, Activation) else _broadcast(t, image, value) for value in operands]
    shape = np.broadcast_shapes(*(value.shape for value in operands))
    return t.write(node.op_type.upper(), indices, shape, f'{node.op_type}Options')


def _batch_norm(t: Translator, node: onnx.NodeProto) -> Activation:
    weight, bias, mean, variance = (t.constant(node, index) for index in range(1, 5))
    x = t.activation(node.input[0])
    factor = weight / np.sqrt(variance + np.float32(_attributes(node).get('epsilon', 1e-5)))
    return _affine(t, x.index, factor, bias - mean * factor, x.shape)


def _affine(t: Translator, x: int, factor: NDArray[Any], summand: NDArray[Any], shape: tuple[int, ...]) -> Activation:
    y = t.write('MUL', [x, t.builder.constant(factor)], shape, 'MulOptions')
    return t.write('ADD', [y.index, t.builder.constant(summand)], shape, 'AddOptions')


def _prelu(t: Translator, node: onnx.NodeProto) -> Activation:
    x, slope = t.activation(node.input[0]), t.constant(node, 1)
    return t.write('PRELU', [x.index, t.builder.constant(slope.reshape(1, 1, -1))], x.shape)


def _function(t: Translator, node: onnx.NodeProto) -> Activation:
    x = t.activation(node.input[0])
    return t.write({'Relu': 'RELU', 'Sigmoid': 'LOGISTIC'}[node.op_type], [x.index], x.shape)


def _clip(t: Translator, node: onnx.NodeProto) -> Activation:
    x = t.activation(node.input[0])
    for index, name in ((1, 'MAXIMUM'), (2, 'MINIMUM')):
        if len(node.input) > index and node.input[index]:
            bound = t.builder.constant(t.constant(node, index).astype(np.float32).reshape(()))
            x = t.write(name, [x.index, bound], x.shape, 'MaximumMinimumOptions')
    return x


def _pool(t: Translator, node: onnx.NodeProto) -> Activation:
    options, x = _attributes(node), t.activation(node.input[0])
    kernel, strides = options['kernel_shape'], options.get('strides', (1, 1))
    if any(dilation != 1 for dilation in options.get('dilations', (1, 1))):
        raise RebnnError(f'{_describe(node)}: pooling with dilation is not translated to TensorFlow Lite')
    pads = _pads(node, options)
    spatial, overhang = [], []
    for size, before, behind, side, stride in zip(x.shape[2:], pads[:2], pads[2:], kernel, strides, strict=True):
        windows, rest = divmod(before + size + behind - side, stride)
        # rounded up, without a window that would begin behind the image
        more = options.get('ceil_mode', 0) and rest and (windows + 1) * stride < before + size
        spatial.append(windows + 1 + bool(more))
        overhang.append(stride - rest if more else 0)
    padding = VALID
    if node.op_type == 'MaxPool':
        top, left, bottom, right = pads
        x = _pad_activation(
            t, x, (top, left, bottom + overhang[0], right + overhang[1]), -float(np.finfo(np.float32).max)
        )
    elif any(overhang) and not any(pads) and max(overhang) == 1:
        # What hangs over is not counted. Of one missing row or column SAME puts none before it, uncounted.
        padding = SAME
    elif any(overhang) or (any(pads) and not options.get('count_include_pad', 0)):
        raise RebnnError(
            f'{_describe(node)}: average pooling whose border is not counted is not translated to TensorFlow Lite'
        )
    else:
        x = _pad_activation(t, x, pads)
    return t.write(
        'MAX_POOL_2D' if node.op_type == 'MaxPool' else 'AVERAGE_POOL_2D',
        [x.index],
        (*x.shape[:2], *spatial),
        'Pool2DOptions',
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        filter_height=kernel[0],
        filter_width=kernel[1],
    )


def _mean(t: Translator, node: onnx.NodeProto) -> Activation:
    options, x = _attributes(node), t.activation(node.input[0])
    axes = (2, 3) if node.op_type == 'GlobalAveragePool' else options.get('axes')
    if axes is None:
        axes = t.constant(node, 1)
    if sorted(int(axis) % 4 for axis in axes) != [2, 3] or not x.is_image:
        raise RebnnError(f'{_describe(node)}: only the mean over height and width is translated to TensorFlow Lite')
    keep = bool(node.op_type == 'GlobalAveragePool' or options.get('keepdims', 1))
    shape = (*x.shape[:2], 1, 1) if keep else x.shape[:2]
    return t.write(
        'MEAN', [x.index, t.builder.constant(np.array([1, 2], np.int32))], shape, 'ReducerOptions', keep_dims=keep
    )


def _reshape(t: Translator, node: onnx.NodeProto) -> Activation:
    x = t.activation(node.input[0])
    if node.op_type == 'Flatten':
        shape: tuple[int, ...] = (x.shape[0], int(np.prod(x.shape[1:])))
    else:
        wanted = [x.shape[i] if size == 0 else int(size) for i, size in enumerate(t.constant(node, 1))]
        shape = np.empty(x.shape, bool).reshape(wanted).shape
    if len(shape) == 4:
        raise RebnnError(f'{_describe(node)}: reshaping into an image is not translated to TensorFlow Lite')
    index = x.index
    if x.is_image and x.shape[2:] != (1, 1):
        order = t.builder.constant(np.array(AXES, np.int32))
        index = t.builder.operator('TRANSPOSE', [index, order], x.shape, 'TransposeOptions')
    return _write_reshape(t, index, shape)


def _write_reshape(t: Translator, index: int, shape: tuple[int, ...]) -> Activation:
    size = t.builder.constant(np.array(_image_shape(shape), np.int32))
    return t.write('RESHAPE', [index, size], shape, 'ReshapeOptions')


def _linear(t: Translator, node: onnx.NodeProto) -> Activation:
    options, x, weight = _attributes(node), t.activation(node.input[0]), t.constant(node, 1)
    if options.get('alpha', 1.0) != 1 or options.get('beta', 1.0) != 1 or options.get('transA', 0):
        raise RebnnError(f'{_describe(node)}: alpha, beta and transA are not translated to TensorFlow Lite')
    weight = weight if options.get('transB', 0) else weight.T
    bias = t.constant(node, 2).reshape(-1) if len(node.input) > 2 else np.zeros(len(weight), np.float32)
    inputs = [x.index, t.builder.constant(weight), t.builder.constant(bias)]
    return t.write('FULLY_CONNECTED', inputs, (*x.shape[:-1], len(weight)), 'FullyConnectedOptions')


def _concat(t: Translator, node: onnx.NodeProto) -> Activation:
    parts = [t.activation(name) for name in node.input]
    axis = _attributes(node)['axis'] % len(parts[0].shape)
    shape = [*parts[0].shape]
    shape[axis] = sum(part.shape[axis] for part in parts)
    there = AXES[axis] if parts[0].is_image else axis
    return t.write('CONCATENATION', [part.index for part in parts], tuple(shape), 'ConcatenationOptions', axis=there)


def _slice(t: Translator, node: onnx.NodeProto) -> Activation:
    x = t.activation(node.input[0])
    starts, ends = t.constant(node, 1), t.constant(node, 2)
    axes = _optional(t, node, 3, np.arange(len(starts)))
    steps = _optional(t, node, 4, np.ones_like(starts))
    begin, shape = [0] * len(x.shape), [*x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step != 1:
            raise RebnnError(f'{_describe(node)}: a slice in steps is not translated to TensorFlow Lite')
        taken = range(x.shape[axis])[slice(int(start), int(end))]
        begin[axis], shape[axis] = taken.start, len(taken)
    sides = [t.builder.constant(np.array(_image_shape(tuple(side)), np.int32)) for side in (begin, shape)]
    return t.write('SLICE', [x.index, *sides], tuple(shape), 'SliceOptions')


def _softmax(t: Translator, node: onnx.NodeProto) -> Activation:
    x = t.activation(node.input[0])
    if _attributes(node).get('axis', -1) % len(x.shape) != len(x.shape) - 1:
        raise RebnnError(f'{_describe(node)}: only a softmax over the last dimension is translated to TensorFlow Lite')
    return t.write('SOFTMAX', [x.index], x.shape, 'SoftmaxOptions', beta=1.0)


def _binary_conv(t: Translator, node: onnx.NodeProto) -> Activation:
    options = _attributes(node)
    if options.get('group', 1) != 1:
        raise RebnnError(
            f'{_describe(node)}: larq compute engine has no optimised binary convolution with groups. '
            'Use --format onnx.'
        )
    x = t.activation(node.input[0])
    packed, shift, scale, bias = (t.constant(node, index) for index in range(1, 5))
    codes = unpack_bits(packed, options['channels']).transpose(0, 3, 1, 2)
    index, spatial = binary_convolution(
        t.builder,
        x.index,
        x.shape,
        codes,
        shift,
        strides=tuple(options.get('strides', (1, 1))),
        pads=_pads(node, options),
        dilations=tuple(options.get('dilations', (1, 1))),
        pad_value=options.get('pad_value', 0),
    )
    return _affine(t, index, scale, bias, (x.shape[0], len(codes), *spatial))


def _binary_linear(t: Translator, node: onnx.NodeProto) -> Activation:
    x, features = t.activation(node.input[0]), _attributes(node)['channels']
    packed, shift, scale, bias = (t.constant(node, index) for index in range(1, 5))
    codes = unpack_bits(packed, features)[:, :, None, None]
    as_image = _write_reshape(t, x.index, (int(np.prod(x.shape[:-1])), features, 1, 1))
    index, _ = binary_convolution(t.builder, as_image.index, as_image.shape, codes, shift)
    shape = (*x.shape[:-1], len(codes))
    return _affine(t, _write_reshape(t, index, shape).index, scale, bias, shape)


TRANSLATIONS: dict[str, Callable[[Translator, onnx.NodeProto], Activation]] = {
    'Add': _elementwise,
    'AveragePool': _pool,
    'BatchNormalization': _batch_norm,
    'BinaryConv': _binary_conv,
    'BinaryLinear': _binary_linear,
    'Clip': _clip,
    'Concat': _concat,
    'Conv': _convolution,
    'Flatten': _reshape,
    'Gemm': _linear,
    'GlobalAveragePool': _mean,
    'Identity': lambda t, node: t.activation(node.input[0]),
    'MatMul': _linear,
    'MaxPool': _pool,
    'Mul': _elementwise,
    'PRelu': _prelu,
    'Pad': _pad,
    'ReduceMean': _mean,
    'Relu': _function,
    'Reshape': _reshape,
    'Sigmoid': _function,
    'Slice': _slice,
    'Softmax': _softmax,
    'Sub': _elementwise,
}
"""What writes the operators of a node and returns its output."""
