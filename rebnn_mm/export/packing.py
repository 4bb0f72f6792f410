"""Signs as bits, laid out as docs/format.md says."""

import numpy as np
from numpy.typing import NDArray

from rebnn_mm.errors import RebnnError

BITS = 8
"""Signs per byte."""


def pack_bits(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Bits of the signs of real numbers along the last dimension, eight to a byte.

    Bit 1 is a number below zero; zero, negative zero and NaN are bit 0, as is what fills the last byte. The first
    number is the least significant bit.

    Shapes: (..., C) to (..., ceil(C / 8)).

    Example:
        >>> pack_bits(np.array([[1.0, -1.0, -0.0, np.nan, -3.0, 1.0, 1.0, 1.0, -1.0]]))
        array([[18,  1]], dtype=uint8)
    """
    return np.packbits(np.asarray(values) < 0, axis=-1, bitorder='little')


def unpack_bits(bits: NDArray[np.uint8], channels: int) -> NDArray[np.float32]:
    """The numbers -1 and +1 that bits stand for, without what fills the last byte; ``channels`` in the last dimension.

    Raises:
        ValueError: the last dimension has another number of bytes than the channels need.

    Example:
        >>> unpack_bits(np.array([18], dtype=np.uint8), 5)
        array([ 1., -1.,  1.,  1., -1.], dtype=float32)
    """
    needed = count_packed_bytes(channels)
    if bits.shape[-1] != needed:
        raise RebnnError(
            f'{channels} signs are packed into {needed} bytes, but the last dimension has {bits.shape[-1]}.'
        )
    return 1 - 2 * np.unpackbits(bits, axis=-1, count=channels, bitorder='little').astype(np.float32)


def count_packed_bytes(channels: int) -> int:
    """Bytes that hold so many signs.

    Example:
        >>> count_packed_bytes(9)
        2
    """
    return -(-channels // BITS)


def pack_weight(codes: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Bits of a weight of -1 and +1, with the input channels last.

    Shapes: (O, C, KH, KW) to (O, KH, KW, ceil(C / 8)), or (O, C) to (O, ceil(C / 8)).

    Raises:
        ValueError: a value is neither -1 nor +1.

    Example:
        >>> pack_weight(np.array([[1.0, -1.0, 1.0]]))
        array([[2]], dtype=uint8)
    """
    codes = np.asarray(codes)
    if not np.all(np.abs(codes) == 1):
        raise RebnnError('a weight to pack holds a value that is neither -1 nor +1.')
    return pack_bits(np.moveaxis(codes, 1, -1))
