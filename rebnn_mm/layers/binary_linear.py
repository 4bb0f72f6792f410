"""The one binary linear layer that every method shares."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from mmengine.registry import MODELS
from torch import nn

from ..errors import RebnnError
from ..quantizers.builder import QuantizerConfig
from ..utils.options import find_unknown_options
from .base import SHORTCUT_NAMES, BinaryLayer


@MODELS.register_module()
class BinaryLinear(BinaryLayer, nn.Linear):
    r"""Linear layer with quantized input and weight; drop-in for :class:`torch.nn.Linear`.

    .. math:: y = q_a(x) \hat w^T + bias

    Args:
        in_features, out_features, bias, device, dtype: as in ``nn.Linear``.
        weight, activation: configs of the quantizers, as in :class:`BinaryConv2d`.
        keep_real: names of layers that keep full precision, as in :class:`BinaryConv2d`; False for none.

    Shapes: (..., in_features) to (..., out_features).

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.

    Example:
        >>> BinaryLinear(16, 4)(torch.randn(2, 5, 16)).shape
        torch.Size([2, 5, 4])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        weight: QuantizerConfig = 'default',
        activation: QuantizerConfig = 'default',
        keep_real: Sequence[str] | Literal[False] = SHORTCUT_NAMES,
        memory: str = 'plain',
        **unknown: Any,
    ) -> None:
        if unknown:
            raise find_unknown_options(type(self).__name__, unknown, type(self), BinaryLinear)
        if dtype is not None and not dtype.is_floating_point:
            raise RebnnError(f'{type(self).__name__}: dtype={dtype} is not supported; a sign needs a real number')
        super().__init__(in_features, out_features, bias, device, dtype)
        self._set_up(weight, activation, in_features, -1, keep_real, memory)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
