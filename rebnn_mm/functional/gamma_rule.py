"""The learning rule of the balanced parameter gamma."""

from torch import Tensor

from .channel import channel_dims


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
        >>> import torch
        >>> flip_share(torch.tensor([[True, False], [False, False]]))
        tensor([0.5000, 0.0000])
    """
    return changed.sum(dim=channel_dims(changed)).float() / changed[0].numel()


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
        >>> import torch
        >>> max_gradient(torch.tensor([[0.2, -0.6]]), torch.tensor([0.5]))
        tensor([1.2000])
    """
    dims = channel_dims(weight_grad)
    return weight_grad.abs().amax(dim=dims) / alpha


def bounded(gamma: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Clamp gamma to the bounds of the paper's ablation, (1e-5, 2e-4), or leave it.

    Args:
        gamma: any shape.
        bounds: lower and upper bound, or None for no bounds.

    Example:
        >>> import torch
        >>> bounded(torch.tensor([0., 5e-5, 1.]), (1e-5, 2e-4))
        tensor([1.0000e-05, 5.0000e-05, 2.0000e-04])
    """
    return gamma if bounds is None else gamma.clamp(*bounds)
