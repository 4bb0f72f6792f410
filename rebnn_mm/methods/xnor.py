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


def xnor_weight(weight: Tensor) -> Tensor:
    r"""Sign scaled by the channel's mean magnitude, with XNOR-Net's gradient.

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \qquad
        \frac{\partial L}{\partial w_{ij}} =
            \frac{\partial L}{\partial \hat w_{ij}} \left( \alpha_i 1_{|w_{ij}| \le 1} + \frac{1}{M} \right)

    The second summand is the paper's own shortcut for the derivative of the scale: it takes each weight's own gradient
    where the chain rule sums over the channel.

    Args:
        weight: latent weight, shape (C_out, ...), M values per channel.

    Source: Rastegari et al. 2016, training of Binary-Weight-Networks.

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> w_hat = xnor_weight(w)
        >>> w_hat.sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 1., -1.]]), tensor([[1.5000, 0.5000]]))
    """
    return _XNORWeight.apply(weight)


def centre_and_clamp_(weight: Tensor) -> Tensor:
    r"""Subtract, in place, the mean over the input channels and clamp to [-1, 1].

    .. math:: w \leftarrow clamp\left(w - \frac{1}{C} \sum_c w_{\cdot c}, -1, 1\right)

    A depthwise weight has one input channel, which centring would erase; it is clamped only.

    Args:
        weight: shape (C_out, C_in / groups, ...), changed in place.

    Source: the released code of Rastegari et al. 2016.

    Example:
        >>> import torch
        >>> centre_and_clamp_(torch.tensor([[0.5, -4.5]]))
        tensor([[ 1., -1.]])
    """
    if weight.shape[1] > 1:
        weight -= weight.mean(dim=1, keepdim=True)
    return weight.clamp_(-1, 1)


@MODELS.register_module()
class XNORWeight(SignWeight):
    r"""Sign times the channel's mean magnitude, of weights that are centred and clamped after every step.

    Forward and backward are :func:`xnor_weight`; the latent weight is then put through :func:`centre_and_clamp_`.
    The paper's map of activation scales (K) is left out, as in the released code.

    Source: Rastegari et al. 2016 (XNOR-Net).

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]])
        >>> quantizer = XNORWeight((1, 2))
        >>> quantizer.constrain(w)
        >>> w, quantizer(w)
        (tensor([[ 1., -1.]]), tensor([[ 1., -1.]]))
    """

    hook: ClassVar[str] = 'BinaryHook'

    def forward(self, weight: Tensor) -> Tensor:
        return xnor_weight(weight)

    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(weight.detach())

    def constrain(self, weight: Tensor) -> None:
        centre_and_clamp_(weight)


@MODELS.register_module()
class XNORConv2d(BinaryConv2d, nn.Conv2d):
    """XNOR-Net's convolution: ``conv_cfg=dict(type='XNORConv2d')``."""

    method_weight = 'XNORWeight'
    method_activation = 'BinarySign'


@MODELS.register_module()
class XNORLinear(BinaryLinear, nn.Linear, like=XNORConv2d):
    """XNOR-Net's linear layer, with the quantizers of :class:`XNORConv2d`."""
