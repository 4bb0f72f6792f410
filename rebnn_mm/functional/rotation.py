"""RBNN's rotation of a layer's filters towards their signs."""

import math

import torch
from torch import Tensor

from .sign import sign


def standardised(x: Tensor, dims: tuple[int, ...], eps: float = 1e-8) -> Tensor:
    r"""Mean 0 and standard deviation 1 over some dimensions.

    .. math:: v = \frac{x - mean(x)}{\sqrt{var(x) + \epsilon}}

    Mean and variance (of the population) take part in the gradient. Half precision gives single precision.

    Args:
        x: any shape.
        dims: what one mean is taken over: all dimensions of a filter, or of a sample.
        eps: keeps constant values finite; they become 0.

    Example:
        >>> standardised(torch.tensor([[1., 3.], [5., 5.]]), (1,))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt()


def rotation_sides(values: int) -> tuple[int, int]:
    """Rows and columns of the matrix that a filter is folded into: the factors of its size nearest to a square.

    Args:
        values: weights per filter.

    Source: Lin et al. 2020 (RBNN), bi-rotation; two small rotations in place of one of size values x values.

    Example:
        >>> rotation_sides(64 * 9), rotation_sides(512 * 9), rotation_sides(7)
        ((24, 24), (64, 72), (1, 7))
    """
    rows = next(side for side in range(math.isqrt(values), 0, -1) if values % side == 0)
    return rows, values // rows


def random_rotation(size: int) -> Tensor:
    """A random orthogonal matrix, every one equally likely, from torch's generator.

    Args:
        size: rows and columns.

    Source: Mezzadri 2007, QR of a Gaussian matrix with the signs of R's diagonal moved into Q.

    Example:
        >>> q = random_rotation(3)
        >>> torch.allclose(q @ q.T, torch.eye(3), atol=1e-6)
        True
    """
    q, r = torch.linalg.qr(torch.randn(size, size))
    return q * sign(r.diagonal())


def rotated(filters: Tensor, left: Tensor, right: Tensor) -> Tensor:
    r"""Rotate every filter from both sides, :math:`R_1^T X_i R_2`.

    Autocast does not reach it: in half precision filters would change signs.

    Args:
        filters: shape (C_out, rows, columns).
        left: R1, orthogonal, (rows, rows).
        right: R2, orthogonal, (columns, columns).

    Source: Lin et al. 2020, bi-rotation.

    Example:
        >>> quarter_turn = torch.tensor([[0., 1.], [-1., 0.]])
        >>> rotated(torch.tensor([[[1., 2.], [3., 4.]]]), quarter_turn, torch.eye(2))
        tensor([[[-3., -4.],
                 [ 1.,  2.]]])
    """
    with torch.autocast(filters.device.type, enabled=False):
        return left.T @ (filters @ right)


@torch.no_grad()
def refined_rotation(filters: Tensor, left: Tensor, right: Tensor, rounds: int = 3) -> tuple[Tensor, Tensor]:
    r"""Turn the rotation so that rotated filters come nearer to their signs.

    It climbs

    .. math::
        J = \sum_i tr(B_i^T R_1^T X_i R_2), \qquad B_i \in \{-1, +1\}, \; R_1, R_2 \text{ orthogonal}

    in each round by the best B, the best R1 and the best R2 in turn, given the other two:

    .. math::
        B_i = sign(R_1^T X_i R_2), \qquad
        R_1 = U V^T \text{ of } \textstyle\sum_i X_i R_2 B_i^T, \qquad
        R_2 = U V^T \text{ of } \textstyle\sum_i X_i^T R_1 B_i

    where :math:`U S V^T` is the singular value decomposition. J cannot fall, and since a rotation keeps the length of
    a filter, the distance between filters and signs cannot grow on the whole.

    Args:
        filters: standardised filters, shape (C_out, rows, columns), float32 or float64.
        left: R1 as it stands.
        right: R2 as it stands.
        rounds: number of rounds.

    Returns:
        tuple[Tensor, Tensor]: new R1 and R2.

    Source: Lin et al. 2020 (RBNN), alternating optimization of the bi-rotation.

    Example:
        >>> x = torch.tensor([[[2., 0.]]])
        >>> left, right = refined_rotation(x, torch.eye(1), torch.eye(2))
        >>> rotated(x, left, right)
        tensor([[[1.4142, 1.4142]]])
    """
    with torch.autocast(filters.device.type, enabled=False):
        for _ in range(rounds):
            codes = sign(rotated(filters, left, right))
            left = _nearest_rotation(torch.einsum('iab,icb->ac', filters @ right, codes))
            right = _nearest_rotation(torch.einsum('iab,iac->bc', filters, left @ codes))
    return left, right


def _nearest_rotation(matrix: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(matrix)
    return u @ vh
