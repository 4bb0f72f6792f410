"""The operators in numpy: int64 sums, and float32 steps in the order of docs/format.md."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def signs(x: Array, shift: Array) -> Array:
    """-1 and +1 of x + shift, channels in dimension 1."""
    shape = (1, -1, *[1] * (x.ndim - 2))
    return np.where((x + shift.reshape(shape)) < 0, -1, 1).astype(np.int64)


def sums(x: Array, w: Array, options: dict[str, Any]) -> Array:
    """Integer convolution of signs x (N, C, H, W) and w (O, C / group, KH, KW), one output pixel after another."""
    (sy, sx), (dy, dx), group = options['strides'], options['dilations'], options['group']
    top, left, bottom, right = options['pads']
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=options['pad_value'])
    out, inside, kh, kw = w.shape
    high = (x.shape[2] - dy * (kh - 1) - 1) // sy + 1
    wide = (x.shape[3] - dx * (kw - 1) - 1) // sx + 1
    y = np.zeros((len(x), out, high, wide), np.int64)
    for o in range(out):
        first = o // (out // group) * inside
        for i in range(high):
            for j in range(wide):
                window = x[:, first : first + inside, i * sy : i * sy + dy * kh : dy, j * sx : j * sx + dx * kw : dx]
                y[:, o, i, j] = (window[:, :, :kh, :kw] * w[o]).sum(axis=(1, 2, 3))
    return y


def block(a: Array, values: dict[str, Array], residual: Array) -> Array:
    """The full-precision steps of a block after the sums a (N, O, H, W)."""
    v = {name: value.reshape(1, -1, 1, 1) for name, value in values.items()}
    y = a.astype(np.float32) * v['scale']
    y = y * v['mul'] + v['add']
    y = y + residual
    y = y + v['pre']
    y = np.where(y > 0, y, y * v['slope'])
    return y + v['post']
