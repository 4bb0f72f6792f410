"""BNN (Courbariaux et al. 2016): bare signs of latent weights that are kept within one.

The input's sign has the clipped straight-through estimator; latent weights are clamped by
:class:`rebnn_mm.engine.BinaryHook`.
"""

from typing import ClassVar

from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import sign_identity
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import SignWeight


@MODELS.register_module()
class BNNWeight(SignWeight):
    r"""Sign without a scale; the latent weight is clamped to [-bound, bound], [-1, 1] by default, after every step.

    .. math::
        \hat w = sign(w)
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}
        \qquad
        w \leftarrow clamp(w, -bound, bound)

    Without the clamp latent weights grow until they no longer flip. The output of a layer is a sum of signs, so a
    batch norm has to follow it.

    Args:
        bound: largest magnitude of a latent weight.

    Raises:
        ValueError: the bound is not above 0.

    Source: Courbariaux et al. 2016 (BNN), Algorithm 1.

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> quantizer = BNNWeight((1, 2))
        >>> (quantizer(w) * torch.tensor([[2., 3.]])).sum().backward()
        >>> quantizer.constrain(w.data)
        >>> w.grad, w.data
        (tensor([[2., 3.]]), tensor([[ 0.5000, -1.0000]]))
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], bound: float = 1.0) -> None:
        super().__init__(weight_shape)
        if bound <= 0:
            raise RebnnError(f'BNNWeight: bound={bound} must be above 0')
        self.bound = bound

    def signs(self, latent: Tensor) -> Tensor:
        return sign_identity(latent)

    def constrain(self, weight: Tensor) -> None:
        weight.clamp_(-self.bound, self.bound)


@MODELS.register_module()
class BNNConv2d(BinaryConv2d, nn.Conv2d):
    """BNN's convolution: ``conv_cfg=dict(type='BNNConv2d')``."""

    method_weight = 'BNNWeight'
    method_activation = 'BinarySign'


@MODELS.register_module()
class BNNLinear(BinaryLinear, nn.Linear, like=BNNConv2d):
    """BNN's linear layer, with the quantizers of :class:`BNNConv2d`."""
