"""BiDet (Wang et al., CVPR 2020): signs whose scale takes part in the backward, borders padded with -1.

Bi-Real Net's layer with two differences, which are those of BiDet's released code: the scaling factor takes part in
the weight's gradient, which is not masked, and borders are padded with -1, a value that one bit can hold. Its losses
are in :mod:`rebnn_mm.models.losses`, its heads in :mod:`rebnn_mm.models.detection`.
"""

from typing import Any

from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import channel_dims, sign, sign_identity
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import SignWeight


@MODELS.register_module()
class BiDetWeight(SignWeight):
    r"""Sign scaled by the channel-wise mean of the latent weight's magnitude, differentiated through both factors.

    With :math:`G = \partial L / \partial \hat w`, M weights per channel and the straight-through estimator of the sign
    taken as the identity, for weights of any size:

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \qquad
        \frac{\partial L}{\partial w_{ij}} = \alpha_i G_{ij} + \frac{sign(w_{ij})}{M} \sum_k G_{ik} \, sign(w_{ik})

    :class:`rebnn_mm.quantizers.BinaryMeanScaleWeight`, which has the same forward, leaves the second term out and
    masks the first one outside of [-1, 1].

    Source: the definition used by BiDet's released code (Wang et al., CVPR 2020); the paper does not print a gradient.

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> w_hat = BiDetWeight((1, 2))(w)
        >>> (w_hat * torch.tensor([[1.0, 3.0]])).sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 1., -1.]]), tensor([[0., 4.]]))
    """

    def signs(self, latent: Tensor) -> Tensor:
        return sign_identity(latent)

    def scale(self, weight: Tensor) -> Tensor:
        # Not channel_mean_abs: abs() has the derivative 0 at 0, and sign(0) is +1 here.
        return (weight * sign(weight)).mean(dim=channel_dims(weight))


@MODELS.register_module()
class BiDetConv2d(BinaryConv2d, nn.Conv2d):
    """BiDet's convolution: ``conv_cfg=dict(type='BiDetConv2d')``."""

    method_weight = 'BiDetWeight'
    method_activation = 'BinaryApproxSign'

    def __init__(self, *args: Any, pad_value: int = -1, **kwargs: Any) -> None:
        super().__init__(*args, pad_value=pad_value, **kwargs)


@MODELS.register_module()
class BiDetLinear(BinaryLinear, nn.Linear, like=BiDetConv2d):
    """BiDet's linear layer, with the quantizers of :class:`BiDetConv2d`."""
