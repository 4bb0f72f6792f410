"""A binary convolution out of larq compute engine's operators, with PyTorch's border."""

import numpy as np
from numpy.typing import NDArray

from .builder import TFLiteBuilder

WORD = 32
"""Bits per word of larq compute engine's packed tensors."""

SAME, VALID = 0, 1
"""Its numbers for a border that keeps the size, and for none; borders are operators of their own, so most is VALID."""


def binary_convolution(
    builder: TFLiteBuilder,
    x: int,
    shape: tuple[int, ...],
    codes: NDArray[np.float32],
    shift: NDArray[np.float32],
    *,
    strides: tuple[int, ...] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, ...] = (1, 1),
    pad_value: int = 0,
) -> tuple[int, tuple[int, int]]:
    """Write the integer sums of a binary convolution; scale and bias are the caller's.

    The engine pads with zeros where TensorFlow's SAME padding is PyTorch's. As soon as there is a stride it is not:
    there the packed input is padded with +1, whose bits are zeros, and what that border added is taken off again by a
    constant map (:func:`border_sums`): integers, hence exact.
    """
    n, channels, h, w = shape
    words = -(-channels // WORD)
    if np.any(shift):
        x = builder.operator('ADD', [x, builder.constant(shift)], (n, h, w, channels), 'AddOptions')
    bits = builder.operator('LceQuantize', [x], (n, h, w, words), dtype=np.int32)
    top, left, bottom, right = pads
    same = [dilation * (kernel - 1) // 2 for dilation, kernel in zip(dilations, codes.shape[2:], strict=True)]
    # Where both borders lie within one kernel, the engine's own padding with zeros gives other sums (seen in 0.16).
    fits = all(2 * half < length for half, length in zip(same, (h, w), strict=True))
    keeps_size = all(stride == 1 for stride in strides) and all(kernel % 2 for kernel in codes.shape[2:])
    engine_pads = pad_value == 0 and keeps_size and fits and pads == (*same, *same)
    if any(pads) and not engine_pads:
        amounts = builder.constant(np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32))
        padded = (n, h + top + bottom, w + left + right, words)
        bits = builder.operator('PAD', [bits, amounts], padded, 'PadOptions', np.int32)
    border = border_sums(codes, (h, w), (strides[0], strides[1]), pads, (dilations[0], dilations[1]))
    size, outputs = border.shape[:2], len(codes)
    y = builder.operator(
        'LceBconv2d',
        [
            bits,
            builder.constant(_pack_words(codes)),
            builder.constant(np.ones(outputs, np.float32)),
            builder.constant(np.zeros(outputs, np.float32)),
            -1,  # thresholds, for an output that is packed again
        ],
        (n, *size, outputs),
        channels_in=channels,
        dilation_height_factor=dilations[0],
        dilation_width_factor=dilations[1],
        fused_activation_function=0,
        pad_values=0 if engine_pads else 1,
        padding=SAME if engine_pads else VALID,
        stride_height=strides[0],
        stride_width=strides[1],
    )
    if any(pads) and pad_value != 1 and not engine_pads:
        correction = builder.constant((pad_value - 1) * border[None])
        y = builder.operator('ADD', [y, correction], (n, *size, outputs), 'AddOptions')
    return y, (size[0], size[1])


def border_sums(
    codes: NDArray[np.float32],
    size: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilations: tuple[int, int],
) -> NDArray[np.float32]:
    r"""Sum of the weights whose taps fall outside of the image, for every output.

    With a border of the value p instead of zero, a convolution gives

    .. math:: y_p = y_0 + p \sum_{t \text{ outside}} \sum_c w_{o,c,t}

    so ``y_0 = y_p - p * border_sums(...)``. The sums are integers: they do not depend on the input.
    """
    rows = _outside(size[0], codes.shape[2], strides[0], pads[0], pads[2], dilations[0])
    columns = _outside(size[1], codes.shape[3], strides[1], pads[1], pads[3], dilations[1])
    outside = rows[:, None, :, None] | columns[None, :, None, :]
    sums: NDArray[np.float32] = np.einsum('hwkl,okl->hwo', outside.astype(np.float32), codes.sum(axis=1))
    return sums


def _outside(size: int, kernel: int, stride: int, before: int, after: int, dilation: int) -> NDArray[np.bool_]:
    """Whether tap k of output i lies outside along one direction, shape (outputs, kernel)."""
    outputs = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
    position = np.arange(outputs)[:, None] * stride - before + np.arange(kernel) * dilation
    return (position < 0) | (position >= size)


def _pack_words(codes: NDArray[np.float32]) -> NDArray[np.int32]:
    """Bits of the weight along its input channels, bit 1 = -1, in words: (C_out, KH, KW, words)."""
    negative = codes.transpose(0, 2, 3, 1) < 0
    filling = -negative.shape[-1] % WORD
    filled = np.pad(negative, [(0, 0)] * 3 + [(0, filling)])
    return np.packbits(filled, axis=-1, bitorder='little').view(np.dtype('<i4'))
