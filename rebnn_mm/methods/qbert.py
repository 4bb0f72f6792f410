"""Q-BERT (Shen et al. 2020): weights on even levels of a range for every group of output neurons.

Its activations are those of Q8BERT.
"""

import torch
from mmengine.registry import MODELS
from torch import Tensor

from ..errors import RebnnError
from ..functional import straight_through
from ..quantizers import WeightQuantizer, check_bits


@MODELS.register_module()
class QBERTWeight(WeightQuantizer):
    r"""Weights on :math:`2^k` even levels between the least and the largest weight of their group.

    .. math::
        \hat w = l_g + s_g \, round\left(\frac{w - l_g}{s_g}\right), \quad
        s_g = \frac{h_g - l_g}{2^k - 1}
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    A group g is a run of neighbouring channels; :math:`l_g` and :math:`h_g` are its least and largest weight. The
    levels are not integers times a factor, since a group's range need not be symmetric.

    Args:
        bits: k, from 1 to 8.
        groups: groups of neighbouring output channels; the paper has up to 128 for a matrix of BERT_BASE. Where it
            does not divide C_out, the largest smaller number that does is taken.

    Attributes:
        groups: their number.

    Raises:
        ValueError: ``bits`` or ``groups`` is out of range.

    Source: Shen et al. 2020 (Q-BERT), group-wise quantization. Its mixed precision from the Hessian is left out.

    Example:
        >>> QBERTWeight((2, 2), bits=2, groups=2)(torch.tensor([[0.0, 3.0], [-1.0, 2.0]]))
        tensor([[ 0.,  3.],
                [-1.,  2.]])
        >>> QBERTWeight((96, 32), groups=64).groups
        48
    """

    def __init__(self, weight_shape: tuple[int, ...], bits: int = 2, groups: int = 128) -> None:
        super().__init__(weight_shape)
        self.bits = check_bits('QBERTWeight', bits, least=1)
        if groups < 1:
            raise RebnnError(f'QBERTWeight: groups={groups} must be at least 1')
        self.groups = next(n for n in range(min(groups, weight_shape[0]), 0, -1) if weight_shape[0] % n == 0)
        self.factors = 2 * self.groups  # the ends of each range

    def forward(self, weight: Tensor) -> Tensor:
        rows = weight.detach().reshape(self.groups, -1)
        low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
        step = ((high - low) / (2**self.bits - 1)).clamp(min=torch.finfo(weight.dtype).tiny)
        return straight_through(weight, (((rows - low) / step).round_() * step + low).view_as(weight))

    def extra_repr(self) -> str:
        return f'bits={self.bits}, groups={self.groups}'
