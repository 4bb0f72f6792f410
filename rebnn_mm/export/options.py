"""What a user asks of a file."""

from typing import NamedTuple


class Options(NamedTuple):
    """Options of an export.

    Attributes:
        half: store real constants as float16.
        fused: join binary convolutions with what follows them.
        fast: compute real-valued layers by faster kernels of ours, up to float32 rounding.
        half_stem: with ``fast``, products of 16-bit numbers in the stem.

    Example:
        >>> Options(fast=True).half
        False
    """

    half: bool = False
    fused: bool = True
    fast: bool = False
    half_stem: bool = False
