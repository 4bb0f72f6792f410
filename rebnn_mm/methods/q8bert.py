"""Q8BERT (Zafrir et al. 2019): symmetric and uniform levels, with a range that is followed in training."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor

from ..errors import RebnnError
from ..functional import channel_dims, symmetric_codes, symmetric_round
from ..functional.native import is_repeated
from ..quantizers import ActivationQuantizer, RoundedWeight, Values, check_bits


@MODELS.register_module()
class Q8BERTWeight(RoundedWeight):
    r"""Weights on even levels between minus and plus their largest magnitude.

    They are those of :func:`rebnn_mm.functional.symmetric_codes` with :math:`limit = \max |w|`; the gradient passes
    unchanged. Two bits (Q2BERT) leave -1, 0 and 1 times the largest magnitude, so most weights are 0.

    Args:
        bits: k, from 2 to 8.
        per: whether one range covers the ``'tensor'``, as in Q8BERT, or a ``'channel'``.

    Raises:
        ValueError: ``bits`` or ``per`` is out of range.

    Source: Zafrir et al. 2019 (Q8BERT).

    Example:
        >>> Q8BERTWeight((1, 3), bits=2)(torch.tensor([[0.4, -0.6, 1.0]]))
        tensor([[ 0., -1.,  1.]])
    """

    def __init__(self, weight_shape: tuple[int, ...], bits: int = 8, per: str = 'tensor') -> None:
        super().__init__(weight_shape, per)
        self.bits = check_bits('Q8BERTWeight', bits, least=2)

    def levels(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        limit = weight.abs().amax(dim=channel_dims(weight, self.per), keepdim=True)
        return symmetric_codes(weight, limit, self.bits)

    def extra_repr(self) -> str:
        return f'bits={self.bits}, {super().extra_repr()}'


@MODELS.register_module()
class Q8BERTActivation(ActivationQuantizer):
    r"""Activations on even levels of a range that follows the largest magnitude seen in training.

    .. math:: r \leftarrow d \, r + (1 - d) \max |x|

    in every forward pass in training, as a batch norm follows its mean; r starts at the first batch's maximum. Of
    several processes :class:`rebnn_mm.engine.BinaryHook` takes the largest r after every step.
    Forward and backward are :func:`rebnn_mm.functional.symmetric_round` with :math:`limit = r`; the gradient passes
    unchanged. Before anything was seen in training, evaluation takes the input's own maximum.

    Args:
        bits: k, from 2 to 8.
        decay: d. The released code has 0.9999, which in a run of some thousand steps stays near the first batch.

    Attributes:
        range (Tensor): buffer r, scalar; 0 before anything was seen.

    Raises:
        ValueError: ``bits`` or ``decay`` is out of range.

    Source: Zafrir et al. 2019 (Q8BERT).

    Example:
        >>> quantizer = Q8BERTActivation(2, bits=3)
        >>> quantizer(torch.tensor([[3.0, 1.2]]))
        tensor([[3., 1.]])
        >>> quantizer.eval()(torch.tensor([[-9.0, 1.6]]))
        tensor([[-3.,  2.]])
    """

    stock_shift: ClassVar[str | None] = None
    values = Values('other')
    followed_maxima: ClassVar[tuple[str, ...]] = ('range',)
    range: Tensor

    def __init__(
        self, channels: int, channel_dim: int = 1, shift: str | None = None, bits: int = 8, decay: float = 0.9999
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        self.bits = check_bits('Q8BERTActivation', bits, least=2)
        if not 0 <= decay < 1:
            raise RebnnError(f'Q8BERTActivation: decay={decay} must be at least 0 and below 1')
        self.decay = decay
        self.register_buffer('range', torch.tensor(0.0))

    def quantize(self, x: Tensor) -> Tensor:
        if not x.numel():
            return x
        # Both branches are computed: to ask whether the range is 0 would wait for the accelerator.
        largest = x.detach().abs().amax().to(self.range.dtype)
        follows = self.training and not is_repeated()
        followed = self.decay * self.range + (1 - self.decay) * largest if follows else self.range
        limit = torch.where(self.range > 0, followed, largest)
        if follows:
            self.range.copy_(limit)
        return symmetric_round(x, limit.to(x.dtype), self.bits)

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, bits={self.bits}, decay={self.decay}'
