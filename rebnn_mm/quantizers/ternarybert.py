"""TernaryBERT's activation quantizer."""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import symmetric_round
from .base import ActivationQuantizer
from .options import check_bits


@MODELS.register_module()
class TernaryBERTActivation(ActivationQuantizer):
    r"""Activations on even levels between minus and plus the input's own largest magnitude.

    Forward and backward are :func:`rebnn_mm.functional.symmetric_round` of the clipped input, with its largest
    magnitude as limit. Two bits give -1, 0 and 1 times the largest magnitude.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: see :class:`ActivationQuantizer`.
        bits: k, from 2 to 8.
        clip: magnitude at which the input is clipped; outside it gets no gradient.
        over: what shares a maximum: ``'sample'``, in a linear layer one token, or ``'tensor'``, all that goes in at
            once, as in the released code. With ``'tensor'`` a prediction depends on what else is in its batch.

    Raises:
        ValueError: ``bits`` or ``over`` is out of range.

    Source: Zhang et al. 2020 (TernaryBERT), as its released code computes it.

    Example:
        >>> import torch
        >>> TernaryBERTActivation(3)(torch.tensor([[0.5, -1.5, 4.0], [0.1, 0.3, -0.4]]))
        tensor([[ 0.0000, -2.5000,  2.5000],
                [ 0.0000,  0.4000, -0.4000]])
    """

    stock_shift: ClassVar[str | None] = None
    has_codes: ClassVar[bool] = False

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
            raise ValueError(f"TernaryBERTActivation: over={over!r} is unknown; use 'sample' or 'tensor'")
        self.bits = check_bits('TernaryBERTActivation', bits, least=2)
        self.clip = clip
        self.over = over

    def quantize(self, x: Tensor) -> Tensor:
        """Quantize x, any shape."""
        dims = self.sample_dims(x) if self.over == 'sample' else tuple(range(x.dim()))
        limit = x.detach().abs().amax(dim=dims, keepdim=True).clamp(max=self.clip)
        return symmetric_round(x, limit, self.bits, self.clip)

    def extra_repr(self) -> str:
        """Channels, shift and options, as printed by ``print(model)``."""
        return f'{super().extra_repr()}, bits={self.bits}, clip={self.clip}, over={self.over!r}'
