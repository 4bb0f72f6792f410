"""Options of an export."""

from dataclasses import dataclass, field, fields


def _switch(about: str, default: bool = False) -> bool:
    """An option that is on or off, with what the command says of its flag, which changes the default."""
    switch: bool = field(default=default, metadata={'about': about})
    return switch


@dataclass(frozen=True)
class Options:
    """Options of an export; :func:`rebnn_mm.export.passes.passes_of` says which passes they ask for.

    Attributes:
        half: store large real constants as float16.
        fast: give full-precision layers that have a faster kernel of ours to it
            (:class:`rebnn_mm.export.passes.JoinStem`, and ``RoiAlign`` by
            :class:`rebnn_mm.export.passes.ChannelsLast`), and let ONNX Runtime lay the maps of others out in blocks.
            The file is then the same up to float32 rounding of real sums, not bit for bit.
        half_stem: with ``fast``, let the stem multiply 16-bit numbers where a processor has them.
        int8: full-precision layers that become int8, one of :data:`rebnn_mm.export.passes.int8.TIERS`; empty for none.
        reduce_range: with ``int8``, weights of 7 bits even if this processor needs no such.
        fuse: join operators, and put the channels last before and after binary convolutions.

    Example:
        >>> Options(half=True, fuse=False).given()
        ['half', 'fuse']
    """

    half: bool = _switch('store real constants in half precision')
    fast: bool = _switch('faster kernels for full-precision layers, equal up to float32 rounding')
    half_stem: bool = _switch('with --fast: the first layer may multiply 16-bit numbers')
    int8: str = ''
    reduce_range: bool = _switch('with --int8: 7-bit weights, for x86-64 without VNNI (the default there)')
    fuse: bool = _switch('one operator per binary layer, for debugging', default=True)

    def given(self) -> list[str]:
        """Names of the options that are not as they are by default."""
        return [option.name for option in fields(self) if getattr(self, option.name) != option.default]


PLAIN = Options()
"""No option is given: what a file holds by default."""
