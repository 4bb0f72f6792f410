"""BNext (Guo et al. 2022): weights that harden into signs epoch by epoch, and signs with a wide gradient.

Its network, with squeeze and excitation in every unit, is the backbone ``BNext``.
"""

from typing import Any, ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import sign, straight_through
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import SignWeight, Values

HARD = 1e-7
"""A temperature below this one gives signs."""


@MODELS.register_module()
class BNextWeight(SignWeight):
    r"""Signs without a scale, which training reaches from a clamped line.

    .. math::
        \hat w = clamp(w / T, -1, 1), \quad \hat w = sign(w) \text{ where } T < 10^{-7}
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    The temperature T falls by a tenth with every epoch, so training has signs from epoch 153 on: until then it
    computes with other weights than evaluation and exported files, which have the signs. Latent weights are clamped to
    [-1.5, 1.5].

    Args:
        decay: factor of the temperature per epoch.

    Attributes:
        temperature (buffer): T, scalar, from 1.

    Source: Guo et al. 2022 (BNext), released code.

    Example:
        >>> quantizer = BNextWeight((1, 2))
        >>> w = torch.tensor([[0.45, -1.8]])
        >>> quantizer.begin_epoch(w)
        >>> quantizer(w), quantizer.eval()(w)
        (tensor([[ 0.5000, -1.0000]]), tensor([[ 1., -1.]]))
    """

    hook: ClassVar[str] = 'BinaryHook'
    values = Values('signs', same_in_training=False)
    temperature: Tensor

    def __init__(self, weight_shape: tuple[int, ...], decay: float = 0.9) -> None:
        super().__init__(weight_shape)
        if not 0 < decay < 1:
            raise RebnnError(f'BNextWeight: decay={decay} must be between 0 and 1')
        self.decay = decay
        self.register_buffer('temperature', torch.tensor(1.0))

    def forward(self, weight: Tensor) -> Tensor:
        """The weight of training at this temperature, or the signs in evaluation, of the latent weight's shape."""
        latent = weight.detach()
        if not self.training:
            return straight_through(weight, sign(latent))
        # Without asking for the temperature's value, which a GPU would have to be waited for.
        soft = (latent / self.temperature.clamp(min=HARD)).clamp(-1, 1)
        return straight_through(weight, torch.where(self.temperature < HARD, sign(latent), soft))

    def begin_epoch(self, weight: Tensor) -> None:
        self.temperature.mul_(self.decay)

    def constrain(self, weight: Tensor) -> None:
        weight.clamp_(-1.5, 1.5)


@MODELS.register_module()
class BNextConv2d(BinaryConv2d, nn.Conv2d):
    """BNext's convolution: ``conv_cfg=dict(type='BNextConv2d')``."""

    method_weight = 'BNextWeight'
    method_activation: ClassVar[str | dict[str, Any]] = dict(type='BinaryWideSign', width=1.5)


@MODELS.register_module()
class BNextLinear(BinaryLinear, nn.Linear, like=BNextConv2d):
    """BNext's linear layer, with the quantizers of :class:`BNextConv2d`."""
