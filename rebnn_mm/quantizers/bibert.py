"""BiBERT's weight quantizer."""

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import centred_sign, channel_centred, channel_mean_abs, sign
from .base import WeightQuantizer


@MODELS.register_module()
class BiBERTWeight(WeightQuantizer):
    r"""Sign of the centred channel times the mean magnitude of the uncentred one, :func:`functional.centred_sign`.

    It has no state, so an embedding quantizes the rows of a batch and no others.

    Source: Qin et al. 2022 (BiBERT).

    Example:
        >>> import torch
        >>> BiBERTWeight((1, 3))(torch.tensor([[1.0, 2.0, 6.0]]))
        tensor([[-3., -3.,  3.]])
    """

    channels_alone = True

    def latent(self, weight: Tensor) -> Tensor:
        """The centred weight."""
        return channel_centred(weight)

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return centred_sign(weight)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs of the centred weight and the mean of |w| per channel."""
        return sign(channel_centred(weight)), channel_mean_abs(weight)
