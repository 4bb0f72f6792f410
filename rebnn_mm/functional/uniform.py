"""DoReFa-Net's uniform quantization to k bits."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def uniform_levels(x: Tensor, bits: int) -> Tensor:
    r"""Number of the nearest of :math:`2^k` levels between 0 and 1, with straight-through gradient.

    .. math::
        n = round((2^k - 1) x), \qquad \frac{\partial L}{\partial x} = (2^k - 1) \frac{\partial L}{\partial n}

    Args:
        x: any shape, values in [0, 1].
        bits: k.

    Source: Zhou et al. 2016 (DoReFa-Net), quantize_k times :math:`2^k - 1`.

    Example:
        >>> uniform_levels(torch.tensor([0., 0.4, 1.]), 2)
        tensor([0., 1., 3.])
    """
    return _RoundSTE.apply(x * (2**bits - 1))


def dorefa_unit_weight(weight: Tensor) -> Tensor:
    r"""The latent weight squeezed into [0, 1], as it is before DoReFa-Net quantizes it.

    .. math:: x = \frac{\tanh w}{2 \max |\tanh w|} + \frac{1}{2}

    The maximum is over the layer and takes part in the gradient.

    Args:
        weight: any shape.

    Source: Zhou et al. 2016, k-bit weights.

    Example:
        >>> dorefa_unit_weight(torch.tensor([-2., 0., 2.]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    squeezed = weight.tanh()
    largest = squeezed.abs().amax().clamp(min=torch.finfo(weight.dtype).tiny)
    return squeezed / (2 * largest) + 0.5
