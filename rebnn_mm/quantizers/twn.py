"""Ternary weights, as TernaryBERT and BinaryBERT's first stage have them."""

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import ternary_codes, ternary_weight
from .base import WeightQuantizer
from .options import check_per, per_channel_factor


@MODELS.register_module()
class TWNWeight(WeightQuantizer):
    r"""Ternary weights: -s, 0 and s.

    Forward and backward are :func:`rebnn_mm.functional.ternary_weight`; the values need two bits.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        per: whether one scale covers the ``'tensor'``, as in TernaryBERT's linear layers, or a ``'channel'``, as in
            its word embedding.
        clip: magnitude from which on a weight gets no gradient.

    Raises:
        ValueError: ``per`` is neither.

    Source: Li and Liu 2016 (Ternary Weight Networks); Zhang et al. 2020 (TernaryBERT).

    Example:
        >>> import torch
        >>> TWNWeight((1, 4))(torch.tensor([[0.1, -1.0, 2.0, 0.2]]))
        tensor([[ 0.0000, -1.5000,  1.5000,  0.0000]])
    """

    bits = 2

    def __init__(self, weight_shape: tuple[int, ...], per: str = 'tensor', clip: float = 2.5) -> None:
        super().__init__(weight_shape)
        self.per = check_per('TWNWeight', per)
        self.clip = clip
        self.channels_alone = per == 'channel'
        self.factors = 1 if per == 'tensor' else weight_shape[0]

    def forward(self, weight: Tensor) -> Tensor:
        """The ternary weight, of the latent weight's shape."""
        return ternary_weight(weight, self.per, self.clip)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """-1, 0 and 1, and the scale for every channel."""
        codes, scale = ternary_codes(weight, self.per)
        return codes, per_channel_factor(scale, weight)

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'per={self.per!r}, clip={self.clip}'
