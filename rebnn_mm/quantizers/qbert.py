"""Q-BERT's weight quantizer: a range for every group of output neurons."""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import grouped_round
from .base import WeightQuantizer
from .options import check_bits


@MODELS.register_module()
class QBERTWeight(WeightQuantizer):
    r"""Weights on :math:`2^k` even levels between the least and the largest weight of their group.

    Forward and backward are :func:`rebnn_mm.functional.grouped_round`; the gradient passes unchanged. The levels are
    no integers times a factor, since a group's range need not be symmetric.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        bits: k, from 1 to 8.
        groups: groups of neighbouring output channels; the paper has up to 128 for a matrix of BERT_BASE. Where it
            does not divide C_out, the largest smaller number that does is taken.

    Attributes:
        groups: their number.

    Raises:
        ValueError: ``bits`` or ``groups`` is out of range.

    Source: Shen et al. 2020 (Q-BERT), group-wise quantization. Its mixed precision from the Hessian is left out.

    Example:
        >>> import torch
        >>> QBERTWeight((2, 2), bits=2, groups=2)(torch.tensor([[0.0, 3.0], [-1.0, 2.0]]))
        tensor([[ 0.,  3.],
                [-1.,  2.]])
        >>> QBERTWeight((96, 32), groups=64).groups
        48
    """

    has_codes: ClassVar[bool] = False

    def __init__(self, weight_shape: tuple[int, ...], bits: int = 2, groups: int = 128) -> None:
        super().__init__(weight_shape)
        self.bits = check_bits('QBERTWeight', bits, least=1)
        if groups < 1:
            raise ValueError(f'QBERTWeight: groups={groups} must be at least 1')
        self.groups = next(n for n in range(min(groups, weight_shape[0]), 0, -1) if weight_shape[0] % n == 0)
        self.factors = 2 * self.groups  # the ends of each range

    def forward(self, weight: Tensor) -> Tensor:
        """The quantized weight, of the latent weight's shape."""
        return grouped_round(weight, self.groups, self.bits)

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'bits={self.bits}, groups={self.groups}'
