"""The operators that a packed file may hold: those that the exporter writes, and no others."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .errors import ModelFileError
from .onnx_file import OnnxFile

FUNCTIONS: dict[str, tuple[str, ...]] = {
    'BinaryConv': ('030ce164c52309b405a372e5ad45c1cf1d446ad6ad7471fb06414ab56c525bee',),
    'BinaryBlock': (
        '395eeb32cff950d7d9a871ad7e7f145877a59b219595813a08989a8e1a48d718',
        '80982b4e57319c1fe2666370552ffd3ae9d63badb8bb5ced5d78c7fc6675fa97',
    ),
    'PackedBinaryConv': ('1d4e7721113558958bbf2b8b22a62ea22f6ebc58a789769ce2c1b1c06a570514',),
    'PackedBinaryBlock': (
        'db1cc3ae4d7dfb582c38d7ca62e9e026bb291c30d2bc8bf012e2c57917072ccd',
        '225977b569d4df3a6c6b75b0a8731bfef17747fdef073b95d505aa3b28c7c907',
    ),
    'BinaryClipBlock': ('c61a1515a61ce41de5fee2d1863880d458ea95bded62f3d4c2dea0b7ead533b2',),
    'PackedBinaryClipBlock': ('5fab7b9a27f5d7a583accf4002ca3c49a11e23cdcde763b89da9194705f68498',),
    'BinaryLinear': ('9da70c0ff3d157b9080241cf6412c5f33f4d1dc6b2fa53303fabe4143c0e715b',),
    'BinaryEmbedding': ('84bf41bb8bf2a09cc02cdcab0b1f3d16083548171019e6f86d71392185506766',),
    'BinaryAttention': ('2edffbf3763a5588339c5a788e662ce6bad66b2bb732f133a262f077a1aa4f30',),
    'RealStem': ('dcafea607a0d4a3b678551f40302c59946eed660d5e7a47a2615d97c482efe24',),
    'RealAveragePool': ('2427af57fb37d286dea6ea7ff3c62acd16aceababd1c11ec127a1deddf9d7c0b',),
    'RealRoiAlign': ('1650d1566607a9a90d2fa6b9af547032d9cdf1c8f25125e525fb8aab690da0a7',),
    'RealUpsampleAdd': ('db1286bca1d3098d037fae1140c3accfade02e715b706d57dc19bbb04a9eebfa',),
}
"""Digest of the function that defines each operator of ours; that of today first, then those of older files. With
another function a file could compute one thing with our kernels and another without them."""

# fmt: off
STANDARD = frozenset((
    'Abs', 'Acos', 'Acosh', 'Add', 'AffineGrid', 'And', 'ArgMax', 'ArgMin', 'Asin', 'Asinh', 'Atan', 'Atanh',
    'Attention', 'AveragePool', 'BatchNormalization', 'BitShift', 'BitwiseAnd', 'BitwiseNot', 'BitwiseOr',
    'BitwiseXor', 'Cast', 'CastLike', 'Ceil', 'Celu', 'CenterCropPad', 'Clip', 'Col2Im', 'Compress', 'Concat',
    'ConcatFromSequence', 'Constant', 'ConstantOfShape', 'Conv', 'ConvInteger', 'ConvTranspose', 'Cos', 'Cosh',
    'CumSum', 'DFT', 'DeformConv', 'DepthToSpace', 'DequantizeLinear', 'Det', 'Div', 'Dropout',
    'DynamicQuantizeLinear', 'Einsum', 'Elu', 'Equal', 'Erf', 'Exp', 'Expand', 'EyeLike', 'Flatten', 'Floor', 'GRU',
    'Gather', 'GatherElements', 'GatherND', 'Gelu', 'Gemm', 'GlobalAveragePool', 'GlobalLpPool', 'GlobalMaxPool',
    'Greater', 'GreaterOrEqual', 'GridSample', 'GroupNormalization', 'HardSigmoid', 'HardSwish', 'Hardmax',
    'Identity', 'InstanceNormalization', 'IsInf', 'IsNaN', 'LRN', 'LSTM', 'LayerNormalization', 'LeakyRelu', 'Less',
    'LessOrEqual', 'Log', 'LogSoftmax', 'LpNormalization', 'LpPool', 'MatMul', 'MatMulInteger', 'Max', 'MaxPool',
    'MaxRoiPool', 'MaxUnpool', 'Mean', 'MeanVarianceNormalization', 'Min', 'Mish', 'Mod', 'Mul', 'Neg',
    'NonMaxSuppression', 'NonZero', 'Not', 'OneHot', 'Or', 'PRelu', 'Pad', 'Pow', 'QLinearConv', 'QLinearMatMul',
    'QuantizeLinear', 'RMSNormalization', 'RNN', 'Range', 'Reciprocal', 'ReduceL1', 'ReduceL2', 'ReduceLogSum',
    'ReduceLogSumExp', 'ReduceMax', 'ReduceMean', 'ReduceMin', 'ReduceProd', 'ReduceSum', 'ReduceSumSquare', 'Relu',
    'Reshape', 'Resize', 'ReverseSequence', 'RoiAlign', 'RotaryEmbedding', 'Round', 'ScatterElements', 'ScatterND',
    'Selu', 'SequenceAt', 'SequenceConstruct', 'SequenceLength', 'Shape', 'Shrink', 'Sigmoid', 'Sign', 'Sin',
    'Sinh', 'Size', 'Slice', 'Softmax', 'Softplus', 'Softsign', 'SpaceToDepth', 'Split', 'SplitToSequence', 'Sqrt',
    'Squeeze', 'Sub', 'Sum', 'Swish', 'Tan', 'Tanh', 'ThresholdedRelu', 'Tile', 'TopK', 'Transpose', 'Trilu',
    'Unique', 'Unsqueeze', 'Where', 'Xor',
))
# fmt: on
"""Operators of ONNX that compute tensors from tensors. Left out are those with graphs inside (``If``, ``Loop``,
``Scan``), and those that are random, or for texts and training."""

MOST_FILLED = 1 << 28
"""Values that all ``ConstantOfShape`` of a file may make together, 1 GiB of float32."""

INT64 = 7
"""TensorProto.DataType of a shape."""


def check_operators(file: OnnxFile) -> None:
    """Refuse what the exporter never writes: foreign operators, other functions, constants of any size."""
    if file.has_training or file.has_sparse:
        what = 'a graph for training' if file.has_training else 'a sparse tensor'
        raise ModelFileError(f'it holds {what}, which no packed model does')
    functions = [name for domain, name, _ in file.functions if domain == 'rebnn']
    for domain, name in sorted(file.operators):
        known = {'': STANDARD, 'rebnn': FUNCTIONS}.get(domain, ())
        if name not in known:
            full = f'{domain}.{name}' if domain else name
            raise ModelFileError(f'it has the operator {full[:60]!r}, which no packed model has')
        if domain == 'rebnn' and name not in functions:
            raise ModelFileError(f'it lacks the function that defines its operator rebnn.{name}')
    for domain, name, digest in file.functions:
        if domain != 'rebnn' or digest not in FUNCTIONS.get(name, ()) or functions.count(name) > 1:
            raise ModelFileError(
                f'its function {f"{domain}.{name}"[:60]!r} is not the one that rebnn export writes; export the model '
                'again'
            )
    if sum(_count_filled(file)) > MOST_FILLED:
        raise ModelFileError(f'its ConstantOfShape nodes would make more than {MOST_FILLED} values')


def _count_filled(file: OnnxFile) -> Iterator[float]:
    """Count the values that each ``ConstantOfShape`` makes whose shape is a constant."""
    for name in file.filled:
        shape = file.initializers.get(name)
        if shape is None:
            continue  # computed when the file runs
        if shape.raw is None or shape.data_type != INT64 or len(shape.raw) % 8:
            raise ModelFileError(f'the shape {name[:60]!r} is not stored as raw int64')
        yield math.prod(max(0.0, float(size)) for size in np.frombuffer(shape.raw, '<i8'))
