"""TernaryBERT (Zhang et al. 2020): ternary weights, and activations on few levels of their own range.

Ternary weights (Li and Liu 2016, Ternary Weight Networks) are also the first stage of BinaryBERT.
"""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor

from ..errors import RebnnError
from ..functional import symmetric_round, ternary_codes
from ..quantizers import ActivationQuantizer, RoundedWeight, Values, check_bits


@MODELS.register_module()
class TWNWeight(RoundedWeight):
    r"""Ternary weights -s, 0 and s, which need two bits.

    .. math::
        \hat w = s \, t
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w} \, 1_{|w| < clip}

    with t and s of :func:`rebnn_mm.functional.ternary_codes`. The gradient is not multiplied by the scale.

    Args:
        per: whether one scale covers the ``'tensor'``, as in TernaryBERT's linear layers, or a ``'channel'``, as in
            its word embedding.
        clip: magnitude from which on a weight gets no gradient.

    Raises:
        ValueError: ``per`` is neither.

    Source: Li and Liu 2016 (Ternary Weight Networks); gradient and clip as TernaryBERT's released code has them (Zhang
    et al. 2020), which also clamps the weights that t and s are made of.

    Example:
        >>> w = torch.tensor([[0.1, -1.0, 3.0, -0.2]], requires_grad=True)
        >>> w_hat = TWNWeight((1, 4))(w)
        >>> w_hat.sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 0., -2.,  2.,  0.]]), tensor([[1., 1., 0., 1.]]))
    """

    bits = 2

    def __init__(self, weight_shape: tuple[int, ...], per: str = 'tensor', clip: float = 2.5) -> None:
        super().__init__(weight_shape, per)
        self.clip = clip

    def levels(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return ternary_codes(weight, self.per)

    def forward(self, weight: Tensor) -> Tensor:
        return super().forward(torch.where(weight.abs() < self.clip, weight, weight.detach()))

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, clip={self.clip}'


@MODELS.register_module()
class TernaryBERTActivation(ActivationQuantizer):
    r"""Activations on even levels between minus and plus the input's own largest magnitude.

    Forward and backward are :func:`rebnn_mm.functional.symmetric_round` of the clipped input, with its largest
    magnitude as limit. Two bits give -1, 0 and 1 times the largest magnitude.

    Args:
        bits: k, from 2 to 8.
        clip: magnitude at which the input is clipped; outside it gets no gradient.
        over: what shares a maximum: ``'sample'``, in a linear layer one token, or ``'tensor'``, all that goes in at
            once, as in the released code. With ``'tensor'`` a prediction depends on what else is in its batch.

    Raises:
        ValueError: ``bits`` or ``over`` is out of range.

    Source: Zhang et al. 2020 (TernaryBERT), as its released code computes it.

    Example:
        >>> TernaryBERTActivation(3)(torch.tensor([[0.5, -1.5, 4.0], [0.1, 0.3, -0.4]]))
        tensor([[ 0.0000, -2.5000,  2.5000],
                [ 0.0000,  0.4000, -0.4000]])
    """

    stock_shift: ClassVar[str | None] = None
    values = Values('other')

    def __init__(
        self,
        channels: int,
        channel_dim: int = 1,
        shift: str | None = None,
        bits: int = 2,
        clip: float = 2.5,
        over: str = 'sample',
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        if over not in ('sample', 'tensor'):
            raise RebnnError(f"TernaryBERTActivation: over={over!r} is unknown; use 'sample' or 'tensor'")
        self.bits = check_bits('TernaryBERTActivation', bits, least=2)
        self.clip = clip
        self.over = over

    def quantize(self, x: Tensor) -> Tensor:
        if not x.numel():  # it has no maximum
            return x
        dims = self.sample_dims(x) if self.over == 'sample' else tuple(range(x.dim()))
        limit = x.detach().abs().amax(dim=dims, keepdim=True).clamp(max=self.clip)
        return symmetric_round(x, limit, self.bits, self.clip)

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, bits={self.bits}, clip={self.clip}, over={self.over!r}'
