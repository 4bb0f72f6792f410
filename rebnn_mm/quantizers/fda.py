"""FDA-BNN's quantizers: a Fourier series as the sign's derivative, and noise that fades during training."""

import math
from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional

from ..functional import channel_mean_abs, fourier_terms, noise_factor, per_channel, sign, sign_fourier
from .base import ActivationQuantizer, WeightQuantizer

TERMS = (9, 18)
"""First and last value of n, the number of the series' highest term."""


def _checked_terms(owner: str, terms: tuple[int, int]) -> tuple[int, int]:
    if len(terms) != 2 or not 0 <= terms[0] <= terms[1]:
        raise ValueError(f'{owner}: terms={terms!r} must be (first, last) with 0 <= first <= last')
    return terms


class NoiseAdaptation(nn.Module):
    r"""What FDA-BNN adds to a sign in training, to make up for the truncated series.

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

    def set_progress(self, done: float) -> None:
        """Let the noise fade."""
        self.factor.fill_(noise_factor(done))


@MODELS.register_module()
class FDAWeight(WeightQuantizer):
    r"""Sign with a Fourier series as its derivative, scaled by the channel's mean magnitude.

    .. math::
        \hat w = \alpha \circ (sign(w) + \lambda \, \eta(w)), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \text{ (constant in the backward)}

    The derivative of the sign is :func:`rebnn_mm.functional.sign_fourier`, with more terms as training goes on.
    :math:`\eta` is a :class:`NoiseAdaptation` on whole filters; it is there in training only and its factor falls to
    0, so the weight has more than two values in training and two in evaluation.
    :class:`rebnn_mm.engine.BinaryHook` drives both schedules.

    The noise costs :math:`M^2 / 32` parameters and, per step, two products of the weight with them; evaluation is free
    of it.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...), M values per channel.
        terms: first and last value of n.

    Attributes:
        noise (NoiseAdaptation): :math:`\lambda \, \eta`.
        highest (buffer): scalar, n, where its schedule stands.

    Raises:
        ValueError: ``terms`` is no rising pair.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> quantizer = FDAWeight((1, 4)).eval()
        >>> quantizer(torch.tensor([[0.5, -1.5, 1., 1.]]))
        tensor([[ 1., -1.,  1.,  1.]])
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], terms: tuple[int, int] = TERMS) -> None:
        super().__init__(weight_shape)
        self.terms = _checked_terms('FDAWeight', terms)
        self.noise = NoiseAdaptation(math.prod(weight_shape[1:]))
        self.register_buffer('highest', torch.tensor(float(terms[0])))
        self.highest: Tensor

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, in training with noise, of the latent weight's shape."""
        codes = sign_fourier(weight, self.highest)
        if self.training:
            with torch.autocast(weight.device.type, enabled=False):
                codes = codes + self.noise(weight.flatten(1)).view_as(weight)
        return codes * per_channel(channel_mean_abs(weight.detach()), weight)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs and the mean of |w| per channel."""
        return sign(weight), channel_mean_abs(weight)

    def set_progress(self, done: float) -> None:
        """Move n and the noise's factor along their schedules."""
        self.highest.fill_(fourier_terms(done, *self.terms))
        self.noise.set_progress(done)

    def extra_repr(self) -> str:
        """Schedule, as printed by ``print(model)``."""
        return f'terms={self.terms}'


@MODELS.register_module()
class FDASign(ActivationQuantizer):
    r"""Sign with a Fourier series as its derivative; in training with noise per position.

    .. math:: b = sign(x) + \lambda \, \eta(x)

    The derivative of the sign is :func:`rebnn_mm.functional.sign_fourier`; :math:`\eta` is a :class:`NoiseAdaptation`
    on the channels of one position. In evaluation the noise is left out.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: see :class:`rebnn_mm.quantizers.ActivationQuantizer`.
        terms: first and last value of n.

    Attributes:
        noise (NoiseAdaptation): :math:`\lambda \, \eta`.
        highest (buffer): scalar, n, where its schedule stands.

    Raises:
        ValueError: ``terms`` is no rising pair.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> FDASign(3).eval()(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(
        self, channels: int, channel_dim: int = 1, shift: str | None = None, terms: tuple[int, int] = TERMS
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        self.terms = _checked_terms('FDASign', terms)
        self.noise = NoiseAdaptation(channels)
        self.register_buffer('highest', torch.tensor(float(terms[0])))
        self.highest: Tensor

    def quantize(self, x: Tensor) -> Tensor:
        """Binarise x of shape (N, C, ...) or (C, H, W) or, with channel_dim -1, (..., C)."""
        codes = sign_fourier(x, self.highest)
        return codes + self.noise(x, self.channel_dim) if self.training else codes

    def set_progress(self, done: float) -> None:
        """Move n and the noise's factor along their schedules."""
        self.highest.fill_(fourier_terms(done, *self.terms))
        self.noise.set_progress(done)
