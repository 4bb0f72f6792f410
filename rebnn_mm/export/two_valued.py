r"""Packed layers whose weights or inputs take two free values instead of -1 and +1.

With inputs :math:`h s + m` and weights :math:`A_o t + B_o`, s and t being signs, the sum over the taps V of an output
that lie inside of the image is

.. math:: \sum_V (h s + m)(A_o t + B_o) = h A_o \sum_V s t + \sum_V \left( h B_o \, s + m (A_o t + B_o) \right)

The first sum is a binary convolution. The second one is a real convolution of two channels: the sum of the signs of
all input channels, and ones, which tell where the image is. A binary convolution of one tap gives both, so the size of
the image stays free; the constants of a norm go into the weights.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d, BinaryLayer, BinaryLinear, Maxout

from .packed_layers import Operands, PackedConv2d, PackedLinear, bias_of, sign_input


class TwoValues(NamedTuple):
    """The values of a layer."""

    operands: Operands  # of the product of signs
    weight: Tensor  # the weight that the layer computes with, float64
    of_sums: Tensor  # what the sum of the inputs' signs is multiplied by, one value per output channel, float64
    centre: float  # of the two values of an input


def two_values_of(layer: BinaryLayer) -> TwoValues | None:
    """Return the two values of a layer whose weights or inputs are not -1 and +1."""
    weights, inputs = layer.weight_quantizer, layer.activation_quantizer
    if not isinstance(layer, BinaryConv2d | BinaryLinear) or weights is None or inputs is None:
        return None
    kinds = {weights.values.kind, inputs.values.kind}
    if 'two' not in kinds or not kinds <= {'signs', 'two'}:
        return None
    signs, distance, middle = (values.double() for values in weights.two_values(layer.weight.detach()))
    start, half, centre = inputs.two_values()
    if inputs.values.kind == 'signs':
        shift, normalise = sign_input(inputs)
    else:
        shift, normalise = torch.full((inputs.channels,), start), None
        if inputs.shift is not None:
            shift = shift + inputs.shift.detach().float()
    each = (-1, *[1] * (signs.dim() - 1))
    return TwoValues(
        Operands(signs.float(), (half * distance).float(), bias_of(layer), shift, normalise),
        distance.view(each) * signs + middle.view(each),
        half * middle,
        centre,
    )


class InputSum(PackedConv2d):
    """For each group of input channels the sum of their signs, and a channel of ones.

    Shapes: (N, C, H, W) to (N, 2 groups, H, W); a padding that takes its values from the input makes it larger.
    """

    def __init__(self, layer: BinaryConv2d, name: str, operands: Operands) -> None:
        codes = torch.ones(2 * layer.groups, layer.in_channels // layer.groups, 1, 1)
        one, zero = torch.tensor([0.0, 1.0]).repeat(layer.groups), torch.tensor([1.0, 0.0]).repeat(layer.groups)
        super().__init__(layer, name, operands._replace(codes=codes, scale=zero, bias=one))
        self.kernel = self.stride = self.dilation = (1, 1)
        self.padding = (0, 0, 0, 0)


class TwoValuedConv2d(PackedConv2d):
    """A packed convolution, and what its second values add."""

    correction: Tensor  # weight of the real convolution, (C_out, 2, KH, KW)

    def __init__(self, layer: BinaryConv2d, values: TwoValues, name: str = 'conv') -> None:
        super().__init__(layer, name, values.operands)
        self.input_sum = InputSum(layer, name, values.operands)
        weight = values.weight.sum(dim=1)
        # Where the image is not, an input is pad_value: that for all taps, and the difference where the image is.
        border = float(self.pad_value) if any(self.padding) else 0.0
        self.bias += (border * weight.sum(dim=(1, 2))).float()
        of_sums = values.of_sums.view(-1, 1, 1).expand_as(weight)
        correction = torch.stack([of_sums, (values.centre - border) * weight], dim=1)
        self.register_buffer('correction', correction.float())
        self.pad_value = 0

    def forward(self, x: Tensor) -> Tensor:
        sums = self.input_sum(x)
        left, right, top, bottom = self.padding
        even = (left, top) == (right, bottom)
        if not even:
            sums = functional.pad(sums, self.padding)
        padding = (top, left) if even else (0, 0)
        return super().forward(x) + functional.conv2d(
            sums, self.correction, None, self.stride, padding, self.dilation, self.groups
        )


class TwoValuedLinear(PackedLinear):
    """A packed linear layer, and what its second values add: a multiple of the sum of the input's signs."""

    correction: Tensor  # the multiple, one value per output

    def __init__(self, layer: BinaryLinear, values: TwoValues, name: str = 'linear') -> None:
        super().__init__(layer, name, values.operands)
        one = values.operands._replace(
            codes=torch.ones(1, layer.in_features), scale=torch.ones(1), bias=torch.zeros(1)
        )
        self.input_sum = PackedLinear(layer, name, one)
        self.bias += (values.centre * values.weight.sum(dim=1)).float()
        self.register_buffer('correction', values.of_sums.float())

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.input_sum(x) * self.correction


class MaxoutAsPReLU(nn.Module):
    r"""AdaBin's Maxout as a PReLU, which a binary convolution before it takes in, and a factor.

    .. math:: p_c \max(x, 0) + n_c \min(x, 0) = p_c \, PReLU_{n_c / p_c}(x)

    Shapes: (N, C, H, W) to the same.
    """

    slope: Tensor
    factor: Tensor

    def __init__(self, maxout: Maxout) -> None:
        super().__init__()
        positive, negative = maxout.positive.detach().double(), maxout.negative.detach().double()
        self.register_buffer('slope', (negative / positive).float())
        self.register_buffer('factor', positive.float())

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.slope) * self.factor.view(-1, 1, 1)
