"""BiT (Liu et al. 2022): centred signs for weights, elastic binarization for activations."""

from typing import Any, ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..functional import sign, straight_through
from ..functional.sign import SignFunction
from ..quantizers import ActivationQuantizer, Values, check_bits
from ..quantizers.base import holds
from .binarybert import BWNWeight

LEAST_SCALE = 1e-5
"""A learned scale counts as this where it is smaller."""


class _ElasticSign(SignFunction):
    @staticmethod
    def forward(x: Tensor, alpha: Tensor) -> Tensor:
        return sign(x) * alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        grad_alpha = (grad * sign(x)).sum() / max(x.numel(), 1) ** 0.5
        return grad * (x.abs() <= alpha), grad_alpha.view_as(alpha)


def elastic_sign(x: Tensor, alpha: Tensor) -> Tensor:
    r"""Sign times a learned scale.

    .. math::
        y = \alpha \, sign(x)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} \, 1_{|x| \le \alpha},
        \quad
        \frac{\partial L}{\partial \alpha} = \frac{1}{\sqrt{n}} \sum \frac{\partial L}{\partial y} \, sign(x)

    The scale's gradient is divided by the root of the number n of values, as in learned step size quantization.

    Source: Liu et al. 2022 (BiT), elastic binarization to {-1, 1}; the factor of the scale's gradient is the released
    code's.

    Example:
        >>> x = torch.tensor([-2.0, -0.5, 0.0, 0.5], requires_grad=True)
        >>> alpha = torch.tensor(0.8, requires_grad=True)
        >>> y = elastic_sign(x, alpha)
        >>> y[1:].sum().backward()
        >>> y.detach(), x.grad, alpha.grad
        (tensor([-0.8000, -0.8000,  0.8000,  0.8000]), tensor([0., 1., 1., 1.]), tensor(0.5000))
    """
    return _ElasticSign.apply(x, alpha)


class _ElasticLevels(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, alpha: Tensor, low: int, high: int) -> Tensor:
        return (x / alpha).round_().clamp_(low, high) * alpha

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, alpha, low, high = inputs
        ctx.save_for_backward(x, alpha)
        ctx.range = low, high

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, alpha = ctx.saved_tensors
        low, high = ctx.range
        ratio = x / alpha
        inside = (ratio >= low) & (ratio <= high)
        slope = ratio.round().clamp_(low, high) - ratio * inside
        grad_alpha = (grad * slope).sum() / max(x.numel() * high, 1) ** 0.5
        return grad * inside, grad_alpha.view_as(alpha), None, None


def elastic_levels(x: Tensor, alpha: Tensor, low: int = 0, high: int = 1) -> Tensor:
    r"""The nearest whole multiple of a learned scale, between two of them.

    .. math::
        y = \alpha \, clamp\left(round\left(\frac{x}{\alpha}\right), l, h\right)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} \, 1_{l \le x / \alpha \le h},
        \quad
        \frac{\partial y}{\partial \alpha} = \frac{1}{\sqrt{n h}} \begin{cases}
            l & x / \alpha < l \\ round(x / \alpha) - x / \alpha & l \le x / \alpha \le h \\ h & x / \alpha > h
        \end{cases}

    With l = 0 and h = 1 it is the step to 0 and alpha at half of alpha. n is the number of values.

    l and h are ``low`` and ``high``, which is at least 1.

    Source: Liu et al. 2022 (BiT), elastic binarization to {0, 1} and its form of more bits; Esser et al. 2020 (learned
    step size quantization).

    Example:
        >>> x = torch.tensor([-1.0, 0.25, 0.75, 2.0], requires_grad=True)
        >>> alpha = torch.tensor(1.0, requires_grad=True)
        >>> y = elastic_levels(x, alpha)
        >>> y.sum().backward()
        >>> y.abs().detach(), x.grad, alpha.grad
        (tensor([0., 0., 1., 1.]), tensor([0., 1., 1., 0.]), tensor(0.5000))
    """
    return _ElasticLevels.apply(x, alpha, low, high)


@MODELS.register_module()
class BiTWeight(BWNWeight):
    r"""Sign of the weight without the tensor's mean, times the mean magnitude; the gradient passes unchanged.

    .. math:: \hat w = \overline{|w|} \, sign(w - \bar w)

    The mean :math:`\bar w` is the tensor's even where every channel has its own scale, as in BiT's word embedding, so
    no channel stands alone; the magnitude is that of the uncentred weight. The options are those of
    :class:`rebnn_mm.methods.BWNWeight`.

    Source: Liu et al. 2022 (BiT), as its released code computes it.

    Example:
        >>> BiTWeight((2, 2))(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[-2.5000, -2.5000],
                [ 2.5000,  2.5000]])
    """

    def __init__(self, weight_shape: tuple[int, ...], per: str = 'tensor') -> None:
        super().__init__(weight_shape, per)
        self.channels_alone = False

    def latent(self, weight: Tensor) -> Tensor:
        return weight - weight.mean()


