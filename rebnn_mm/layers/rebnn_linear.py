"""ReBNN's linear layer: the binary linear layer with ReBNN's quantizers."""

from collections.abc import Sequence
from typing import Any

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .base import SHORTCUT_NAMES
from .binary_linear import BinaryLinear
from .rebnn_layer import ReBNNLayer


# nn.Linear is named again because mmengine's init_cfg (layer='Linear') looks at direct base classes only.
@MODELS.register_module()
class ReBNNLinear(ReBNNLayer, BinaryLinear, nn.Linear):
    """Binary linear layer trained with the resilient gradient.

    Args:
        args: those of ``nn.Linear``, in its order.
        gamma, gamma_bounds, max_share, flip_window, variant, center: see :class:`rebnn_mm.quantizers.ReBNNWeight`.
        weight: config of the weight quantizer; ``'default'`` is ReBNN's with these options, None keeps the weight real
            (stage 1 of two-stage training), and the options have no effect then.
        activation: config of the activation quantizer, see :class:`ReBNNConv2d`.
        keep_real: see :class:`BinaryConv2d`.
        kwargs: those of ``nn.Linear``, by name.

    Attributes:
        weight: latent weight, shape (C_out, C_in).
        alpha: scaling factor, shape (C_out,); None where the weight quantizer is not ReBNN's.
        gamma: balanced parameter, shape (C_out,); None where the weight quantizer is not ReBNN's.

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.

    Example:
        >>> layer = ReBNNLinear(16, 4)
        >>> layer.weight.shape, layer.alpha.shape, layer.gamma.shape
        (torch.Size([4, 16]), torch.Size([4]), torch.Size([4]))
    """

    def __init__(
        self,
        *args: Any,
        gamma: str | float = 'adaptive',
        gamma_bounds: tuple[float, float] | None = (1e-5, 2e-4),
        max_share: float | None = 0.01,
        flip_window: int | str = 1,
        variant: str = 'paper',
        center: str | None = None,
        weight: QuantizerConfig = 'default',
        activation: QuantizerConfig = 'default',
        keep_real: Sequence[str] | bool = SHORTCUT_NAMES,
        **kwargs: Any,
    ) -> None:
        if weight == 'default':
            weight = dict(
                type='ReBNNWeight',
                gamma=gamma,
                gamma_bounds=gamma_bounds,
                max_share=max_share,
                flip_window=flip_window,
                variant=variant,
                center=center,
            )
        super().__init__(*args, weight=weight, activation=activation, keep_real=keep_real, **kwargs)
