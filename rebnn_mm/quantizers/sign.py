"""The two plain signs."""

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import sign_approx, sign_ste
from .base import ActivationQuantizer


@MODELS.register_module()
class BinarySign(ActivationQuantizer):
    """Sign with the clipped straight-through estimator, :func:`rebnn_mm.functional.sign_ste`.

    Example:
        >>> import torch
        >>> BinarySign(3)(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x, any shape."""
        return sign_ste(x)


@MODELS.register_module()
class BinaryApproxSign(ActivationQuantizer):
    """Sign with Bi-Real Net's piecewise quadratic estimator, :func:`rebnn_mm.functional.sign_approx`.

    Example:
        >>> import torch
        >>> x = torch.tensor([[-0.25, 0.0, 1.5]], requires_grad=True)
        >>> BinaryApproxSign(3)(x).sum().backward()
        >>> x.grad
        tensor([[1.5000, 2.0000, 0.0000]])
    """

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x, any shape."""
        return sign_approx(x)
