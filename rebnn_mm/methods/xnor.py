"""XNOR-Net (Rastegari et al. 2016): signs scaled by their mean magnitude, of weights that are centred and clamped.

Latent weights are centred over the input channels and clamped after every step, by
:class:`rebnn_mm.engine.BinaryHook`.
"""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..functional import channel_mean_abs, per_channel, sign
from ..functional.sign import SignFunction
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import SignWeight


class _XNORWeight(SignFunction):
    @staticmethod
    def forward(weight: Tensor) -> Tensor:
        return sign(weight) * per_channel(channel_mean_abs(weight), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (weight,) = ctx.saved_tensors
        alpha = channel_mean_abs(weight)
        return grad * ((weight.abs() <= 1) * per_channel(alpha, weight) + 1 / weight[0].numel())


@MODELS.register_module()
class XNORWeight(SignWeight):
    r"""Sign times the channel's mean magnitude, of weights that are centred and clamped after every step.

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \qquad
        \frac{\partial L}{\partial w_{ij}} =
            \frac{\partial L}{\partial \hat w_{ij}} \left( \alpha_i 1_{|w_{ij}| \le 1} + \frac{1}{M} \right)
        \qquad
        w \leftarrow clamp\left(w - \frac{1}{C} \sum_c w_{\cdot c}, -1, 1\right)

    with M weights per channel and C input channels. The second summand of the gradient is the paper's own shortcut for
    the derivative of the scale: it takes each weight's own gradient where the chain rule sums over the channel. The
    paper's map of activation scales (K) is left out, as in the released code.

    Source: Rastegari et al. 2016 (XNOR-Net), training of Binary-Weight-Networks; the step's rule is the released
    code's.

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> quantizer = XNORWeight((1, 2))
        >>> w_hat = quantizer(w)
        >>> w_hat.sum().backward()
        >>> quantizer.constrain(w.data)
        >>> w_hat.detach(), w.grad, w.data
        (tensor([[ 1., -1.]]), tensor([[1.5000, 0.5000]]), tensor([[ 1., -1.]]))
    """

    hook: ClassVar[str] = 'BinaryHook'

    def forward(self, weight: Tensor) -> Tensor:
        return _XNORWeight.apply(weight)

    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(weight.detach())

    def constrain(self, weight: Tensor) -> None:
        # A depthwise weight has one input channel, which centring would erase.
        if weight.shape[1] > 1:
            weight -= weight.mean(dim=1, keepdim=True)
        weight.clamp_(-1, 1)


@MODELS.register_module()
class XNORConv2d(BinaryConv2d, nn.Conv2d):
    """XNOR-Net's convolution: ``conv_cfg=dict(type='XNORConv2d')``."""

    method_weight = 'XNORWeight'
    method_activation = 'BinarySign'


@MODELS.register_module()
class XNORLinear(BinaryLinear, nn.Linear, like=XNORConv2d):
    """XNOR-Net's linear layer, with the quantizers of :class:`XNORConv2d`."""
