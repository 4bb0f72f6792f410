"""Adds up what lab/tools/board/count_instructions.c wrote, for each library of the program."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

CLASSES = ('all', 'SIMD', 'CNT', 'FMLA', 'SIMD memory', 'memory', 'branches')
"""Columns of the counts. SIMD holds CNT and FMLA, too."""


class Region(NamedTuple):
    """A part of a program's memory that a file was loaded into.

    Attributes:
        first, end: addresses.
        offset: where in the file it begins.
        name: the file's, without folders.
    """

    first: int
    end: int
    offset: int
    name: str


class Block(NamedTuple):
    """Instructions that are executed one after the other.

    Attributes:
        library: the file's name.
        offset: where in the file they begin.
        executions: how often.
        classes: instructions of one pass, as :data:`CLASSES`.
    """

    library: str
    offset: int
    executions: int
    classes: tuple[int, ...]


def read_maps(lines: Iterable[str]) -> list[Region]:
    """Read where files lie from the lines of ``/proc/self/maps``.

    Example:
        >>> read_maps(['5500-5600 r-xp 00000100 fe:00 22 /lib/libc.so.6', '7000-7100 rw-p 00000000 00:00 0'])
        [Region(first=21760, end=22016, offset=256, name='libc.so.6')]
    """
    regions = []
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            first, end = (int(address, 16) for address in fields[0].split('-'))
            regions.append(Region(first, end, int(fields[2], 16), fields[5].strip().rpartition('/')[2]))
    return sorted(regions)


def read_counts(lines: Iterable[str], regions: list[Region]) -> list[Block]:
    """Read what was executed from the lines of the plug-in.

    Args:
        lines: address, executions, and the classes of one pass.
        regions: from :func:`read_maps`; what lies in none of them is ``'elsewhere'``.

    Raises:
        ValueError: a line is not of that form, or there is none; the message says what to do.

    Example:
        >>> read_counts(['5510 3 4 2 1 0 1 0 1'], [Region(0x5500, 0x5600, 0x100, 'librebnn_ort.so')])
        [Block(library='librebnn_ort.so', offset=272, executions=3, classes=(4, 2, 1, 0, 1, 0, 1))]
    """
    firsts = [region.first for region in regions]
    blocks = []
    for line in lines:
        fields = line.split()
        if len(fields) != 2 + len(CLASSES):
            raise ValueError(f'the counts hold the line {line.strip()!r}; run the program under the plug-in again.')
        address = int(fields[0], 16)
        index = bisect_right(firsts, address) - 1
        name, offset = 'elsewhere', address
        if index >= 0 and address < regions[index].end:
            name, offset = regions[index].name, address - regions[index].first + regions[index].offset
        blocks.append(Block(name, offset, int(fields[1]), tuple(int(count) for count in fields[2:])))
    if not blocks:
        raise ValueError('nothing was counted: the program did not reach both of its marks.')
    return blocks


def by_library(blocks: Iterable[Block]) -> dict[str, dict[str, int]]:
    """Executed instructions by library and class.

    Example:
        >>> by_library([Block('a.so', 0, 3, (4, 2, 1, 0, 1, 0, 1))])['a.so']['all']
        12
    """
    totals: dict[str, dict[str, int]] = {}
    for block in blocks:
        total = totals.setdefault(block.library, dict.fromkeys(CLASSES, 0))
        for kind, count in zip(CLASSES, block.classes, strict=True):
            total[kind] += block.executions * count
    return totals


def sum_of(totals: dict[str, dict[str, int]]) -> dict[str, int]:
    """All libraries together.

    Example:
        >>> sum_of({'a': dict.fromkeys(CLASSES, 1), 'b': dict.fromkeys(CLASSES, 2)})['all']
        3
    """
    return {kind: sum(total[kind] for total in totals.values()) for kind in CLASSES}


def by_function(blocks: Iterable[Block], library: str, functions: Iterable[str]) -> dict[str, int]:
    """Executed instructions of a library's functions, most first.

    Args:
        blocks: from :func:`read_counts`.
        library: the file's name.
        functions: the lines of ``nm --numeric-sort --demangle --defined-only``.

    Example:
        >>> by_function([Block('a.so', 20, 3, (4, 2, 1, 0, 1, 0, 1))], 'a.so', ['0010 t run(int)', '0030 T end'])
        {'run(int)': 12}
    """
    named = [line.split(' ', 2) for line in functions]
    # Bit 0 of an address on ARM of 32 bits says how the instructions are encoded.
    known = sorted((int(address, 16) & ~1, name.strip()) for address, kind, name in named if kind in 'tTwW')
    firsts = [address for address, _ in known]
    totals: dict[str, int] = {}
    for block in blocks:
        index = bisect_right(firsts, block.offset) - 1
        if block.library == library and index >= 0:
            name = known[index][1]
            totals[name] = totals.get(name, 0) + block.executions * block.classes[0]
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def hottest(blocks: Iterable[Block], library: str) -> Block:
    """The block of a library in which most instructions were executed.

    Raises:
        ValueError: nothing of that library was executed.
    """
    of_library = [block for block in blocks if block.library == library]
    if not of_library:
        raise ValueError(f'nothing of {library} was executed.')
    return max(of_library, key=lambda block: block.executions * block.classes[0])
