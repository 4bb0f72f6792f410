"""What ReBNN's convolution and linear layer have in common."""

from torch import Tensor, nn

from ..quantizers import ReBNNWeight
from .base import BinaryLayer


class ReBNNLayer(BinaryLayer):
    """Mixin that shows a layer's scaling factor and balanced parameter as its own attributes."""

    @property
    def alpha(self) -> nn.Parameter | None:
        """Scaling factor, shape (C_out,); None where the weight quantizer is not ReBNN's."""
        return self.weight_quantizer.alpha if isinstance(self.weight_quantizer, ReBNNWeight) else None

    @property
    def gamma(self) -> Tensor | None:
        """Balanced parameter, shape (C_out,); None where the weight quantizer is not ReBNN's."""
        return self.weight_quantizer.gamma if isinstance(self.weight_quantizer, ReBNNWeight) else None
