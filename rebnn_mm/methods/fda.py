"""FDA-BNN (Xu et al. 2021): a Fourier series as the sign's derivative, and noise that fades during training.

Terms of the series and factor of the noise are driven by :class:`rebnn_mm.engine.BinaryHook`.
"""

import math
from typing import Any, ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ..errors import RebnnError
from ..functional import channel_mean_abs, is_pair, per_channel
from ..functional.native import disable_autocast
from ..functional.sign import SignFunction
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, Quantizer, SignWeight, Values

TERMS = (9, 18)
"""First and last value of n, the number of the series' highest term."""


class _SignFourier(SignFunction):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, highest = ctx.saved_tensors
        # sum_{i=0}^n cos((2i+1) a) = sin(2(n+1) a) / (2 sin a): two sines in place of up to nineteen cosines.
        # Base frequency 0.1: the square wave equals the sign up to half a period, pi / 0.1 = 31.4. Literals, because
        # torch.compile(dynamic=True) takes no global number twice.
        angle, count = 0.1 * x, 2 * (highest + 1)
        series = (angle * count).sin_().div_(angle.sin())
        series = torch.where(angle == 0, count.to(series.dtype), series).mul_(0.2 / 3.141592653589793)
        return torch.where(x.abs() <= 1, series * grad, 0), None


def sign_fourier(x: Tensor, highest: Tensor) -> Tensor:
    r"""Two-valued sign with the derivative of its truncated sine series.

    The square wave of period :math:`2 \pi / \omega` is
    :math:`\frac{4}{\pi} \sum_i \frac{\sin((2i+1) \omega x)}{2i+1}`; its first n + 1 terms, differentiated one by one,
    give

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le 1} \,
            \frac{4 \omega}{\pi} \sum_{i=0}^{n} \cos((2i + 1) \omega x), \quad \omega = 0.1

    The paper prints no range. The series ripples around 0 beyond its first zero at :math:`\pi / (2 (n + 1) \omega)`,
    which is 1.57 for n = 9 and 0.83 for n = 18; the gradient is therefore cut at 1, as in the public training code.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> x = torch.tensor([0., 0.5, 2.], requires_grad=True)
        >>> sign_fourier(x, torch.tensor(9)).sum().backward()
        >>> x.grad
        tensor([1.2732, 1.0718, 0.0000])
    """
    return _SignFourier.apply(x, highest)


def fourier_terms(done: float, start: int = 9, end: int = 18) -> int:
    r"""The schedule of n, :math:`n_0 + p (n_1 - n_0)` rounded to the nearest integer.

    Source: Xu et al. 2021, growing number of terms.

    Example:
        >>> [fourier_terms(p) for p in (0.0, 0.5, 1.0)]
        [9, 14, 18]
    """
    return round(start + done * (end - start))


def noise_factor(done: float) -> float:
    r"""The schedule of the noise adaptation's factor, from 0.1 to 0.

    .. math:: \lambda = 0.05 (1 + \cos \pi p)

    Source: Xu et al. 2021, noise adaptation module.

    Example:
        >>> [round(noise_factor(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.1, 0.05, 0.0]
    """
    return 0.05 * (1 + math.cos(math.pi * done))


