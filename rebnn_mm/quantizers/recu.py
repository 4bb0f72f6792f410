"""ReCU's quantizers: the rectified clamp for weights, a sign of standardised activations."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import (
    channel_dims,
    channel_mean_abs,
    laplace_standardised,
    per_channel,
    rectified_sign,
    recu_tau,
    sign,
    sign_approx,
)
from ..functional.recu import EPS
from .base import ActivationQuantizer, WeightQuantizer


@MODELS.register_module()
class ReCUWeight(WeightQuantizer):
    r"""Sign of standardised weights, clamped to quantiles that widen during training, times a learnable scale.

    .. math::
        \hat w = \alpha \circ sign(clamp(v, -Q_\tau, Q_\tau)), \quad v = 2 \sqrt 2 \, \frac{w - \bar w}{std(w)}

    Forward and backward are :func:`rebnn_mm.functional.laplace_standardised` and
    :func:`rebnn_mm.functional.rectified_sign`; tau follows :func:`rebnn_mm.functional.recu_tau`, driven by
    :class:`rebnn_mm.engine.BinaryHook`.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        tau: first and last value of the schedule.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel (the released
            code draws it from [0, 1]).
        tau (buffer): scalar, where the schedule stands.

    Raises:
        ValueError: ``tau`` is no rising pair from 0.5 to 1.

    Source: Xu et al. 2021 (ReCU).

    Example:
        >>> quantizer = ReCUWeight((1, 2))
        >>> quantizer.set_progress(1.0)
        >>> quantizer.tau, quantizer(torch.tensor([[1., 3.]]))
        (tensor(0.9900), tensor([[-1.,  1.]], grad_fn=<MulBackward0>))
    """

    param_roles: ClassVar[dict[str, str]] = {'alpha': 'scale'}

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], tau: tuple[float, float] = (0.85, 0.99)) -> None:
        super().__init__(weight_shape)
        if len(tau) != 2 or not 0.5 <= tau[0] <= tau[1] <= 1:
            raise ValueError(f'ReCUWeight: tau={tau!r} must be (first, last) with 0.5 <= first <= last <= 1')
        self.tau_range = tau
        self.alpha = nn.Parameter(torch.ones(weight_shape[0]))
        self.register_buffer('tau', torch.tensor(float(tau[0])))
        self.tau: Tensor

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return rectified_sign(laplace_standardised(weight), self.tau) * per_channel(self.alpha, weight)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs of the centred weight and alpha."""
        return sign(weight - weight.mean(dim=channel_dims(weight), keepdim=True)), self.alpha

    @torch.no_grad()
    def init_from_weight(self, weight: Tensor) -> None:
        """Set alpha to the mean of |w| of each channel."""
        self.alpha.copy_(channel_mean_abs(weight))

    def set_progress(self, done: float) -> None:
        """Move tau along its schedule."""
        self.tau.fill_(recu_tau(done, *self.tau_range))

    def extra_repr(self) -> str:
        """Schedule, as printed by ``print(model)``."""
        return f'tau={self.tau_range}'


@MODELS.register_module()
class ReCUSign(ActivationQuantizer):
    r"""Sign whose estimator sees each sample divided by its standard deviation.

    .. math::
        b = sign(u), \quad u = \frac{x}{\sqrt{var(x) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial u} = \frac{\partial L}{\partial b} \max(2 - 2|u|, 0)

    The variance is that of one sample, over channels and positions, and takes part in the gradient. The division
    changes no sign, so evaluation leaves it out.

    Source: Xu et al. 2021 (ReCU), released code.

    Example:
        >>> x = torch.tensor([[3., -1.]], requires_grad=True)
        >>> ReCUSign(2)(x)
        tensor([[ 1., -1.]], grad_fn=<_SignApproxBackward>)
    """

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x of shape (N, C, ...) or, with channel_dim -1, (..., C)."""
        if self.training:
            variance = x.var(dim=self.sample_dims(x), correction=0, keepdim=True)
            x = x * (variance + EPS).rsqrt()
        return sign_approx(x)
