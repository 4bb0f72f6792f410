"""The weighted reconstruction loss that makes the gradient resilient."""

import torch
from torch import Tensor

from .channel import channel_dims, per_channel
from .sign import sign


def reconstruction_loss(weight: Tensor, alpha: Tensor, gamma: Tensor) -> Tensor:
    r"""Weighted reconstruction loss of one layer.

    .. math::
        L_R = \frac{1}{2} \sum_i \gamma_i \| w_i - \alpha_i \, sign(w_i) \|_2^2

    Training adds its gradient (:func:`reconstruction_gradient`) once per optimizer step; this function is for looking
    at the value and for checking that gradient.

    Args:
        weight: latent weight, shape (C_out, ...).
        alpha: scaling factor, shape (C_out,).
        gamma: balanced parameter, shape (C_out,).

    Source: the ReBNN paper, Eq. 7.

    Example:
        >>> reconstruction_loss(torch.tensor([[1., -3.]]), torch.tensor([2.]), torch.tensor([0.5]))
        tensor(0.5000)
    """
    residual = weight - per_channel(alpha, weight) * sign(weight)
    return 0.5 * (gamma * residual.square().sum(dim=channel_dims(weight))).sum()


def reconstruction_gradient(weight: Tensor, alpha: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    r"""Gradient of the reconstruction loss with respect to latent weight and scaling factor.

    .. math::
        \frac{\partial L_R}{\partial w_{ij}} = \gamma_i (w_{ij} - \alpha_i b_{ij})
        \qquad
        \frac{\partial L_R}{\partial \alpha_i} = -\gamma_i \sum_j (w_{ij} - \alpha_i b_{ij}) b_{ij}

    The paper prints the second one (Eq. 16) without the minus and without the sum; its own loss gives the form here.

    Args:
        weight: latent weight, shape (C_out, ...).
        alpha: scaling factor, shape (C_out,).
        gamma: balanced parameter, shape (C_out,).

    Returns:
        tuple[Tensor, Tensor]: shapes (C_out, ...) and (C_out,).

    Source: the ReBNN paper, Eq. 7, 8 and 16.

    Example:
        >>> reconstruction_gradient(torch.tensor([[1., -3.]]), torch.tensor([2.]), torch.tensor([0.5]))
        (tensor([[-0.5000, -0.5000]]), tensor([-0.]))
    """
    residual, pull = reconstruction_residual(weight, alpha)
    return residual.mul_(per_channel(gamma, weight)), -gamma * pull


def reconstruction_residual(weight: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    r"""What gamma multiplies in the two gradients.

    .. math::
        r_{ij} = w_{ij} - \alpha_i b_{ij}
        \qquad
        p_i = \sum_j r_{ij} b_{ij}

    Args:
        weight: latent weight, shape (C_out, ...).
        alpha: scaling factor, shape (C_out,).

    Returns:
        tuple[Tensor, Tensor]: r and p, shapes (C_out, ...) and (C_out,).

    Source: the ReBNN paper, Eq. 7, 8 and 16.

    Example:
        >>> reconstruction_residual(torch.tensor([[1., -4.]]), torch.tensor([2.]))
        (tensor([[-1., -2.]]), tensor([1.]))
    """
    wide = per_channel(alpha, weight)
    # In place, because on a CPU a fresh copy of the weight costs more than the arithmetic.
    residual = (weight < 0).to(weight.dtype).mul_(2 * wide).sub_(wide).add_(weight)
    # sum_j (w - alpha b) b = sum_j |w| - M alpha, which needs no further pass over products.
    pull = torch.linalg.vector_norm(weight, ord=1, dim=channel_dims(weight)) - alpha * weight[0].numel()
    return residual, pull
