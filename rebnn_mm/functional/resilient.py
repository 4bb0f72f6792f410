"""The resilient gradient: the weighted reconstruction loss, and the learning rule of its weight gamma."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import native
from .channel import channel_dims, per_channel
from .scaled_sign import zero_outside_one_
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
    r"""Terms that gamma multiplies in the two gradients.

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
    # sum_j (w - alpha b) b = sum_j |w| - M alpha, which needs no further pass over products.
    pull = torch.linalg.vector_norm(weight, ord=1, dim=channel_dims(weight)) - alpha * weight[0].numel()
    return _residual(weight, weight < 0, alpha), pull


def _residual(weight: Tensor, negative: Tensor, alpha: Tensor) -> Tensor:
    wide = per_channel(alpha, weight)
    # In place, because on a CPU a fresh copy of the weight costs more than the arithmetic.
    return negative.to(weight.dtype).mul_(2 * wide).sub_(wide).add_(weight)


class Measured(NamedTuple):
    """Statistics of the task's gradient and the latent weight that the rule needs.

    Attributes:
        negative: bool, (C_out, ...), where the weight is negative.
        largest: largest magnitude of the gradient, shape (C_out,), as are the others.
        task: norm of the gradient.
        magnitude: sum of the magnitudes of the weight.
        distance: norm of :math:`r_i` of :func:`reconstruction_residual`.
        residual: :math:`r` itself, where it had to be computed.
    """

    negative: Tensor
    largest: Tensor
    task: Tensor
    magnitude: Tensor
    distance: Tensor
    residual: Tensor | None = None


def measured(grad: Tensor, latent: Tensor, alpha: Tensor) -> Measured:
    """Measure the channels of a layer.

    Args:
        grad: gradient of the latent weight before the mask 1[|w| <= 1], shape (C_out, ...).
        latent: latent weight, of the same shape.
        alpha: scaling factor, shape (C_out,), positive.

    Example:
        >>> measured(torch.tensor([[3., -4.]]), torch.tensor([[1., -3.]]), torch.tensor([2.])).task
        tensor([5.])
    """
    found = native.measure_channels(grad, latent, alpha)
    if found is not None:
        return Measured(*found)
    dims = channel_dims(grad)
    negative = latent < 0
    residual = _residual(latent, negative, alpha)
    task, distance = (torch.linalg.vector_norm(tensor, dim=dims) for tensor in (grad, residual))
    magnitude = torch.linalg.vector_norm(latent, ord=1, dim=dims)
    return Measured(negative, _largest(grad), task, magnitude, distance, residual)


def add_reconstruction_(
    grad: Tensor,
    latent: Tensor,
    alpha: Tensor,
    gamma: Tensor,
    mask: bool = True,
    residual: Tensor | None = None,
) -> Tensor:
    r"""Finish the gradient of a latent weight in place.

    .. math::
        \delta_{ij} = \alpha_i G_{ij} 1_{|w_{ij}| \le 1} + \gamma_i (w_{ij} - \alpha_i b_{ij})

    Args:
        grad: :math:`\alpha_i G_{ij}`, shape (C_out, ...).
        latent: latent weight, of the same shape.
        alpha: scaling factor, shape (C_out,).
        gamma: balanced parameter, shape (C_out,).
        mask: False leaves out the factor 1[|w| <= 1].
        residual: w - alpha b, if it is known already; it is overwritten.

    Source: the ReBNN paper, Eq. 5 and 8.

    Example:
        >>> grad = torch.ones(1, 2)
        >>> add_reconstruction_(grad, torch.tensor([[0.5, -3.]]), torch.tensor([2.]), torch.tensor([0.5]))
        tensor([[ 0.2500, -0.5000]])
    """
    if residual is None and native.add_reconstruction_(grad, latent, alpha, gamma, mask):
        return grad
    if mask:
        zero_outside_one_(grad, latent)
    if residual is None:
        residual = _residual(latent, latent < 0, alpha)
    return grad.add_(residual.mul_(per_channel(gamma, residual)))


