"""The resilient gradient: the weighted reconstruction loss, and the limit of its weight gamma."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import native
from .scaled_sign import zero_outside_one_


class Channels(NamedTuple):
    """Channels of several weights: all values in a row, and views of them, a matrix for each fan-in."""

    values: Tensor
    matrices: Sequence[Tensor]

    def of_each(self, values: Tensor) -> Sequence[Tensor]:
        """Share one value for each channel out to the matrices."""
        return values.split([len(matrix) for matrix in self.matrices])

    def like(self, values: Tensor) -> Sequence[Tensor]:
        """View other values of the same channels as such matrices."""
        parts = values.split([matrix.numel() for matrix in self.matrices])
        return [part.view_as(matrix) for part, matrix in zip(parts, self.matrices, strict=True)]


def join_channels(weights: Sequence[Tensor]) -> Channels:
    """Join weights; neighbours of one fan-in give one matrix.

    On a GPU each operation has to be started, and takes little longer for a whole network than for one layer.
    """
    values = torch.cat([weight.flatten() for weight in weights])
    shapes: list[tuple[int, int]] = []
    for weight in weights:
        channels, fan_in = len(weight), math.prod(weight.shape[1:])
        if shapes and shapes[-1][1] == fan_in:
            channels += shapes.pop()[0]
        shapes.append((channels, fan_in))
    parts = values.split([math.prod(shape) for shape in shapes])
    return Channels(values, [part.view(shape) for part, shape in zip(parts, shapes, strict=True)])


class Measured(NamedTuple):
    r"""Measurements of the task's gradient and the latent weight that the rule needs.

    Of all values ``negative``, where the weight is; of each channel the ``largest`` magnitude and the norm (``task``)
    of the gradient, the sum of the ``magnitude`` of the weight and the norm (``distance``) of
    :math:`r_i = w_i - \alpha_i b_i`. ``residuals`` is r itself, where it had to be computed.
    """

    negative: Tensor
    largest: Tensor
    task: Tensor
    magnitude: Tensor
    distance: Tensor
    residuals: Sequence[Tensor] = ()


def measure_channels(grad: Channels, latent: Channels, alpha: Tensor) -> Measured:
    """Measure the gradient, before the mask 1[|w| <= 1], and the latent weight of channels."""
    rows = zip(grad.matrices, latent.matrices, latent.of_each(alpha), strict=True)
    measures = [measure_by_kernel(*own) for own in rows]
    found = [own for own in measures if own is not None]
    residuals: Sequence[Tensor] = ()
    if len(found) == len(measures):
        negative = torch.cat([own[0].flatten() for own in found])
        columns = [own[1:] for own in found]
    else:
        negative = latent.values < 0
        residuals = _residuals(latent, negative, alpha)
        columns = [
            (_norms(g, math.inf), _norms(g), _norms(w, 1), _norms(r))
            for g, w, r in zip(grad.matrices, latent.matrices, residuals, strict=True)
        ]
    joined = torch.cat([value for column in zip(*columns, strict=True) for value in column])
    largest, task, magnitude, distance = joined.split(len(alpha))
    return Measured(negative, largest, task, magnitude, distance, residuals)


def _norms(matrix: Tensor, order: float = 2) -> Tensor:
    return torch.linalg.vector_norm(matrix, ord=order, dim=1)


def _residuals(latent: Channels, negative: Tensor, alpha: Tensor) -> list[Tensor]:
    """Return w - alpha b; exact, since a product with a sign is."""
    signs = torch.where(negative, -1.0, 1.0).to(alpha.dtype)
    rows = zip(latent.matrices, latent.like(signs), latent.of_each(alpha), strict=True)
    return [torch.addcmul(weight, sign, scale[:, None], value=-1) for weight, sign, scale in rows]


def add_reconstruction_(
    grad: Channels, latent: Channels, alpha: Tensor, gamma: Tensor, mask: bool = True, residuals: Sequence[Tensor] = ()
) -> None:
    r"""Finish the gradient :math:`\alpha_i G_{ij}` of latent weights in place (the ReBNN paper, Eq. 5 and 8).

    .. math::
        \delta_{ij} = \alpha_i G_{ij} 1_{|w_{ij}| \le 1} + \gamma_i (w_{ij} - \alpha_i b_{ij})

    Without ``mask`` the factor 1[|w| <= 1] is left out; ``residuals`` are w - alpha b of each matrix, if known.
    """
    if not residuals:
        channels = latent.of_each(alpha), latent.of_each(gamma)
        rows = list(zip(grad.matrices, latent.matrices, *channels, strict=True))
        if all(add_by_kernel_(*own, mask) for own in rows):
            return
        residuals = _residuals(latent, latent.values < 0, alpha)
    if mask:
        zero_outside_one_(grad.values, latent.values)
    for own, residual, factor in zip(grad.matrices, residuals, latent.of_each(gamma), strict=True):
        own.addcmul_(residual, factor[:, None])


def flips_since(
    negative: Tensor, latent: Channels, changed_before: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Find where a step has changed signs, how many in each channel, and how many of them the step before had, too."""
    before = [None] * len(latent.matrices) if changed_before is None else latent.like(changed_before)
    found = [count_by_kernel(*own) for own in zip(latent.matrices, latent.like(negative), before, strict=True)]
    if None not in found:
        flags, *columns = zip(*found, strict=True)
        changed = torch.cat([own.flatten() for own in flags])
        once, again = (torch.cat(column).long() for column in columns)
    else:
        changed = negative ^ (latent.values < 0)
        repeated = torch.zeros_like(changed) if changed_before is None else changed & changed_before
        both = torch.stack([changed, repeated]).int().split([matrix.numel() for matrix in latent.matrices], dim=1)
        rows = [own.view(2, *matrix.shape) for own, matrix in zip(both, latent.matrices, strict=True)]
        # In 32 bits a sum takes a small fraction of the time that it takes in 64.
        counted = torch.cat([own.sum(dim=2, dtype=torch.int32) for own in rows], dim=1).long()
        once, again = counted[0], counted[1]
    return changed, once, again


