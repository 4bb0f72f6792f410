"""BiPer (Vargas et al. 2024): weights as a square wave of the latent weight, whose gradient is that of a sine.

Stage 1 has the sine itself as weight (:class:`BiPerSine`) and binary inputs, stage 2 its sign (:class:`BiPerWeight`)
from the weights of stage 1. Inputs are those of ReCU: each sample divided by its standard deviation.
"""

import math
from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import per_channel, sign_identity
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import LearnedScaleWeight, Values

OMEGA = 20.0
"""The frequency of the released scripts."""


@MODELS.register_module()
class BiPerSine(LearnedScaleWeight):
    r"""Sine of the latent weight times a learnable scale, full-precision: stage 1.

    .. math:: \hat w = \alpha \circ \sin(\omega w)

    With a penalty, :math:`\tau \overline{\sin^2(\omega w)}` of each layer joins the loss; its gradient
    :math:`\tau \omega \sin(2 \omega w) / N` is added before the optimizer's step, after clipping, by
    :class:`rebnn_mm.engine.BinaryHook`, so the logged loss is without it.

    Args:
        omega: frequency; how many weights lie beyond the first quarter of a wave, and with it the quantization error,
            follows from it and the size of the weights.
        penalty: tau, the weight of the penalty; 0 for none.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel (the released
            code draws it from [0, 1]).
        omega (buffer): scalar; a checkpoint holds it, so that stage 2 has that of stage 1.

    Raises:
        ValueError: ``omega`` is not positive, or ``penalty`` is negative.

    Source: Vargas et al. 2024 (BiPer); the penalty is the released CIFAR-10 code's.

    Example:
        >>> quantizer = BiPerSine((1, 2), omega=math.pi)
        >>> quantizer(torch.tensor([[0.5, -1.5]])).detach()
        tensor([[1., 1.]])
    """

    bits = 32
    factors: int | None = 0  # alpha is in the real weights
    values = Values('other')
    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], omega: float = OMEGA, penalty: float = 0.0) -> None:
        super().__init__(weight_shape)
        if not 0 < omega < math.inf:
            raise RebnnError(f'{type(self).__name__}: omega={omega!r} must be a number above 0')
        if not 0 <= penalty < math.inf:
            raise RebnnError(f'{type(self).__name__}: penalty={penalty!r} must be a number of at least 0')
        self.penalty = penalty
        self.register_buffer('omega', torch.tensor(float(omega)))
        self.omega: Tensor

    def latent(self, weight: Tensor) -> Tensor:
        return (weight * self.omega).sin()

    def forward(self, weight: Tensor) -> Tensor:
        return self.latent(weight) * per_channel(self.alpha, weight)

    @torch.no_grad()
    def before_step(self, weight: Tensor) -> None:
        if self.penalty:
            assert weight.grad is not None
            weight.grad.add_((2 * self.omega * weight).sin_() * self.omega, alpha=self.penalty / weight.numel())


@MODELS.register_module()
class BiPerWeight(BiPerSine):
    r"""Sign of the sine of the latent weight times a learnable scale: stage 2.

    .. math::
        \hat w = \alpha \circ sign(\sin(\omega w))
        \qquad
        \frac{\partial L}{\partial w} = \omega \cos(\omega w) \circ \alpha \circ \frac{\partial L}{\partial \hat w}

    Options, penalty and state are those of :class:`BiPerSine`, so its checkpoint fits.

    Source: Vargas et al. 2024 (BiPer).

    Example:
        >>> quantizer = BiPerWeight((1, 3), omega=math.pi)
        >>> quantizer(torch.tensor([[0.5, -0.5, -1.5]])).detach()
        tensor([[ 1., -1.,  1.]])
    """

    bits = 1
    factors = None
    values = Values('signs')

    def forward(self, weight: Tensor) -> Tensor:
        return sign_identity(self.latent(weight)) * per_channel(self.alpha, weight)


@MODELS.register_module()
class BiPerConv2d(BinaryConv2d, nn.Conv2d):
    """BiPer's convolution: ``conv_cfg=dict(type='BiPerConv2d')``, and ``weight='BiPerSine'`` in stage 1."""

    method_weight = 'BiPerWeight'
    method_activation = 'ReCUSign'


@MODELS.register_module()
class BiPerLinear(BinaryLinear, nn.Linear, like=BiPerConv2d):
    """BiPer's linear layer, with the quantizers of :class:`BiPerConv2d`."""
