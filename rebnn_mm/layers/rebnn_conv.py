"""ReBNN's convolution: the binary convolution with ReBNN's quantizers."""

from collections.abc import Sequence
from typing import Any

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .base import SHORTCUT_NAMES
from .binary_conv import BinaryConv2d
from .rebnn_layer import ReBNNLayer


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class ReBNNConv2d(ReBNNLayer, BinaryConv2d, nn.Conv2d):
    """Binary convolution trained with the resilient gradient: ``conv_cfg=dict(type='ReBNNConv2d')``.

    Forward and first half of the backward are in :class:`rebnn_mm.quantizers.ReBNNWeight`; the reconstruction term and
    the update of gamma are applied around the optimizer step by :class:`rebnn_mm.engine.ReBNNHook`.

    Args:
        args: those of ``nn.Conv2d``, in its order.
        gamma, gamma_bounds, max_share, flip_window, variant, center: see :class:`rebnn_mm.quantizers.ReBNNWeight`.
        weight: config of the weight quantizer; ``'default'`` is ReBNN's with these options, None keeps the weight real
            (stage 1 of two-stage training), and the options have no effect then.
        activation: config of the activation quantizer, see :class:`BinaryConv2d`.
        pad_value, keep_real: see :class:`BinaryConv2d`.
        kwargs: those of ``nn.Conv2d``, by name.

    Attributes:
        weight: latent weight, shape (C_out, C_in / groups, k, k).
        alpha: scaling factor, shape (C_out,); None where the weight quantizer is not ReBNN's.
        gamma: balanced parameter, shape (C_out,); None where the weight quantizer is not ReBNN's.

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.

    Example:
        >>> from mmcv.cnn import build_conv_layer
        >>> conv = build_conv_layer(dict(type='ReBNNConv2d', gamma=1e-4), 16, 32, 3, padding=1, bias=False)
        >>> conv.weight.shape, conv.alpha.shape, conv.gamma.shape
        (torch.Size([32, 16, 3, 3]), torch.Size([32]), torch.Size([32]))
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
        pad_value: int | None = None,
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
        super().__init__(
            *args, weight=weight, activation=activation, pad_value=pad_value, keep_real=keep_real, **kwargs
        )