class ElasticActivation(ActivationQuantizer):
    """Base of BiT's activation quantizers: a learned scale alpha, started from data.

    Args:
        shift: see :class:`ActivationQuantizer`; BiT's own starts at zero, before every linear layer.
        bits: 1, or up to 8 for the model that is the teacher of the 1-bit one.

    Raises:
        ValueError: ``bits`` is out of range.

    Attributes:
        alpha (Parameter): the scale, scalar, from 1 until :meth:`calibrate` has seen a batch.
    """

    param_roles: ClassVar[dict[str, str]] = {'shift': 'shift', 'alpha': 'scale'}
    stock_shift: ClassVar[str | None] = 'zero'
    start_factor: ClassVar[float]
    """The scale starts at this times the mean magnitude of a batch, divided by the root of the highest level."""

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = None, bits: int = 1) -> None:
        super().__init__(channels, channel_dim, shift)
        self.bits = check_bits(type(self).__name__, bits, least=1)
        self.alpha = nn.Parameter(torch.tensor(1.0))
        self.needs_calibration = True

    @property
    def levels(self) -> tuple[int, int]:
        raise NotImplementedError(f'{type(self).__name__} has to implement levels')

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        if self.shift_start == 'mean':
            super().calibrate(x)
        self.needs_calibration = False
        shifted = x if self.shift is None else x + self.along_channels(self.shift, x)
        start = self.start_factor * float(shifted.abs().float().mean())
        self.alpha.fill_(start / max(self.levels[1], 1) ** 0.5)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        waits = self.needs_calibration
        super()._load_from_state_dict(state_dict, prefix, *args)
        # A shift alone, of another method's layer, leaves the scale to be started.
        self.needs_calibration = waits and not holds(state_dict, f'{prefix}alpha', self.alpha)

    def _scale(self) -> Tensor:
        """Alpha, or the least one, whose gradient is alpha's, too, so that it can come back."""
        return straight_through(self.alpha, self.alpha.detach().clamp(min=LEAST_SCALE))

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, bits={self.bits}'


@MODELS.register_module()
class BiTSign(ElasticActivation):
    r"""Elastic binarization to :math:`-\alpha` and :math:`\alpha`: for inputs of both signs.

    Forward and backward are :func:`elastic_sign`; alpha starts at twice the mean magnitude. With k bits, k above 1,
    they are :func:`elastic_levels` from :math:`-2^{k-1}` to :math:`2^{k-1} - 1`.

    Source: Liu et al. 2022 (BiT); start as in its released code.

    Example:
        >>> quantizer = BiTSign(2)
        >>> quantizer.calibrate(torch.tensor([[1.0, -2.0]]))
        >>> quantizer(torch.tensor([[1.0, -2.0]]))
        tensor([[ 3., -3.]], grad_fn=<_ElasticSignBackward>)
    """

    values = Values('other')
    start_factor: ClassVar[float] = 2.0

    @property
    def levels(self) -> tuple[int, int]:
        return (-1, 1) if self.bits == 1 else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def quantize(self, x: Tensor) -> Tensor:
        alpha = self._scale()
        return elastic_sign(x, alpha) if self.bits == 1 else elastic_levels(x, alpha, *self.levels)


@MODELS.register_module()
class BiTStep(ElasticActivation):
    r"""Elastic binarization to 0 and :math:`\alpha`: after a softmax or a ReLU.

    Forward and backward are :func:`elastic_levels` from 0 to 1, or to :math:`2^k - 1` with k bits.
    Alpha starts at four times the mean magnitude, divided by the root of the highest level.

    Source: Liu et al. 2022 (BiT); start as in its released code.

    Example:
        >>> quantizer = BiTStep(2)
        >>> quantizer.calibrate(torch.tensor([[0.0, 0.5]]))
        >>> quantizer(torch.tensor([[0.4, 0.6]]))
        tensor([[0., 1.]], grad_fn=<_ElasticLevelsBackward>)
    """

    values = Values('other')
    start_factor: ClassVar[float] = 4.0

    @property
    def levels(self) -> tuple[int, int]:
        return 0, 2**self.bits - 1

    def quantize(self, x: Tensor) -> Tensor:
        return elastic_levels(x, self._scale(), *self.levels)
