"""What ReBNN's convolution and linear layer have in common."""

from typing import cast

from torch import Tensor, nn

from ..quantizers import ReBNNWeight
from .base import BinaryLayer


class ReBNNLayer(BinaryLayer):
    """Mixin that shows a layer's scaling factor and balanced parameter as its own attributes."""

    @property
    def alpha(self) -> nn.Parameter | None:
        """Scaling factor, shape (C_out,); None where the layer stays real."""
        return None if self.weight_quantizer is None else cast(ReBNNWeight, self.weight_quantizer).alpha

    @property
    def gamma(self) -> Tensor | None:
        """Balanced parameter, shape (C_out,); None where the layer stays real."""
        return None if self.weight_quantizer is None else cast(ReBNNWeight, self.weight_quantizer).gamma
