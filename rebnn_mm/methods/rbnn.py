"""RBNN (Lin et al. 2020): filters rotated towards their signs, activations normalised per sample.

:class:`rebnn_mm.engine.BinaryHook` turns the rotation before every epoch and sharpens the estimator.
"""

import math
from typing import Any, ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import RebnnError
from ..functional import channel_dims, per_channel, sign, standardise
from ..functional.native import disable_autocast
from ..functional.sign import SignFunction
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, LearnedScaleWeight, SharpeningQuantizer, Values

T_RANGE = (1e-2, 10.0)
"""First and last value of the estimator's sharpness."""

EPS = 1e-5


class _SignTriangle(SignFunction):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, t = ctx.saved_tensors
        k = (1 / t).clamp(min=1)
        return x.abs().mul_(-k * t.square()).add_(k * t * math.sqrt(2)).clamp_(min=0) * grad, None


def sign_triangle(x: Tensor, sharpness: Tensor) -> Tensor:
    r"""Two-valued sign with a triangle of adjustable width as its derivative.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, k \max(\sqrt 2 \, t - t^2 |x|, 0),
        \quad k = \max(1 / t, 1)

    The triangle ends at :math:`|x| = \sqrt 2 / t` and has area 2 for t >= 1. A small t lets almost every value move.

    Source: Lin et al. 2020 (RBNN), training-aware approximation of the sign.

    Example:
        >>> x = torch.tensor([-1., 0., 0.25], requires_grad=True)
        >>> sign_triangle(x, torch.tensor(2.)).sum().backward()
        >>> x.grad
        tensor([0.0000, 2.8284, 1.8284])
    """
    return _SignTriangle.apply(x, sharpness)


def rotation_sides(values: int) -> tuple[int, int]:
    """Rows and columns of the matrix that a filter is folded into: the factors of its size nearest to a square.

    Source: Lin et al. 2020 (RBNN), bi-rotation; two small rotations in place of one of size values x values.

    Example:
        >>> rotation_sides(64 * 9), rotation_sides(512 * 9), rotation_sides(7)
        ((24, 24), (64, 72), (1, 7))
    """
    rows = next(side for side in range(math.isqrt(values), 0, -1) if values % side == 0)
    return rows, values // rows


def random_rotation(size: int) -> Tensor:
    """A random orthogonal matrix, every one equally likely, from torch's generator.

    Source: Mezzadri 2007, QR of a Gaussian matrix with the signs of R's diagonal moved into Q.

    Example:
        >>> q = random_rotation(3)
        >>> torch.allclose(q @ q.T, torch.eye(3), atol=1e-6)
        True
    """
    q, r = torch.linalg.qr(torch.randn(size, size))
    return q * sign(r.diagonal())


def rotate(filters: Tensor, left: Tensor, right: Tensor) -> Tensor:
    r"""Rotate every filter from both sides, :math:`R_1^T X_i R_2`.

    Autocast does not reach it: in half precision filters would change signs.

    Args:
        filters: shape (C_out, rows, columns).
        left: R1, orthogonal, (rows, rows).
        right: R2, orthogonal, (columns, columns).

    Source: Lin et al. 2020, bi-rotation.

    Example:
        >>> quarter_turn = torch.tensor([[0., 1.], [-1., 0.]])
        >>> rotate(torch.tensor([[[1., 2.], [3., 4.]]]), quarter_turn, torch.eye(2))
        tensor([[[-3., -4.],
                 [ 1.,  2.]]])
    """
    with disable_autocast(filters):
        return left.T @ (filters @ right)


