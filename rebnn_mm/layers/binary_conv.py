"""The one binary convolution that every method shares."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional

from ..errors import RebnnError
from ..functional.sign_product import Geometry
from ..quantizers.builder import QuantizerConfig
from ..utils.options import find_unknown_options
from .base import IMAGE_CHANNELS, SHORTCUT_NAMES, BinaryLayer


@MODELS.register_module()
class BinaryConv2d(BinaryLayer, nn.Conv2d):
    r"""Convolution of a quantized input with a quantized weight; drop-in for :class:`torch.nn.Conv2d`.

    .. math:: y = \hat w \otimes q_a(x) + bias

    In evaluation without gradients the integer codes are convolved and multiplied by the scaling factor afterwards, so
    sums are exact: in float32, while autocast rounds those above 256 (bfloat16) or 2048 (float16).

    The layer keeps full precision where every published method keeps it so: as first layer (1 or 3 input channels, or
    the first convolution of a backbone none of whose convolutions has so many) and as shortcut (a name in
    ``keep_real``, or 1x1 with a stride and more output than input channels).

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype:
            as in ``nn.Conv2d``; all are honoured. Padding happens after the activation quantizer.
        weight: config of the weight quantizer; None keeps the weight real (W32A1, stage 1 of two-stage training).
            ``'default'`` is the layer's own: here the scaled sign, in a method's layer the method's.
        activation: config of the activation quantizer; None keeps the input real. ``'default'`` is the layer's own,
            with a shift that starts at the mean of the data, so that the layer also learns after a ReLU; the blocks
            of this project choose the shift themselves.
        pad_value: what ``padding_mode='zeros'`` pads with: 0, or -1 or +1, the values one bit can hold.
        pad_end: where a stride leaves some of the padding unused, leave it out at the top and at the left, as Keras
            does at sizes that are multiples of the stride; PyTorch leaves it out at the bottom and at the right.
        keep_real: names of full-precision layers, each one or more components of the dotted name, ``*`` allowed, such
            as ``['downsample', 'backbone.layer1.0.conv1']``. ``False`` switches all rules off, the first layer's too.

    Shapes: (N, C_in, H, W) to (N, C_out, H_out, W_out), or without N.

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.
        RuntimeError: a norm is folded into the weight, as mmcv's ``fuse_conv_bn`` does.

    Example:
        >>> conv = BinaryConv2d(16, 32, 3, padding=1, bias=False)
        >>> conv(torch.randn(1, 16, 8, 8)).shape
        torch.Size([1, 32, 8, 8])
        >>> conv
        BinaryConv2d(
          16, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False, W1A1
          (weight_quantizer): BinaryMeanScaleWeight()
          (activation_quantizer): BinaryApproxSign(16, shift='mean')
        )
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros',
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        weight: QuantizerConfig = 'default',
        activation: QuantizerConfig = 'default',
        pad_value: int = 0,
        pad_end: bool = False,
        keep_real: Sequence[str] | Literal[False] = SHORTCUT_NAMES,
        memory: str = 'plain',
        **unknown: Any,
    ) -> None:
        if unknown:
            raise find_unknown_options(type(self).__name__, unknown, type(self), BinaryConv2d)
        if dtype is not None and not dtype.is_floating_point:
            raise RebnnError(f'{type(self).__name__}: dtype={dtype} is not supported; a sign needs a real number')
        if pad_value not in (-1, 0, 1):
            raise RebnnError(
                f'{type(self).__name__}: pad_value={pad_value!r} must be 0, or -1 or +1 as one bit can hold'
            )
        pad_value = int(pad_value)
        if pad_value and padding_mode != 'zeros':
            raise RebnnError(
                f"{type(self).__name__}: pad_value={pad_value} goes with padding_mode='zeros' only, which it fills; "
                f'padding_mode={padding_mode!r} takes its values from the input'
            )
        if pad_end and (padding_mode != 'zeros' or isinstance(padding, str)):
            raise RebnnError(
                f"{type(self).__name__}: pad_end=True goes with a number as padding and padding_mode='zeros' only; "
                f'padding={padding!r} and padding_mode={padding_mode!r} are given'
            )
        shape = in_channels, out_channels, kernel_size, stride, padding, dilation, groups
        super().__init__(*shape, bias, padding_mode, device, dtype)
        self.pad_value = pad_value
        self.pad_end = pad_end and max(self.stride) > 1
        if self.pad_end:
            self._reversed_padding_repeated_twice = _padding_at_end(cast(tuple[int, int], self.padding), self.stride)
        self._set_up(weight, activation, in_channels, -3, keep_real, memory)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
        if self.rules_hold and in_channels in IMAGE_CHANNELS:
            self.stay_real(f'first layer ({in_channels} input channels)')
        elif self.rules_hold and self.kernel_size == (1, 1) and max(self.stride) > 1 and out_channels > in_channels:
            self.stay_real('shortcut (1x1, strided, widening)')

    def _quantize_input(self, x: Tensor) -> Tensor:
        x = super()._quantize_input(x)
        if self._pads_itself:
            return x
        if self.padding_mode == 'zeros':
            return functional.pad(x, self._reversed_padding_repeated_twice, value=self.pad_value)
        return functional.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)

    @property
    def _pads_itself(self) -> bool:
        """Whether the convolution pads, with zeros and on both sides alike."""
        alike = not isinstance(self.padding, str) and not self.pad_end
        return self.padding_mode == 'zeros' and self.pad_value == 0 and alike

    @property
    def _geometry(self) -> Geometry:
        padding = cast(tuple[int, ...], self.padding) if self._pads_itself else (0, 0)
        return Geometry(self.stride, padding, self.dilation, self.groups)

    @property
    def _sums_signs(self) -> bool:
        padded_with_zeros = self.padding_mode == 'zeros' and self.pad_value == 0
        return super()._sums_signs and (self._pads_itself or not padded_with_zeros)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.binary:
            raise RuntimeError(
                f'{self.describe()}: called with a weight from outside, as efficient_conv_bn_eval does; that would '
                'convolve latent weights. Remove efficient_conv_bn_eval from the config.'
            )
        return super()._conv_forward(x, weight, bias)


def _padding_at_end(padding: tuple[int, int], stride: tuple[int, ...]) -> list[int]:
    """Left, right, top and bottom of what a map needs whose size is a multiple of the stride."""
    sides = []
    for each, step in zip(reversed(padding), reversed(stride), strict=True):
        needed = max(2 * each - (step - 1), 0)
        sides += [needed // 2, needed - needed // 2]
    return sides