def measure_by_kernel(grad: Tensor, latent: Tensor, alpha: Tensor) -> tuple[Tensor, ...] | None:
    """Negative weights; of each channel max |g|, norm of g, sum of |w|, norm of w - alpha sign(w); or None."""
    if native.kernels_for(latent, grad, channels=[alpha]) is None:
        return None
    negative = torch.empty_like(latent, dtype=torch.bool)
    measured = [torch.empty_like(alpha) for _ in range(4)]
    native.over_channels('rebnn_measure_channels', latent, alpha, grad, negative, *measured)
    return negative, *measured


def add_by_kernel_(grad: Tensor, latent: Tensor, alpha: Tensor, gamma: Tensor, mask: bool) -> bool:
    """Add gamma (w - alpha sign(w)) to a gradient, with a mask times 1[|w| <= 1], in place; False for no kernel."""
    if native.kernels_for(latent, grad, channels=[alpha, gamma]) is None:
        return False
    native.over_channels('rebnn_add_reconstruction', latent, alpha, gamma, int(mask), grad)
    return True


def count_by_kernel(
    latent: Tensor, negative: Tensor, changed_before: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Find where signs have changed, how many in each channel, and how many of them had before; or None."""
    # A model may have been laid out in another order since its signs were noted.
    flags = [negative] if changed_before is None else [negative, changed_before]
    fits = all(t.dtype == torch.bool and t.shape == latent.shape and t.is_contiguous() for t in flags)
    if not fits or not native.readable(*flags) or native.kernels_for(latent) is None:
        return None
    changed = torch.empty_like(negative)
    flips, sequential = (latent.new_empty(len(latent), dtype=torch.int32) for _ in range(2))
    native.over_channels('rebnn_count_flips', latent, negative, changed_before, changed, flips, sequential)
    return changed, flips, sequential


def limit_gamma(gamma: Tensor, task: Tensor, distance: Tensor, share: float | None) -> Tensor:
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
        >>> limit_gamma(gamma, task, distance, 0.1), limit_gamma(gamma, task, distance, None)
        (tensor([0.0000, 0.1000, 0.5000]), tensor([0.0000, 0.5000, 0.5000]))
    """
    if share is None:
        return gamma * (task > 0)
    return torch.minimum(gamma, share * task / distance.clamp(min=torch.finfo(distance.dtype).tiny))