class NoiseAdaptation(nn.Module):
    r"""Noise that FDA-BNN adds to a sign in training, to make up for the truncated series.

    .. math::
        \lambda \, \eta(x), \quad \eta(x) = W_2 \max(W_1 x, 0) + 0.1 \sin x

    Args:
        width: d, size of x. :math:`W_1` has d / 64 rows, below 64 d / 4, and at least one.

    Attributes:
        down, up (Parameters): :math:`W_1` and :math:`W_2`, started as torch starts a linear layer.
        factor (buffer): :math:`\lambda`, from 0.1 to 0.

    Source: Xu et al. 2021 (FDA-BNN). It holds two small matrices rather than linear layers, so that neither the layer
    report nor an ``init_cfg`` takes it for a part of the network.

    Example:
        >>> noise = NoiseAdaptation(128)
        >>> noise(torch.randn(5, 128)).shape, noise.down.shape
        (torch.Size([5, 128]), torch.Size([2, 128]))
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = max(width // (64 if width >= 64 else 4), 1)
        self.down = nn.Parameter(torch.empty(hidden, width))
        self.up = nn.Parameter(torch.empty(width, hidden))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.up, a=math.sqrt(5))
        self.register_buffer('factor', torch.tensor(noise_factor(0.0)))
        self.factor: Tensor

    def forward(self, x: Tensor, dim: int = -1) -> Tensor:
        """The noise of x, whose dimension ``dim`` has size d."""
        dim %= x.dim()
        if dim == x.dim() - 1:
            learned = functional.linear(functional.relu(functional.linear(x, self.down)), self.up)
        else:
            # Not matmul, which would copy x with the channels last.
            hidden = functional.relu(torch.einsum('hc,...cp->...hp', self.down, x.flatten(dim + 1)))
            learned = torch.einsum('ch,...hp->...cp', self.up, hidden).view_as(x)
        return self.factor * torch.add(learned, x.sin(), alpha=0.1)


class _FourierQuantizer(Quantizer):
    hook: ClassVar[str] = 'BinaryHook'
    highest: Tensor

    def _start(self, terms: tuple[int, int], width: int) -> None:
        if not is_pair(terms) or not 0 <= terms[0] <= terms[1]:
            raise RebnnError(f'{type(self).__name__}: terms={terms!r} must be (first, last) with 0 <= first <= last')
        self.terms = terms
        self.noise = NoiseAdaptation(width)
        self.register_buffer('highest', torch.tensor(float(terms[0])))

    def set_progress(self, done: float) -> None:
        self.highest.fill_(fourier_terms(done, *self.terms))
        self.noise.factor.fill_(noise_factor(done))


@MODELS.register_module()
class FDAWeight(_FourierQuantizer, SignWeight):
    r"""Sign with a Fourier series as its derivative, scaled by the channel's mean magnitude.

    .. math::
        \hat w = \alpha \circ (sign(w) + \lambda \, \eta(w)), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \text{ (constant in the backward)}

    The derivative of the sign is :func:`sign_fourier`, with more terms as training goes on.
    :math:`\eta` is a :class:`NoiseAdaptation` on whole filters; it is there in training only and its factor falls to
    0, so the weight has more than two values in training and two in evaluation.
    :class:`rebnn_mm.engine.BinaryHook` drives both schedules.

    The noise costs :math:`M^2 / 32` parameters and, per step, two products of the weight with them; evaluation is free
    of it.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...), M values per channel.
        terms: first and last value of n.

    Raises:
        ValueError: ``terms`` is not a rising pair.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> quantizer = FDAWeight((1, 4)).eval()
        >>> quantizer(torch.tensor([[0.5, -1.5, 1., 1.]]))
        tensor([[ 1., -1.,  1.,  1.]])
    """

    values = Values('signs', same_in_training=False)

    def __init__(self, weight_shape: tuple[int, ...], terms: tuple[int, int] = TERMS) -> None:
        super().__init__(weight_shape)
        self._start(terms, math.prod(weight_shape[1:]))

    def forward(self, weight: Tensor) -> Tensor:
        codes = sign_fourier(weight, self.highest)
        if self.training:
            with disable_autocast(weight):
                codes = codes + self.noise(weight.flatten(1)).view_as(weight)
        return codes * per_channel(channel_mean_abs(weight.detach()), weight)

    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(weight.detach())

    def extra_repr(self) -> str:
        return f'terms={self.terms}'


@MODELS.register_module()
class FDASign(_FourierQuantizer, ActivationQuantizer):
    r"""Sign with a Fourier series as its derivative; in training with noise per position.

    .. math:: b = sign(x) + \lambda \, \eta(x)

    The derivative of the sign is :func:`sign_fourier`; :math:`\eta` is a :class:`NoiseAdaptation` on the channels of
    one position. In evaluation the noise is left out.

    Args:
        terms: first and last value of n.

    Raises:
        ValueError: ``terms`` is not a rising pair.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> FDASign(3).eval()(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    values = Values('signs', same_in_training=False)

    def __init__(
        self, channels: int, channel_dim: int = 1, shift: str | None = None, terms: tuple[int, int] = TERMS
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        self._start(terms, channels)

    def quantize(self, x: Tensor) -> Tensor:
        codes = sign_fourier(x, self.highest)
        return codes + self.noise(x, self.channel_dim) if self.training else codes


@MODELS.register_module()
class FDAConv2d(BinaryConv2d, nn.Conv2d):
    """FDA-BNN's convolution: ``conv_cfg=dict(type='FDAConv2d')``."""

    method_weight = 'FDAWeight'
    method_activation = 'FDASign'


@MODELS.register_module()
class FDALinear(BinaryLinear, nn.Linear, like=FDAConv2d):
    """FDA-BNN's linear layer, with the quantizers of :class:`FDAConv2d`."""
