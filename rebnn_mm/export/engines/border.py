"""Compute what a padded border adds to each sum, for engines that cannot pad with zero."""

import numpy as np
from numpy.typing import NDArray


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

    Args:
        codes: the weight's signs, -1 and +1, shape (C_out, C_in, KH, KW).
        size: height and width of the input.
        strides: of the convolution, (height, width).
        pads: top, left, bottom, right.
        dilations: of the convolution, (height, width).

    Returns:
        shape (H_out, W_out, C_out).

    Example:
        >>> border_sums(np.ones((1, 2, 3, 3), np.float32), (2, 1), (1, 1), (1, 1, 1, 1), (1, 1))[..., 0]
        array([[14.],
               [14.]], dtype=float32)
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
