"""The step to 0 and 1 that a binarised softmax ends with."""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import step_ste
from .base import ActivationQuantizer


@MODELS.register_module()
class BinaryStep(ActivationQuantizer):
    r"""1 where the input is at least 0, else 0, :func:`rebnn_mm.functional.step_ste`.

    Behind a softmax, which is positive, it is 1 everywhere: the loss of information that BiBERT's Bi-Attention is made
    against, and what a fully binarised BinaryBERT has.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: see :class:`ActivationQuantizer`.

    Source: the forward is DoReFa-Net's range at one bit with threshold 0; named as a baseline by Qin et al. 2022
        (BiBERT).

    Example:
        >>> import torch
        >>> BinaryStep(3)(torch.tensor([[-0.5, 0.0, 0.2]]))
        tensor([[0., 1., 1.]])
    """

    has_codes: ClassVar[bool] = False

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x, any shape."""
        return step_ste(x)
