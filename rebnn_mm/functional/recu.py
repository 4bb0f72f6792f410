"""ReCU's rectified clamp: revives weights that would never change their sign."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .channel import channel_dims
from .sign import sign

LAPLACE_STD = 2 * math.sqrt(2)
"""Standard deviation of a Laplace distribution of scale 2, which the latent weights are brought to."""

EPS = 1e-5


class _RectifiedSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bound: Tensor) -> Tensor:
        ctx.save_for_backward(weight, bound)
        return sign(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        weight, bound = ctx.saved_tensors
        return grad * (weight.abs() <= bound), None


def laplace_standardised(weight: Tensor) -> Tensor:
    r"""Centre each channel and bring it to the standard deviation :math:`2 \sqrt 2`.

    .. math:: v_{ij} = 2 \sqrt 2 \, \frac{w_{ij} - \bar w_i}{\sqrt{var(w_i) + 10^{-5}}}

    Mean and variance take part in the gradient.

    Args:
        weight: latent weight, shape (C_out, ...).

    Source: Xu et al. 2021 (ReCU), weight standardization, with the released code's epsilon.

    Example:
        >>> laplace_standardised(torch.tensor([[1., 3.]]))
        tensor([[-2.8284,  2.8284]])
    """
    dims = channel_dims(weight)
    centred = weight - weight.mean(dim=dims, keepdim=True)
    return centred * (LAPLACE_STD * (centred.square().mean(dim=dims, keepdim=True) + EPS).rsqrt())


def rectified_sign(weight: Tensor, tau: Tensor) -> Tensor:
    r"""Sign of the weights clamped to their quantiles :math:`\pm Q_\tau`.

    .. math::
        b = sign(clamp(v, -Q_\tau, Q_\tau)), \quad Q_\tau = -\ln(2 - 2 \tau) \, \mathrm{mean} |v|
        \qquad
        \frac{\partial L}{\partial v} = \frac{\partial L}{\partial b} \, 1_{|v| \le Q_\tau}

    :math:`Q_\tau` is the quantile of a Laplace distribution whose scale is the mean magnitude over the layer; no
    gradient goes through it.

    Args:
        weight: standardised latent weight, shape (C_out, ...).
        tau: scalar tensor from 0.5 to 1; 1 clamps nothing.

    Source: Xu et al. 2021, rectified clamp unit.

    Example:
        >>> v = torch.tensor([[-1., 0., 3.]], requires_grad=True)
        >>> rectified_sign(v, torch.tensor(0.85)).sum().backward()
        >>> v.grad
        tensor([[1., 1., 0.]])
    """
    bound = -torch.log(2 - 2 * tau) * weight.detach().abs().mean()
    return _RectifiedSign.apply(weight, bound)


def recu_tau(done: float, start: float = 0.85, end: float = 0.99) -> float:
    r"""The exponential schedule of tau.

    .. math:: \tau = A e^{p} + B, \quad A = \frac{\tau_1 - \tau_0}{e - 1}, \quad B = \tau_0 - A

    Args:
        done: p, the share of training that is finished.
        start: value at p = 0.
        end: value at p = 1.

    Source: Xu et al. 2021, exponential growth of tau.

    Example:
        >>> [round(recu_tau(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.85, 0.9029, 0.99]
    """
    slope = (end - start) / (math.e - 1)
    return slope * math.exp(done) + start - slope
