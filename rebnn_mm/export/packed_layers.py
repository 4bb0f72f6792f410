"""Convert the layers of a trained model before tracing: weights become bits, norms two constants."""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from rebnn_mm.functional import sign
from rebnn_mm.layers import BinaryAttention, BinaryConv2d, BinaryEmbedding, BinaryLayer, BinaryLinear
from rebnn_mm.layers.attention import AttentionParts
from rebnn_mm.quantizers import ActivationQuantizer

from ..errors import RebnnError
from .operators import DOMAIN, DOMAIN_VERSION
from .packing import pack_weight, unpack_bits


class Centred(nn.Module):
    """Subtract the mean from a sample, as RBNN and SiMaN do before the sign; a division would turn no sign."""

    def __init__(self, quantizer: ActivationQuantizer) -> None:
        super().__init__()
        self.quantizer = quantizer

    def forward(self, x: Tensor) -> Tensor:
        """Subtract the mean over channels and positions."""
        if self.quantizer.shift is not None:
            x = x + self.quantizer.along_channels(self.quantizer.shift, x)
        return x - x.mean(dim=self.quantizer.sample_dims(x), keepdim=True)


class Operands(NamedTuple):
    """Constants of a packed layer."""

    codes: Tensor  # the weight as -1 and +1
    scale: Tensor  # one value per output channel
    bias: Tensor  # the same
    shift: Tensor  # added to the input before its sign, one value per input channel
    normalise: nn.Module | None = None  # what happens to the input before shift and sign; None for nothing


def signs_of(layer: BinaryLayer) -> Operands:
    """The operands of a layer whose weights and inputs are signs."""
    assert layer.activation_quantizer is not None
    return Operands(*_codes_of(layer), bias_of(layer), *sign_input(layer.activation_quantizer))


def _codes_of(layer: BinaryLayer) -> tuple[Tensor, Tensor]:
    """A weight as -1 and +1, and a factor per channel."""
    assert layer.weight_quantizer is not None
    with torch.no_grad():
        codes, scale = layer.weight_quantizer.codes(layer.weight)
    # One factor for the whole weight is the same one for every channel.
    ones = torch.ones(codes.shape[0])
    return codes.float(), ones if scale is None else ones * scale.float().flatten()


def _bits_of(codes: Tensor, name: str) -> Tensor:
    try:
        return torch.from_numpy(pack_weight(codes.cpu().numpy()))
    except ValueError as error:
        raise RebnnError(f'{name}: {error} Its weight quantizer has to give signs for one bit.') from None


def _operator(kind: str, inputs: tuple[Tensor, ...], like: Tensor, shape: tuple[int, ...], **attrs: Any) -> Tensor:
    """An operator of ours in a graph that is being exported, with the type of ``like``."""
    return torch.onnx.ops.symbolic(
        f'{DOMAIN}::{kind}', inputs, attrs=attrs, dtype=like.dtype, shape=shape, version=DOMAIN_VERSION
    )


def bias_of(layer: BinaryLayer) -> Tensor:
    """A layer's bias; zeros if it has none."""
    bias = cast(Tensor | None, layer.bias)
    return torch.zeros(layer.weight.shape[0]) if bias is None else bias.detach().float().clone()


def sign_input(quantizer: ActivationQuantizer) -> tuple[Tensor, nn.Module | None]:
    """Return what is added to an input before its sign, and what happens before that."""
    zeros = torch.zeros(quantizer.channels)
    if quantizer.values.sign_of != 'shifted':
        return zeros, Centred(quantizer) if quantizer.values.sign_of == 'centred' else quantizer
    return zeros if quantizer.shift is None else quantizer.shift.detach().float().clone(), None


