"""BiBERT (Qin et al. 2022): signs of centred rows, scaled by the mean magnitude of the row.

The quantizer of linear layers and embeddings; Bi-Attention is :class:`rebnn_mm.layers.BinaryAttention`, the direction
matching loss is in :mod:`rebnn_mm.models.losses`.
"""

from typing import Any

from mmengine.registry import MODELS
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..functional import centre_channels, channel_mean_abs, per_channel, sign
from ..functional.sign import SignFunction
from ..quantizers import SignWeight


class _CentredSign(SignFunction):
    @staticmethod
    def forward(weight: Tensor) -> Tensor:
        return sign(centre_channels(weight)) * per_channel(channel_mean_abs(weight), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (weight,) = ctx.saved_tensors
        return centre_channels(grad * (centre_channels(weight).abs() <= 1))


@MODELS.register_module()
class BiBERTWeight(SignWeight):
    r"""Sign of the centred channel times the mean magnitude of the uncentred one.

    .. math::
        \hat w = \alpha \circ sign(\bar w), \quad
        \bar w_{ij} = w_{ij} - \frac{1}{M} \sum_k w_{ik}, \quad
        \alpha_i = \frac{1}{M} \sum_j |w_{ij}|
        \qquad
        \frac{\partial L}{\partial \bar w_{ij}} = \frac{\partial L}{\partial \hat w_{ij}} 1_{|\bar w_{ij}| \le 1}

    and on to w through the centring (:func:`rebnn_mm.functional.centre_channels`). The factor has no gradient, and is
    left out of the weight's gradient. There is no state, so an embedding quantizes the rows of a batch and no others.

    Source: Qin et al. 2022 (BiBERT), as its released code computes it; sign(0) is +1 by this project's convention.

    Example:
        >>> import torch
        >>> w = torch.tensor([[1.0, 2.0, 6.0]], requires_grad=True)
        >>> w_hat = BiBERTWeight((1, 3))(w)
        >>> w_hat[0, 1].backward()
        >>> w_hat.detach(), w.grad  # only -1 of -2, -1, 3 is within the window
        (tensor([[-3., -3.,  3.]]), tensor([[-0.3333,  0.6667, -0.3333]]))
    """

    channels_alone = True

    def latent(self, weight: Tensor) -> Tensor:
        return centre_channels(weight)

    def forward(self, weight: Tensor) -> Tensor:
        return _CentredSign.apply(weight)

    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(weight.detach())
