"""Options of an export."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Options:
    """Options of an export; :func:`rebnn_mm.export.exporter.passes_of` says which passes they ask for.

    Attributes:
        half: store large real constants as float16.
        fast: give full-precision layers that have a faster kernel of ours to it
            (:class:`rebnn_mm.export.passes.JoinStem`, and ``RoiAlign`` by
            :class:`rebnn_mm.export.passes.ChannelsLast`), and let ONNX Runtime lay the maps of others out in blocks.
            The file is then the same up to float32 rounding of real sums, not bit for bit.
        half_stem: with ``fast``, let the stem multiply 16-bit numbers where a processor has them.
        int8: full-precision layers that become int8, one of :data:`rebnn_mm.export.passes.int8.TIERS`; empty for none.
        reduce_range: with ``int8``, weights of 7 bits even if this processor needs no such.
        fused: join operators, and put the channels last before and after binary convolutions.

    Example:
        >>> Options(half=True, fused=False).given()
        ['half', 'fused']
    """

    half: bool = False
    fast: bool = False
    half_stem: bool = False
    int8: str = ''
    reduce_range: bool = False
    fused: bool = True

    def given(self) -> list[str]:
        """Names of the options that are not as they are by default."""
        return [option.name for option in fields(self) if getattr(self, option.name) != option.default]


PLAIN = Options()
"""No option is given: what a file holds by default."""
