"""XNOR-Net's weight quantizer."""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import centred_and_clamped_, channel_mean_abs, sign, xnor_weight
from .base import WeightQuantizer


@MODELS.register_module()
class XNORWeight(WeightQuantizer):
    r"""Sign times the channel's mean magnitude, of weights that are centred and clamped after every step.

    Forward and backward are :func:`rebnn_mm.functional.xnor_weight`; the latent weight is then put through
    :func:`rebnn_mm.functional.centred_and_clamped_`. The paper's map of activation scales (K) is left out, as in the
    released code.

    Source: Rastegari et al. 2016 (XNOR-Net).

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]])
        >>> quantizer = XNORWeight((1, 2))
        >>> quantizer.constrain(w)
        >>> w, quantizer(w)
        (tensor([[ 1., -1.]]), tensor([[ 1., -1.]]))
    """

    hook: ClassVar[str] = 'BinaryHook'

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return xnor_weight(weight)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs and the mean of |w| per channel."""
        return sign(weight), channel_mean_abs(weight)

    def constrain(self, weight: Tensor) -> None:
        """Centre over the input channels and clamp to [-1, 1]."""
        centred_and_clamped_(weight)