@torch.no_grad()
def refine_rotation(filters: Tensor, left: Tensor, right: Tensor, rounds: int = 3) -> tuple[Tensor, Tensor]:
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

    ``filters``: standardised filters, shape (C_out, rows, columns), float32 or float64. ``left``: R1 as it stands.
    ``right``: R2 as it stands.

    Source: Lin et al. 2020 (RBNN), alternating optimization of the bi-rotation.

    Example:
        >>> x = torch.tensor([[[2., 0.]]])
        >>> left, right = refine_rotation(x, torch.eye(1), torch.eye(2))
        >>> rotate(x, left, right)
        tensor([[[1.4142, 1.4142]]])
    """
    with disable_autocast(filters):
        for _ in range(rounds):
            codes = sign(rotate(filters, left, right))
            left = _nearest_rotation(torch.einsum('iab,icb->ac', filters @ right, codes))
            right = _nearest_rotation(torch.einsum('iab,iac->bc', filters, left @ codes))
    return left, right


def _nearest_rotation(matrix: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(matrix)
    return u @ vh


@MODELS.register_module()
class RBNNWeight(SharpeningQuantizer, LearnedScaleWeight):
    r"""Sign of the rotated weight, times a learnable scale.

    .. math::
        \hat w = \alpha \circ sign(\tilde w), \quad
        \tilde w = v + |\sin \theta| \circ (R_1^T v R_2 - v), \quad
        v = \frac{w - \bar w}{std(w)}

    Every filter is folded into a matrix for the rotation (:func:`rotation_sides`). The sign's derivative is
    :func:`sign_triangle` at the rotated weight; all the rest has its true gradient, with R1 and R2 as constants.
    :class:`rebnn_mm.engine.BinaryHook` sharpens the triangle during training and, before every epoch, turns R1 and R2
    so that the rotated filters come nearer to their signs (:func:`refine_rotation`).

    The released code takes :math:`R_1^T v R_2` for a constant, too, which leaves v the share
    :math:`1 - |\sin \theta|` of the gradient: nothing at the start.

    Args:
        t: first and last value of the estimator's sharpness.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel.
        theta (Parameter): how much is rotated, shape (C_out,); starts at :math:`\pi / 2`, all of it, where its
            gradient is almost 0.
        left, right (buffers): R1 and R2, orthogonal; random at first, from torch's generator.
        sharpness (buffer): scalar, where the schedule of t stands.

    Raises:
        ValueError: ``t`` is not a rising pair of positive numbers; or :meth:`begin_epoch` meets a weight that is not
            finite.

    Source: Lin et al. 2020 (RBNN).

    Example:
        >>> quantizer = RBNNWeight((1, 2))
        >>> w = torch.tensor([[1., 2.]])
        >>> quantizer.init_from_weight(w)
        >>> quantizer.begin_epoch(w)
        >>> quantizer(w).abs()
        tensor([[1.5000, 1.5000]], grad_fn=<AbsBackward0>)
    """

    param_roles: ClassVar[dict[str, str]] = {'alpha': 'scale', 'theta': 'shift'}

    def __init__(self, weight_shape: tuple[int, ...], t: tuple[float, float] = T_RANGE) -> None:
        super().__init__(weight_shape, t=t)
        self.sides = rotation_sides(math.prod(weight_shape[1:]))
        self.theta = nn.Parameter(torch.full((weight_shape[0],), math.pi / 2))
        self.register_buffer('left', random_rotation(self.sides[0]))
        self.register_buffer('right', random_rotation(self.sides[1]))
        self.left: Tensor
        self.right: Tensor

    def train(self, mode: bool = True) -> 'RBNNWeight':
        """Refuse to evaluate with an average of rotations, which is none."""
        for matrix in (self.left, self.right):
            known = type(matrix) is Tensor and not matrix.is_meta  # others, such as fake tensors, may hold no numbers
            if known and not mode and (matrix.float().square().sum(dim=0) < 0.95).any():
                raise RebnnError(
                    'RBNNWeight: its rotation was averaged, so it is none. Average without use_buffers=True.'
                )
        return super().train(mode)

    def latent(self, weight: Tensor) -> Tensor:
        v = standardise(weight, channel_dims(weight))
        turned = rotate(self._fold(v), self.left.to(v), self.right.to(v)).view_as(v)
        return torch.lerp(v, turned, per_channel(self.theta.sin().abs(), v).to(v)).to(weight.dtype)

    def forward(self, weight: Tensor) -> Tensor:
        return sign_triangle(self.latent(weight), self.sharpness) * per_channel(self.alpha, weight)

    @torch.no_grad()
    def begin_epoch(self, weight: Tensor) -> None:
        if not torch.isfinite(weight).all():
            raise RebnnError(
                f'RBNNWeight: the latent weight of shape {self.weight_shape} holds NaN or infinite values, so no '
                'rotation fits it. Training has diverged; lower the learning rate.'
            )
        filters = self._fold(standardise(weight, channel_dims(weight)))
        left, right = refine_rotation(filters, self.left.to(filters), self.right.to(filters))
        self.left.copy_(left)
        self.right.copy_(right)

    def _fold(self, weight: Tensor) -> Tensor:
        return weight.reshape(-1, *self.sides)

    def extra_repr(self) -> str:
        return f'{self.sides[0]}x{self.sides[1]}, t={self.t_range}'


@MODELS.register_module()
class RBNNSign(SharpeningQuantizer, ActivationQuantizer):
    r"""Sign of each sample's values after they are centred and brought to standard deviation 1.

    .. math::
        b = sign(u), \quad u = \frac{x - mean(x)}{\sqrt{var(x) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial u} = \frac{\partial L}{\partial b} \max(\sqrt 2 \, t - t^2 |u|, 0), \quad t \ge 1

    Mean and variance are those of one sample, over channels and positions (before a linear layer: of one vector, over
    its features), in training and in evaluation, and take part in the gradient. Since the input is centred, no shift
    is needed after a ReLU. The sharpness t follows the weight's schedule, but never below 1.

    Args:
        t: first and last value of the estimator's sharpness, before it is held above 1.

    Raises:
        ValueError: ``t`` is not a rising pair of positive numbers.

    Source: Lin et al. 2020 (RBNN); the normalisation is the released code's.

    Example:
        >>> RBNNSign(2)(torch.tensor([[0., 3.], [5., 4.]]))
        tensor([[-1.,  1.],
                [ 1., -1.]])
    """

    stock_shift: ClassVar[str | None] = None
    t_range = T_RANGE
    least_sharpness: ClassVar[float] = 1.0
    values = Values('signs', sign_of='centred')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_triangle(standardise(x, self.sample_dims(x), EPS), self.sharpness).to(x.dtype)


@MODELS.register_module()
class RBNNConv2d(BinaryConv2d, nn.Conv2d):
    """RBNN's convolution: ``conv_cfg=dict(type='RBNNConv2d')``."""

    method_weight = 'RBNNWeight'
    method_activation = 'RBNNSign'


@MODELS.register_module()
class RBNNLinear(BinaryLinear, nn.Linear, like=RBNNConv2d):
    """RBNN's linear layer, with the quantizers of :class:`RBNNConv2d`."""
