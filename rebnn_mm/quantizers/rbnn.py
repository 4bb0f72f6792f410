"""RBNN's quantizers: filters rotated towards their signs, activations normalised per sample."""

import math
from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import (
    channel_dims,
    channel_mean_abs,
    per_channel,
    random_rotation,
    refined_rotation,
    rotated,
    rotation_sides,
    sign,
    sign_triangle,
    standardised,
    triangle_sharpness,
)
from .base import ActivationQuantizer, WeightQuantizer

T_RANGE = (1e-2, 10.0)
"""First and last value of the estimator's sharpness."""

EPS = 1e-5


def _checked_range(owner: str, t: tuple[float, float]) -> tuple[float, float]:
    if len(t) != 2 or not 0 < t[0] <= t[1] < float('inf'):
        raise ValueError(f'{owner}: t={t!r} must be (first, last) with 0 < first <= last')
    return t


@MODELS.register_module()
class RBNNWeight(WeightQuantizer):
    r"""Sign of the rotated weight, times a learnable scale.

    .. math::
        \hat w = \alpha \circ sign(\tilde w), \quad
        \tilde w = v + |\sin \theta| \circ (R_1^T v R_2 - v), \quad
        v = \frac{w - \bar w}{std(w)}

    Every filter is folded into a matrix for the rotation (:func:`rebnn_mm.functional.rotation_sides`). The sign's
    derivative is :func:`rebnn_mm.functional.sign_triangle` at the rotated weight; all the rest has its true gradient,
    with R1 and R2 as constants. :class:`rebnn_mm.engine.BinaryHook` sharpens the triangle during training and, before
    every epoch, turns R1 and R2 so that the rotated filters come nearer to their signs
    (:func:`rebnn_mm.functional.refined_rotation`).

    The released code takes :math:`R_1^T v R_2` for a constant, too, which leaves v the share
    :math:`1 - |\sin \theta|` of the gradient: nothing at the start.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        t: first and last value of the estimator's sharpness.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel.
        theta (Parameter): how much is rotated, shape (C_out,); starts at :math:`\pi / 2`, all of it, where its
            gradient is almost 0.
        left, right (buffers): R1 and R2, orthogonal; random at first, from torch's generator.
        sharpness (buffer): scalar, where the schedule of t stands.

    Raises:
        ValueError: ``t`` is no rising pair of positive numbers; or :meth:`begin_epoch` meets a weight that is not
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

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], t: tuple[float, float] = T_RANGE) -> None:
        super().__init__(weight_shape)
        self.t_range = _checked_range('RBNNWeight', t)
        self.sides = rotation_sides(math.prod(weight_shape[1:]))
        self.alpha = nn.Parameter(torch.ones(weight_shape[0]))
        self.theta = nn.Parameter(torch.full((weight_shape[0],), math.pi / 2))
        self.register_buffer('left', random_rotation(self.sides[0]))
        self.register_buffer('right', random_rotation(self.sides[1]))
        self.register_buffer('sharpness', torch.tensor(float(t[0])))
        self.left: Tensor
        self.right: Tensor
        self.sharpness: Tensor

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return sign_triangle(self._partly_rotated(weight), self.sharpness) * per_channel(self.alpha, weight)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs of the rotated weight and alpha."""
        return sign(self._partly_rotated(weight)), self.alpha

    @torch.no_grad()
    def init_from_weight(self, weight: Tensor) -> None:
        """Set alpha to the mean of |w| of each channel."""
        self.alpha.copy_(channel_mean_abs(weight))

    def set_progress(self, done: float) -> None:
        """Sharpen the estimator."""
        self.sharpness.fill_(triangle_sharpness(done, *self.t_range))

    @torch.no_grad()
    def begin_epoch(self, weight: Tensor) -> None:
        """Turn R1 and R2."""
        if not torch.isfinite(weight).all():
            raise ValueError(
                f'RBNNWeight: the latent weight of shape {self.weight_shape} holds NaN or infinite values, so no '
                'rotation fits it. Training has diverged; lower the learning rate.'
            )
        filters = self._folded(standardised(weight, channel_dims(weight)))
        left, right = refined_rotation(filters, self.left.to(filters), self.right.to(filters))
        self.left.copy_(left)
        self.right.copy_(right)

    def _folded(self, weight: Tensor) -> Tensor:
        return weight.reshape(-1, *self.sides)

    def _partly_rotated(self, weight: Tensor) -> Tensor:
        v = standardised(weight, channel_dims(weight))
        turned = rotated(self._folded(v), self.left.to(v), self.right.to(v)).view_as(v)
        return torch.lerp(v, turned, per_channel(self.theta.sin().abs(), v).to(v)).to(weight.dtype)

    def extra_repr(self) -> str:
        """Folded shape and schedule, as printed by ``print(model)``."""
        return f'{self.sides[0]}x{self.sides[1]}, t={self.t_range}'


@MODELS.register_module()
class RBNNSign(ActivationQuantizer):
    r"""Sign of each sample's values after they are centred and brought to standard deviation 1.

    .. math::
        b = sign(u), \quad u = \frac{x - mean(x)}{\sqrt{var(x) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial u} = \frac{\partial L}{\partial b} \max(\sqrt 2 \, t - t^2 |u|, 0), \quad t \ge 1

    Mean and variance are those of one sample, over channels and positions (before a linear layer: of one vector, over
    its features), in training and in evaluation, and take part in the gradient. Since the input is centred, no shift
    is needed behind a ReLU. The sharpness t follows the weight's schedule, but never below 1.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: see :class:`rebnn_mm.quantizers.ActivationQuantizer`.
        t: first and last value of the estimator's sharpness, before it is held above 1.

    Attributes:
        sharpness (buffer): scalar, where the schedule of t stands.

    Raises:
        ValueError: ``t`` is no rising pair of positive numbers.

    Source: Lin et al. 2020 (RBNN); the normalisation is the released code's.

    Example:
        >>> RBNNSign(2)(torch.tensor([[0., 3.], [5., 4.]]))
        tensor([[-1.,  1.],
                [ 1., -1.]])
    """

    stock_shift: ClassVar[str | None] = None

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(
        self, channels: int, channel_dim: int = 1, shift: str | None = None, t: tuple[float, float] = T_RANGE
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        self.t_range = _checked_range('RBNNSign', t)
        self.register_buffer('sharpness', torch.tensor(max(float(t[0]), 1.0)))
        self.sharpness: Tensor

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x of shape (N, C, ...) or (C, H, W) or, with channel_dim -1, (..., C)."""
        return sign_triangle(standardised(x, self.sample_dims(x), EPS), self.sharpness).to(x.dtype)

    def set_progress(self, done: float) -> None:
        """Sharpen the estimator."""
        self.sharpness.fill_(max(triangle_sharpness(done, *self.t_range), 1.0))
