"""ReCU (Xu et al. 2021): weights clamped to quantiles, which revives those that would never change their sign.

The rectified clamp widens during training, driven by :class:`rebnn_mm.engine.BinaryHook`; the input's estimator sees
each sample divided by its standard deviation.
"""

import math
from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import centre_channels, channel_dims, is_pair, per_channel, sign_approx, sign_identity
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, LearnedScaleWeight, Values

LAPLACE_STD = 2 * math.sqrt(2)
"""Standard deviation of a Laplace distribution of scale 2, which the latent weights are brought to."""

EPS = 1e-5


def recu_tau(done: float, start: float = 0.85, end: float = 0.99) -> float:
    r"""The exponential schedule of tau.

    .. math:: \tau = A e^{p} + B, \quad A = \frac{\tau_1 - \tau_0}{e - 1}, \quad B = \tau_0 - A

    Source: Xu et al. 2021, exponential growth of tau.

    Example:
        >>> [round(recu_tau(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.85, 0.9029, 0.99]
    """
    slope = (end - start) / (math.e - 1)
    return slope * math.exp(done) + start - slope


@MODELS.register_module()
class ReCUWeight(LearnedScaleWeight):
    r"""Sign of standardised weights, clamped to quantiles that widen during training, times a learnable scale.

    .. math::
        \hat w = \alpha \circ sign(clamp(v, -Q_\tau, Q_\tau)), \quad
        v_{ij} = 2 \sqrt 2 \, \frac{w_{ij} - \bar w_i}{\sqrt{var(w_i) + 10^{-5}}}, \quad
        Q_\tau = -\ln(2 - 2 \tau) \, \mathrm{mean} |v|
        \qquad
        \frac{\partial \hat w}{\partial v} = \alpha \circ 1_{|v| \le Q_\tau}

    :math:`Q_\tau` is the quantile of a Laplace distribution whose scale is the mean magnitude over the layer; no
    gradient goes through it, while mean and variance take part. tau follows :func:`recu_tau`, driven by
    :class:`rebnn_mm.engine.BinaryHook`; at 1 nothing is clamped.

    Args:
        tau: first and last value of the schedule.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel (the released
            code draws it from [0, 1]).
        tau (buffer): scalar, where the schedule stands.

    Raises:
        ValueError: ``tau`` is not a rising pair from 0.5 to 1.

    Source: Xu et al. 2021 (ReCU), with the released code's epsilon.

    Example:
        >>> quantizer = ReCUWeight((1, 2))
        >>> quantizer.set_progress(1.0)
        >>> quantizer.tau, quantizer(torch.tensor([[1., 3.]]))
        (tensor(0.9900), tensor([[-1.,  1.]], grad_fn=<MulBackward0>))
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], tau: tuple[float, float] = (0.85, 0.99)) -> None:
        super().__init__(weight_shape)
        if not is_pair(tau) or not 0.5 <= tau[0] <= tau[1] <= 1:
            raise RebnnError(f'ReCUWeight: tau={tau!r} must be (first, last) with 0.5 <= first <= last <= 1')
        self.tau_range = tau
        self.register_buffer('tau', torch.tensor(float(tau[0])))
        self.tau: Tensor

    def latent(self, weight: Tensor) -> Tensor:
        return centre_channels(weight)

    def forward(self, weight: Tensor) -> Tensor:
        centred = centre_channels(weight)
        variance = centred.square().mean(dim=channel_dims(weight), keepdim=True)
        v = centred * (LAPLACE_STD * (variance + EPS).rsqrt())
        bound = -torch.log(2 - 2 * self.tau) * v.detach().abs().mean()
        return sign_identity(torch.where(v.abs() <= bound, v, v.detach())) * per_channel(self.alpha, weight)

    def set_progress(self, done: float) -> None:
        self.tau.fill_(recu_tau(done, *self.tau_range))

    def extra_repr(self) -> str:
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
        tensor([[ 1., -1.]], grad_fn=<_SmoothSignBackward>)
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        if self.training:
            variance = x.var(dim=self.sample_dims(x), correction=0, keepdim=True)
            x = x * (variance + EPS).rsqrt()
        return sign_approx(x)


@MODELS.register_module()
class ReCUConv2d(BinaryConv2d, nn.Conv2d):
    """ReCU's convolution: ``conv_cfg=dict(type='ReCUConv2d')``."""

    method_weight = 'ReCUWeight'
    method_activation = 'ReCUSign'


@MODELS.register_module()
class ReCULinear(BinaryLinear, nn.Linear, like=ReCUConv2d):
    """ReCU's linear layer, with the quantizers of :class:`ReCUConv2d`."""