class PackedLayer(nn.Module):
    """Base of the packed convolution and the packed linear layer.

    It computes in the order that docs/format.md states, in eval mode and without gradients; in a graph that is being
    exported it stands for one operator.
    """

    bits: Tensor
    shift: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, operands: Operands, name: str) -> None:
        super().__init__()
        self.register_buffer('bits', _bits_of(operands.codes, name))
        self.channels = operands.codes.shape[1]
        self.weight_shape = tuple(operands.codes.shape)
        self.register_buffer('scale', operands.scale)
        self.register_buffer('bias', operands.bias)
        self.register_buffer('shift', operands.shift)
        self.normalise = operands.normalise

    def signs(self) -> Tensor:
        """The weight as -1 and +1, of the trained layer's shape."""
        return torch.from_numpy(unpack_bits(self.bits.cpu().numpy(), self.channels)).movedim(-1, 1).contiguous()

    def _operands(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, self.bits, self.shift, self.scale, self.bias


class PackedConv2d(PackedLayer):
    """:class:`rebnn_mm.layers.BinaryConv2d` with packed weights; the operator ``BinaryConv``.

    Shapes: (N, C_in, H, W) to (N, C_out, H_out, W_out).

    Example:
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> conv = ReBNNConv2d(12, 4, 3, padding=1, bias=False).eval()
        >>> packed = PackedConv2d(conv, 'conv')
        >>> packed.bits.shape
        torch.Size([4, 3, 3, 2])
        >>> x = torch.randn(1, 12, 5, 5)
        >>> with torch.no_grad():
        ...     bool((packed(x) == conv(x)).all())
        True
    """

    def __init__(self, layer: BinaryConv2d, name: str = 'conv', operands: Operands | None = None) -> None:
        super().__init__(operands or signs_of(layer), name)
        left, right, top, bottom = layer._reversed_padding_repeated_twice
        self.kernel = cast(tuple[int, int], layer.kernel_size)
        self.stride = cast(tuple[int, int], layer.stride)
        self.dilation = cast(tuple[int, int], layer.dilation)
        self.groups = layer.groups
        self.pad_value = layer.pad_value
        self.padding_mode = layer.padding_mode
        # (left, right, top, bottom), as torch's pad takes it.
        self.padding = (left, right, top, bottom) if layer.padding_mode == 'zeros' else (0, 0, 0, 0)
        self.border = (left, right, top, bottom) if layer.padding_mode != 'zeros' else (0, 0, 0, 0)

    def forward(self, x: Tensor) -> Tensor:
        if self.normalise is not None:
            x = self.normalise(x)
        if any(self.border):
            x = functional.pad(x, self.border, mode=self.padding_mode)  # the sign does not mind when it is taken
        if torch.onnx.is_in_onnx_export():
            return self._operator(x)
        x = functional.pad(sign(x + self.shift.view(-1, 1, 1)), self.padding, value=self.pad_value)
        sums = functional.conv2d(x, self.signs().to(x), None, self.stride, 0, self.dilation, self.groups)
        return sums * self.scale.view(-1, 1, 1) + self.bias.view(-1, 1, 1)

    def _operator(self, x: Tensor) -> Tensor:
        left, right, top, bottom = self.padding
        padded = x.shape[2] + top + bottom, x.shape[3] + left + right
        size = [
            (length - dilation * (kernel - 1) - 1) // stride + 1
            for length, dilation, kernel, stride in zip(padded, self.dilation, self.kernel, self.stride, strict=True)
        ]
        return _operator(
            'BinaryConv',
            self._operands(x),
            x,
            (x.shape[0], self.weight_shape[0], *size),
            channels=self.channels,
            strides=list(self.stride),
            dilations=list(self.dilation),
            pads=[top, left, bottom, right],
            group=self.groups,
            pad_value=self.pad_value,
            layout='NCHW',
        )


class PackedLinear(PackedLayer):
    """:class:`rebnn_mm.layers.BinaryLinear` with packed weights; the operator ``BinaryLinear``.

    Shapes: (..., C) to (..., O).

    Example:
        >>> from rebnn_mm.methods import ReBNNLinear
        >>> linear = ReBNNLinear(12, 4).eval()
        >>> packed = PackedLinear(linear, 'linear')
        >>> x = torch.randn(3, 12)
        >>> with torch.no_grad():
        ...     bool((packed(x) == linear(x)).all())
        True
    """

    def __init__(self, layer: BinaryLinear, name: str = 'linear', operands: Operands | None = None) -> None:
        super().__init__(operands or signs_of(layer), name)

    def forward(self, x: Tensor) -> Tensor:
        if self.normalise is not None:
            x = self.normalise(x)
        if torch.onnx.is_in_onnx_export():
            shape = (*x.shape[:-1], self.weight_shape[0])
            return _operator('BinaryLinear', self._operands(x), x, shape, channels=self.channels)
        return functional.linear(sign(x + self.shift), self.signs().to(x)) * self.scale + self.bias


class PackedEmbedding(nn.Module):
    """Packed rows of a :class:`rebnn_mm.layers.BinaryEmbedding`; the operator ``BinaryEmbedding``.

    Shapes: int64 (...) to (..., C).
    """

    bits: Tensor
    scale: Tensor

    def __init__(self, layer: BinaryEmbedding, name: str = 'embedding') -> None:
        super().__init__()
        codes, scale = _codes_of(layer)
        self.register_buffer('bits', _bits_of(codes, name))
        self.register_buffer('scale', scale)
        self.channels = layer.embedding_dim

    def forward(self, indices: Tensor) -> Tensor:
        if torch.onnx.is_in_onnx_export():
            inputs, shape = (indices, self.bits, self.scale), (*indices.shape, self.channels)
            return _operator('BinaryEmbedding', inputs, self.scale, shape, channels=self.channels)
        signs = torch.from_numpy(unpack_bits(self.bits.cpu().numpy(), self.channels)).to(self.scale)
        return functional.embedding(indices, signs) * self.scale[indices].unsqueeze(-1)


class PackedAttention(BinaryAttention):
    """:class:`rebnn_mm.layers.BinaryAttention` in evaluation; the operator of that name in a graph that is exported.

    Scores and weights are not given there: the operator keeps them as bits.
    """

    def __init__(self, layer: BinaryAttention, name: str = 'attention') -> None:
        super().__init__(layer.heads, layer.head_dim, layer.tie)
        self.name = name
        self.eval()

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        """Attend; see the base class."""
        if not torch.onnx.is_in_onnx_export():
            return super().forward(query, key, value, mask, dropout, scaling)
        if mask is None:
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        if mask.shape[1] != 1 or mask.shape[2] != 1:
            raise RebnnError(
                f'BinaryAttention {self.name!r}: its mask is another one for every query, and the packed format knows '
                'padding only. Export an encoder whose layers all see the whole text.'
            )
        batch, heads, length, size = query.shape
        operands = (*(x.transpose(1, 2) for x in (query, key, value)), mask)
        output = _operator('BinaryAttention', operands, query, (batch, length, heads, size), tie=int(self.tie))
        return AttentionParts(output, query.new_empty(0), query.new_empty(0))


class ChannelAffine(nn.Module):
    r"""A batch norm's evaluation with its two constants computed beforehand, as PyTorch computes them.

    .. math:: y = x \cdot m_c + a_c, \quad m = \frac{weight}{\sqrt{var + \epsilon}}, \quad a = bias - mean \cdot m

    The constants are PyTorch's to the last bit on processors with fused multiply-add: there :math:`a` is rounded once.
    PyTorch then also rounds :math:`x \cdot m + a` once, and so differs from this by up to the last bit.

    Shapes: (N, C, ...) to the same.
    """

    mul: Tensor
    add: Tensor

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        assert norm.running_mean is not None and norm.running_var is not None
        with torch.no_grad():
            mean, mul = norm.running_mean.float(), torch.rsqrt(norm.running_var.float() + norm.eps)
            bias = torch.zeros_like(mul)
            if norm.affine:
                mul, bias = norm.weight.float() * mul, norm.bias.float()
            self.register_buffer('mul', mul)
            # The product of two float32 is exact in float64, so this rounds as a fused multiply-add does.
            self.register_buffer('add', (bias.double() - mean.double() * mul.double()).float())

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift x of shape (N, C, ...)."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        return x * self.mul.view(shape) + self.add.view(shape)