def flips_since(
    negative: Tensor, latent: Tensor, changed_before: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Signs that a step has changed.

    Args:
        negative: bool, (C_out, ...), where the latent weight was negative before the step.
        latent: latent weight after it, of the same shape.
        changed_before: bool, where the step before had changed signs.

    Returns:
        tuple[Tensor, Tensor, Tensor]: bool, (C_out, ...), where the sign differs; int32, (C_out,), how many do, and
        how many of these had changed the step before, too.

    Example:
        >>> flips_since(torch.tensor([[True, False]]), torch.tensor([[1., 1.]]))
        (tensor([[ True, False]]), tensor([1], dtype=torch.int32), tensor([0], dtype=torch.int32))
    """
    found = native.count_flips(latent, negative, changed_before)
    if found is not None:
        return found
    changed = negative ^ (latent < 0)
    flips = flip_count(changed)
    return changed, flips, torch.zeros_like(flips) if changed_before is None else flip_count(changed & changed_before)


def flip_count(changed: Tensor) -> Tensor:
    """Number of weights of each channel whose sign changed.

    Args:
        changed: bool, shape (C_out, ...).

    Returns:
        Tensor: int32, shape (C_out,).

    Example:
        >>> flip_count(torch.tensor([[True, False], [False, False]]))
        tensor([1, 0], dtype=torch.int32)
    """
    # Flat and in 32 bits this takes a small fraction of the time of sum(dim=(1, 2, 3)).
    return changed.flatten(1).sum(dim=1, dtype=torch.int32)


def flip_share(changed: Tensor) -> Tensor:
    r"""Share of the weights of each channel whose sign changed.

    .. math::
        \frac{1}{M} \| b_i^t \circ b_i^{t+1} - 1 \|_0

    Args:
        changed: bool, shape (C_out, ...): True where the sign differs.

    Returns:
        Tensor: float32, shape (C_out,), from 0 to 1.

    Source: the ReBNN paper, first factor of Eq. 14.

    Example:
        >>> flip_share(torch.tensor([[True, False], [False, False]]))
        tensor([0.5000, 0.0000])
    """
    return flip_count(changed).float() / changed[0].numel()


def max_gradient(weight_grad: Tensor, alpha: Tensor) -> Tensor:
    r"""Largest magnitude of the gradient of the binarised weight in each channel.

    .. math::
        \max_j |G_{ij}|, \qquad G_{ij} = \frac{1}{\alpha_i} \frac{\partial L}{\partial w_{ij}}

    Args:
        weight_grad: gradient of the latent weight before the mask 1[|w| <= 1], shape (C_out, ...).
        alpha: scaling factor, shape (C_out,), positive.

    Returns:
        Tensor: shape (C_out,).

    Source: the ReBNN paper, second factor of Eq. 14.

    Example:
        >>> max_gradient(torch.tensor([[0.2, -0.6]]), torch.tensor([0.5]))
        tensor([1.2000])
    """
    return _largest(weight_grad) / alpha


def _largest(grad: Tensor) -> Tensor:
    dims = channel_dims(grad)
    # Two reductions instead of abs(), which would write a copy of the whole gradient.
    return torch.maximum(grad.amax(dim=dims), -grad.amin(dim=dims))


def bounded(gamma: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Clamp gamma to the bounds of the paper's ablation, (1e-5, 2e-4), or leave it.

    Args:
        gamma: any shape.
        bounds: lower and upper bound, or None for no bounds.

    Example:
        >>> bounded(torch.tensor([0., 5e-5, 1.]), (1e-5, 2e-4))
        tensor([1.0000e-05, 5.0000e-05, 2.0000e-04])
    """
    return gamma if bounds is None else gamma.clamp(*bounds)


def limited(gamma: Tensor, task: Tensor, distance: Tensor, share: float | None) -> Tensor:
    r"""Gamma with which the reconstruction term stays below a share of the task's gradient.

    .. math::
        \min\left(\gamma_i, \; s \, \frac{\| \alpha_i G_i \|_2}{\| w_i - \alpha_i b_i \|_2}\right),
        \qquad 0 \text{ where } G_i = 0

    Eq. 14 is 0 in a channel without task gradient, and its lower bound is not: with norms that start at zero the bound
    alone would move the weights, to plus or minus alpha and away from any flip.

    Args:
        gamma: shape (C_out,), at least 0.
        task: norm of the task's gradient of each channel of the latent weight, shape (C_out,).
        distance: norm of w - alpha b of each channel, shape (C_out,).
        share: s, above 0; None for no limit but the zero.

    Source: the first case is this project's, not the paper's; the second is Eq. 14 before it is clamped.

    Example:
        >>> gamma, task, distance = torch.full((3,), 0.5), torch.tensor([0.0, 1.0, 9.0]), torch.ones(3)
        >>> limited(gamma, task, distance, 0.1), limited(gamma, task, distance, None)
        (tensor([0.0000, 0.1000, 0.5000]), tensor([0.0000, 0.5000, 0.5000]))
    """
    if share is not None:
        gamma = torch.minimum(gamma, share * task / distance.clamp(min=torch.finfo(distance.dtype).tiny))
    return gamma * (task > 0)
