"""Binary weights with one scale, as BinaryBERT has them."""

from mmengine.registry import MODELS
from torch import Tensor

from ..functional import tensor_sign, tensor_sign_codes
from .base import WeightQuantizer
from .options import check_per, per_channel_factor


@MODELS.register_module()
class BWNWeight(WeightQuantizer):
    r"""Sign times the mean magnitude of the tensor, with a gradient that passes unchanged.

    Forward and backward are :func:`rebnn_mm.functional.tensor_sign`, without centring.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
        per: whether one scale covers the ``'tensor'``, as in BinaryBERT's linear layers, or a ``'channel'``, as in its
            word embedding.

    Raises:
        ValueError: ``per`` is neither.

    Source: Rastegari et al. 2016 (Binary-Weight-Networks); Bai et al. 2021 (BinaryBERT).

    Example:
        >>> import torch
        >>> BWNWeight((2, 2))(torch.tensor([[1.0, -1.0], [2.0, 0.0]]))
        tensor([[ 1., -1.],
                [ 1.,  1.]])
    """

    def __init__(self, weight_shape: tuple[int, ...], per: str = 'tensor') -> None:
        super().__init__(weight_shape)
        self.per = check_per(type(self).__name__, per)
        self.channels_alone = per == 'channel'
        self.factors = 1 if per == 'tensor' else weight_shape[0]

    def forward(self, weight: Tensor) -> Tensor:
        """The binarised weight, of the latent weight's shape."""
        return tensor_sign(weight, self.per)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Signs, and the scale for every channel."""
        signs, scale = tensor_sign_codes(weight, self.per)
        return signs, per_channel_factor(scale, weight)

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'per={self.per!r}'
