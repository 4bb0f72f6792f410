"""ReSTE (Wu et al. 2023): an estimator between the straight-through one and the sign, by a power that grows.

Its derivative is that of :math:`sign(x) |x|^{1/o}`; :class:`rebnn_mm.engine.BinaryHook` raises o during training, for
weights and inputs. The released networks have the block style ``'reste'``.
"""

import math
from typing import Any, ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import RebnnError
from ..functional.sign import SignFunction
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, Quantizer, SignWeight, Values

END = 3.0
"""Last power of the schedule."""


class _SignPower(SignFunction):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, power = ctx.saved_tensors
        size = x.abs()
        exponent = 1 / power - 1
        # Constant up to 0.1, since the gradient of a root has no bound at 0. Literals, because
        # torch.compile(dynamic=True) takes no global number twice.
        slope = size.clamp(min=0.1).pow_(exponent).div_(power)
        slope = torch.where(size > 0.1, slope, 0.1**exponent)
        return slope.mul_(size <= 1.5) * grad, None


def sign_power(x: Tensor, power: Tensor) -> Tensor:
    r"""Two-valued sign with the derivative of a root.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \cdot
        \begin{cases}
            0.1^{1/o} / 0.1 & |x| \le 0.1 \\
            \frac{1}{o} |x|^{1/o - 1} & 0.1 < |x| \le 1.5 \\
            0 & |x| > 1.5
        \end{cases}

    At :math:`o = 1` it is the straight-through estimator with a window of 1.5; the larger o, the nearer the root is to
    the sign, and the further the gradient from even.

    ``power``: o, a scalar tensor of at least 1.

    Source: Wu et al. 2023 (ReSTE), with the window and the constant of the released code.

    Example:
        >>> x = torch.tensor([-2., -1., 0., 0.25], requires_grad=True)
        >>> sign_power(x, torch.tensor(2.)).sum().backward()
        >>> x.grad
        tensor([0.0000, 0.5000, 3.1623, 1.0000])
    """
    return _SignPower.apply(x, power)


def reste_power(done: float, end: float = END) -> float:
    r"""The schedule of o, slow at first.

    .. math:: o = 1 + (o_1 - 1) \left(1 - \cos \frac{\pi p}{2}\right)

    Source: Wu et al. 2023 (ReSTE), released code.

    Example:
        >>> [round(reste_power(p), 4) for p in (0.0, 0.5, 1.0)]
        [1.0, 1.5858, 3.0]
    """
    return 1 + (end - 1) * (1 - math.cos(math.pi * done / 2))


class _GrowingPower(Quantizer):
    hook: ClassVar[str] = 'BinaryHook'
    power: Tensor

    def __init__(self, *args: Any, end: float = END, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 1 <= end < math.inf:
            raise RebnnError(
                f'{type(self).__name__}: end={end!r} must be a number of at least 1, where the estimator is '
                'straight-through'
            )
        self.end = end
        self.register_buffer('power', torch.tensor(1.0))

    def set_progress(self, done: float) -> None:
        self.power.fill_(reste_power(done, self.end))


@MODELS.register_module()
class ReSTEWeight(_GrowingPower, SignWeight):
    r"""Sign times the mean magnitude of the layer, with the estimator of a power that grows.

    .. math::
        \hat w = \overline{|w|} \, sign(w)

    The sign's gradient is that of :func:`sign_power`; the scale, one for all channels, takes part in it.

    Args:
        end: last power of the schedule :func:`reste_power`.

    Raises:
        ValueError: ``end`` is below 1.

    Source: Wu et al. 2023 (ReSTE).

    Example:
        >>> ReSTEWeight((2, 2))(torch.tensor([[1., -3.], [0., 2.]]))
        tensor([[ 1.5000, -1.5000],
                [ 1.5000,  1.5000]])
    """

    factors = 1

    def forward(self, weight: Tensor) -> Tensor:
        return sign_power(weight, self.power) * weight.abs().mean()

    def scale(self, weight: Tensor) -> Tensor:
        return weight.abs().mean().expand(weight.shape[0])


@MODELS.register_module()
class ReSTESign(_GrowingPower, ActivationQuantizer):
    r"""Sign with the estimator of a power that grows, :func:`sign_power`.

    Args:
        end: last power of the schedule :func:`reste_power`; 1 keeps the straight-through estimator.

    Raises:
        ValueError: ``end`` is below 1.

    Source: Wu et al. 2023 (ReSTE).

    Example:
        >>> ReSTESign(3)(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_power(x, self.power)


@MODELS.register_module()
class ReSTEConv2d(BinaryConv2d, nn.Conv2d):
    """ReSTE's convolution: ``conv_cfg=dict(type='ReSTEConv2d')``."""

    method_weight = 'ReSTEWeight'
    method_activation = 'ReSTESign'


@MODELS.register_module()
class ReSTELinear(BinaryLinear, nn.Linear, like=ReSTEConv2d):
    """ReSTE's linear layer, with the quantizers of :class:`ReSTEConv2d`."""
