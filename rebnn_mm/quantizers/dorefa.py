"""DoReFa-Net's quantizers: k bits for weights and activations."""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import dorefa_unit_weight, sign, sign_identity, uniform_levels
from .base import ActivationQuantizer, WeightQuantizer
from .options import check_bits


@MODELS.register_module()
class DoReFaWeight(WeightQuantizer):
    r"""Weights on :math:`2^k` even levels from -1 to 1.

    .. math::
        \hat w = \frac{2}{2^k - 1} round\left((2^k - 1)
            \left( \frac{\tanh w}{2 \max |\tanh w|} + \frac{1}{2} \right)\right) - 1

    The rounding passes its gradient straight through, everything else has its true one. For one bit it is
    :math:`\hat w = E \, sign(w)` with the layer's mean magnitude E as a constant, and the gradient passes unchanged.
    The levels have no scale of their own, so a batch norm has to follow the layer.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        bits: k, from 1 to 8.

    Raises:
        ValueError: ``bits`` is out of range.

    Source: Zhou et al. 2016 (DoReFa-Net). Gradients are not quantized.

    Example:
        >>> import torch
        >>> DoReFaWeight((1, 4), bits=2)(torch.tensor([[-1., -0.2, 0.3, 1.]]))
        tensor([[-1.0000, -0.3333,  0.3333,  1.0000]])
    """

    def __init__(self, weight_shape: tuple[int, ...], bits: int = 4) -> None:
        super().__init__(weight_shape)
        self.bits = check_bits('DoReFaWeight', bits, least=1)

    def forward(self, weight: Tensor) -> Tensor:
        """The quantized weight, of the latent weight's shape."""
        if self.bits == 1:
            return sign_identity(weight) * weight.detach().abs().mean()
        return uniform_levels(dorefa_unit_weight(weight), self.bits) * (2 / self._top) - 1

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Odd integers from :math:`-(2^k - 1)` to :math:`2^k - 1`, and their common factor for every channel."""
        if self.bits == 1:
            return sign(weight), weight.abs().mean().expand(weight.shape[0])
        levels = uniform_levels(dorefa_unit_weight(weight), self.bits)
        return 2 * levels - self._top, weight.new_full((weight.shape[0],), 1 / self._top)

    @property
    def _top(self) -> int:
        return 2**self.bits - 1

    def extra_repr(self) -> str:
        """Bits, as printed by ``print(model)``."""
        return f'bits={self.bits}'


@MODELS.register_module()
class DoReFaActivation(ActivationQuantizer):
    r"""Activations on :math:`2^k` even levels from 0 to 1.

    .. math::
        q = \frac{1}{2^k - 1} round\left((2^k - 1) \, clamp(x, 0, 1)\right)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial q} \, 1_{0 \le x \le 1}

    It works behind a ReLU as it is. One bit gives 0 and 1; for the signs that 1-bit networks use, take
    ``activation='BinarySign'``.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: see :class:`rebnn_mm.quantizers.ActivationQuantizer`.
        bits: k, from 1 to 8.

    Raises:
        ValueError: ``bits`` is out of range.

    Source: Zhou et al. 2016 (DoReFa-Net).

    Example:
        >>> import torch
        >>> DoReFaActivation(1, bits=2)(torch.tensor([[-1., 0.3, 0.6, 2.]]))
        tensor([[0.0000, 0.3333, 0.6667, 1.0000]])
    """

    stock_shift: ClassVar[str | None] = None

    has_codes: ClassVar[bool] = False

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = None, bits: int = 4) -> None:
        super().__init__(channels, channel_dim, shift)
        self.bits = check_bits('DoReFaActivation', bits, least=1)

    def quantize(self, x: Tensor) -> Tensor:
        """Quantize x, any shape."""
        return uniform_levels(x.clamp(0, 1), self.bits) / (2**self.bits - 1)

    def extra_repr(self) -> str:
        """Channels, shift and bits, as printed by ``print(model)``."""
        return f'{super().extra_repr()}, bits={self.bits}'
