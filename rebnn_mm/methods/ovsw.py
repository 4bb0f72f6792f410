"""OvSW (Xiang et al. 2024): silent weights, which never change their sign, are found and set in motion.

Two rules work on the summed gradient at the optimizer's step, driven by :class:`rebnn_mm.engine.BinaryHook`: a filter
whose gradient is small compared with its weights gets a larger one (adaptive gradient scaling, AGS), and a weight that
has not flipped for long is drawn towards 0 (silence awareness decaying, SAD).
"""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import channel_dims, channel_mean_abs, sign_approx, sign_identity, standardise
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, SignWeight, Values

EPS = 1e-5

LEAST_GRADIENT, LEAST_WEIGHT = 1e-6, 1e-3
"""Norms of a filter count as at least that, as in the released code."""


def scale_up_(grad: Tensor, weight: Tensor, ratio: float) -> Tensor:
    r"""Make the gradient of a filter larger, in place, where it is small compared with the filter.

    .. math:: g_i \leftarrow g_i \max\left(1, \lambda \frac{\|w_i\|}{\|g_i\|}\right)

    ``grad``: gradient of the weight, shape (C_out, ...), changed in place. ``ratio``: lambda, the least ratio of both
    norms.

    Source: Xiang et al. 2024 (OvSW), adaptive gradient scaling.

    Example:
        >>> scale_up_(torch.tensor([[.3, .4], [3., 4.]]), torch.tensor([[6., 8.], [6., 8.]]), ratio=0.1)
        tensor([[0.6000, 0.8000],
                [3.0000, 4.0000]])
    """
    dims = channel_dims(weight)
    norm = torch.linalg.vector_norm(grad, dim=dims, keepdim=True).clamp(min=LEAST_GRADIENT)
    size = torch.linalg.vector_norm(weight, dim=dims, keepdim=True).clamp(min=LEAST_WEIGHT)
    return grad.mul_((ratio * size / norm).clamp(min=1))


@MODELS.register_module()
class OvSWWeight(SignWeight):
    r"""Sign times a constant scale per channel; silent weights are moved at the optimizer's step.

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \overline{|v_i|}, \quad
        v = \frac{w - \bar w}{\sqrt{var(w) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial w} = \alpha \circ \frac{\partial L}{\partial \hat w}

    Before each step, on the gradient as the optimizer is about to use it (accumulated, reduced over processes,
    unscaled and clipped; weight decay comes after):

    1. AGS, :func:`scale_up_`;
    2. SAD: :math:`g \leftarrow g + \eta w` where :math:`f < \epsilon`.

    After each step :math:`f \leftarrow m f + (1 - m) \cdot 1[\text{sign changed}]`. What 1 and 2 add is not clipped.

    Args:
        ratio: lambda of AGS; 0 switches it off.
        decay: eta of SAD; 0 switches it off.
        silent: epsilon, below which a weight counts as silent.
        momentum: m, of the average of flips.

    Attributes:
        flips (buffer): f, the moving average of flips, of the weight's shape; 0 at first, so that every weight counts
            as silent until it flips.

    Raises:
        ValueError: an option is out of range.

    Source: Xiang et al. 2024 (OvSW); defaults are those of the released ImageNet scripts.

    Example:
        >>> quantizer = OvSWWeight((1, 2), ratio=0.0, decay=0.5)
        >>> w = nn.Parameter(torch.tensor([[1., 3.]]))
        >>> w.grad = torch.zeros(1, 2)
        >>> quantizer.before_step(w)
        >>> w.grad
        tensor([[0.5000, 1.5000]])
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(
        self,
        weight_shape: tuple[int, ...],
        ratio: float = 0.01,
        decay: float = 2e-5,
        silent: float = 1e-4,
        momentum: float = 0.999,
    ) -> None:
        super().__init__(weight_shape)
        for name, value in (('ratio', ratio), ('decay', decay), ('silent', silent)):
            if not 0 <= value < float('inf'):
                raise RebnnError(f'OvSWWeight: {name}={value!r} must be a number of at least 0')
        if not 0 <= momentum < 1:
            raise RebnnError(f'OvSWWeight: momentum={momentum!r} must be a number from 0 to below 1')
        self.ratio, self.decay, self.silent, self.momentum = ratio, decay, silent, momentum
        self.register_buffer('flips', torch.zeros(weight_shape))
        self.flips: Tensor
        self._negative: Tensor | None = None

    def signs(self, latent: Tensor) -> Tensor:
        return sign_identity(latent)

    @torch.no_grad()
    def before_step(self, weight: Tensor) -> None:
        assert weight.grad is not None
        scale_up_(weight.grad, weight, self.ratio)
        weight.grad.add_(weight * (self.flips < self.silent), alpha=self.decay)
        self._negative = weight < 0

    @torch.no_grad()
    def after_step(self, weight: Tensor) -> None:
        if self._negative is not None:
            self.flips.lerp_((self._negative ^ (weight < 0)).to(self.flips.dtype), 1 - self.momentum)
            self._negative = None

    @torch.no_grad()
    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(standardise(weight, channel_dims(weight), EPS)).to(weight.dtype)

    def extra_repr(self) -> str:
        return f'ratio={self.ratio}, decay={self.decay}, silent={self.silent}, momentum={self.momentum}'


@MODELS.register_module()
class OvSWSign(ActivationQuantizer):
    r"""Sign whose estimator sees each sample divided by its standard deviation, which counts as constant.

    .. math::
        b = sign(u), \quad u = \frac{x}{\sqrt{var(x) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \frac{\max(2 - 2|u|, 0)}{\sqrt{var(x) + 10^{-5}}}

    The variance is that of one sample, over channels and positions. The division changes no sign, so evaluation leaves
    it out.

    Source: Xiang et al. 2024 (OvSW), released code.

    Example:
        >>> OvSWSign(2)(torch.tensor([[3., -1.]]))
        tensor([[ 1., -1.]])
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        if self.training:
            variance = x.detach().var(dim=self.sample_dims(x), correction=0, keepdim=True)
            x = x * (variance + EPS).rsqrt()
        return sign_approx(x)


@MODELS.register_module()
class OvSWConv2d(BinaryConv2d, nn.Conv2d):
    """OvSW's convolution: ``conv_cfg=dict(type='OvSWConv2d')``."""

    method_weight = 'OvSWWeight'
    method_activation = 'OvSWSign'


@MODELS.register_module()
class OvSWLinear(BinaryLinear, nn.Linear, like=OvSWConv2d):
    """OvSW's linear layer, with the quantizers of :class:`OvSWConv2d`."""
