"""Options of an export."""

from dataclasses import dataclass, field, fields
from typing import Any


def _option(flag: str, about: str, engine_has: str, *, default: bool | str = False) -> Any:
    """A field with its flag on the command line, and what other engines have of their own in place of it."""
    return field(default=default, metadata={'flag': flag, 'about': about, 'engine_has': engine_has})


@dataclass(frozen=True)
class Options:
    """Options of an export.

    ``tools/export.py`` has a flag for each; :func:`rebnn_mm.export.exporter.passes_of` says which passes they ask for.

    Attributes:
        half: store large real constants as float16.
        fast: give real-valued layers that have a faster kernel of ours to it (:func:`rebnn_mm.export.join_stem`, and
            ``RoiAlign`` by :func:`rebnn_mm.export.channels_last`), and let ONNX Runtime lay the maps of others out in
            blocks. The file is then the same up to float32 rounding of
            real sums, not bit for bit.
        half_stem: with ``fast``, let the stem multiply 16-bit numbers where a processor has them.
        int8: which real-valued layers become int8, one of :data:`rebnn_mm.export.int8.TIERS`; empty for none.
        reduce_range: with ``int8``, weights of 7 bits even if this processor needs no such.
        fused: join operators, and put the channels last in front of and behind binary convolutions.

    Example:
        >>> Options(fast=True).half
        False
        >>> Options(half=True, fused=False).given()
        {'--half': 'number types', '--no-fuse': 'operators'}
    """

    half: bool = _option('--half', 'store real constants in half precision', 'number types')
    fast: bool = _option('--fast', 'faster kernels for real-valued layers, equal up to float32 rounding', 'kernels')
    half_stem: bool = _option(
        '--half-stem', 'with --fast: products of 16-bit numbers in the first layer', 'number types'
    )
    int8: str = _option('--int8', 'real-valued layers in 8 bits', 'number types', default='')
    reduce_range: bool = _option(
        '--reduce-range', 'with --int8: 7-bit weights, for x86-64 without VNNI; given there anyway', 'number types'
    )
    fused: bool = _option('--no-fuse', 'one operator per binary layer, for debugging', 'operators', default=True)

    def given(self) -> dict[str, str]:
        """The flags that are given, each with what other engines have of their own in place of it."""
        return {
            option.metadata['flag']: option.metadata['engine_has']
            for option in fields(self)
            if getattr(self, option.name) != option.default
        }


PLAIN = Options()
"""No option is given: what a file holds by default."""
