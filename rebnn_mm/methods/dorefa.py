"""DoReFa-Net (Zhou et al. 2016): weights and activations of k bits, on even levels.

Four bits each; others by ``weight=dict(type='DoReFaWeight', bits=2)``, ``activation=dict(type='DoReFaActivation',
bits=2)``.
"""

from typing import ClassVar

import numpy as np
import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import sign, straight_through
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, Values, WeightQuantizer, check_bits


def uniform_levels(x: Tensor, bits: int) -> Tensor:
    r"""Number of the nearest of :math:`2^k` levels between 0 and 1, with straight-through gradient.

    .. math::
        n = round((2^k - 1) x), \qquad \frac{\partial L}{\partial x} = (2^k - 1) \frac{\partial L}{\partial n}

    ``x``: any shape, values in [0, 1].

    Source: Zhou et al. 2016 (DoReFa-Net), quantize_k times :math:`2^k - 1`.

    Example:
        >>> uniform_levels(torch.tensor([0., 0.4, 1.]), 2)
        tensor([0., 1., 3.])
    """
    x = x * (2**bits - 1)
    return straight_through(x, x.detach().round())


@MODELS.register_module()
class DoReFaWeight(WeightQuantizer):
    r"""Weights on :math:`2^k` even levels from -1 to 1.

    .. math::
        \hat w = \frac{2}{2^k - 1} round\left((2^k - 1)
            \left( \frac{\tanh w}{2 \max |\tanh w|} + \frac{1}{2} \right)\right) - 1

    The maximum is over the layer. The rounding passes its gradient straight through, everything else has its true one,
    the maximum too. For one bit it is
    :math:`\hat w = E \, sign(w)` with the layer's mean magnitude E as a constant, and the gradient passes unchanged.
    The levels have no scale of their own, so a batch norm has to follow the layer.

    Args:
        bits: k, from 1 to 8.

    Raises:
        ValueError: ``bits`` is out of range.

    Source: Zhou et al. 2016 (DoReFa-Net). Gradients are not quantized.

    Example:
        >>> DoReFaWeight((1, 4), bits=2)(torch.tensor([[-1., -0.2, 0.3, 1.]]))
        tensor([[-1.0000, -0.3333,  0.3333,  1.0000]])
    """

    values = Values('integers')

    def __init__(self, weight_shape: tuple[int, ...], bits: int = 4) -> None:
        super().__init__(weight_shape)
        self.bits = check_bits('DoReFaWeight', bits, least=1)
        if bits == 1:
            self.values = Values('signs')

    def forward(self, weight: Tensor) -> Tensor:
        if self.bits > 1:
            return super().forward(weight)
        constant = weight.detach()
        return straight_through(weight, sign(constant) * constant.abs().mean())

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Odd integers from :math:`-(2^k - 1)` to :math:`2^k - 1`, and their common factor for every channel."""
        if self.bits == 1:
            return sign(weight), weight.detach().abs().mean().expand(weight.shape[0])
        squeezed = weight.tanh()
        largest = squeezed.abs().amax().clamp(min=torch.finfo(weight.dtype).tiny)
        levels = uniform_levels(squeezed / (2 * largest) + 0.5, self.bits)
        return 2 * levels - self._top, weight.new_full((weight.shape[0],), 1 / self._top)

    @property
    def _top(self) -> int:
        return 2**self.bits - 1

    def extra_repr(self) -> str:
        return f'bits={self.bits}'


@MODELS.register_module()
class DoReFaActivation(ActivationQuantizer):
    r"""Activations on :math:`2^k` even levels from 0 to 1.

    .. math::
        q = \frac{1}{2^k - 1} round\left((2^k - 1) \, clamp(x, 0, 1)\right)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial q} \, 1_{0 \le x \le 1}

    It works after a ReLU as it is. One bit gives 0 and 1; for the signs that 1-bit networks use, take
    ``activation='BinarySign'``.

    Args:
        bits: k, from 1 to 8.

    Raises:
        ValueError: ``bits`` is out of range.

    Source: Zhou et al. 2016 (DoReFa-Net).

    Example:
        >>> DoReFaActivation(1, bits=2)(torch.tensor([[-1., 0.3, 0.6, 2.]]))
        tensor([[0.0000, 0.3333, 0.6667, 1.0000]])
    """

    stock_shift: ClassVar[str | None] = None
    values = Values('other')

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = None, bits: int = 4) -> None:
        super().__init__(channels, channel_dim, shift)
        self.bits = check_bits('DoReFaActivation', bits, least=1)
        if bits == 1:
            self.values = Values('two')

    def quantize(self, x: Tensor) -> Tensor:
        return uniform_levels(x.clamp(0, 1), self.bits) / (2**self.bits - 1)

    def two_values(self) -> tuple[float, float, float]:
        """0 and 1 of one bit; 1/2 is rounded to even, 0, so the threshold is the next number above."""
        return -float(np.nextafter(np.float32(0.5), np.float32(1))), 0.5, 0.5

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, bits={self.bits}'


@MODELS.register_module()
class DoReFaConv2d(BinaryConv2d, nn.Conv2d):
    """DoReFa-Net's convolution: ``conv_cfg=dict(type='DoReFaConv2d')``."""

    method_weight = 'DoReFaWeight'
    method_activation = 'DoReFaActivation'


@MODELS.register_module()
class DoReFaLinear(BinaryLinear, nn.Linear, like=DoReFaConv2d):
    """DoReFa-Net's linear layer, with the quantizers of :class:`DoReFaConv2d`."""
