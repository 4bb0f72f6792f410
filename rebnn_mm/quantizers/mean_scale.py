"""The plain scaled sign that ReBNN is measured against."""

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import channel_mean_abs, scaled_sign, sign
from .base import WeightQuantizer


@MODELS.register_module()
class BinaryMeanScaleWeight(WeightQuantizer):
    r"""Sign scaled by the channel-wise mean of the latent weight's magnitude, with straight-through gradient.

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}| \text{ (constant in the backward)}
        \qquad
        \frac{\partial L}{\partial w_{ij}} = \alpha_i \frac{\partial L}{\partial \hat w_{ij}} 1_{|w_{ij}| \le 1}

    This is the non-parametric scaling factor whose oscillation the ReBNN paper sets out to cure (its Eq. 3 to 5).

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> w_hat = BinaryMeanScaleWeight((1, 2))(w)
        >>> w_hat.sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 1., -1.]]), tensor([[1., 0.]]))
    """

    channels_alone = True

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return scaled_sign(weight, channel_mean_abs(weight.detach()))

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs and the mean of |w| per channel."""
        return sign(weight), channel_mean_abs(weight)
