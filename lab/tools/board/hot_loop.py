"""Asks llvm-mca how fast a core can run the loop that counts bits."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from instruction_counts import Block

PRODUCTS_OF_CNT = 128
"""A CNT of 128 bits counts as many products of two signs."""

MCA = 'llvm-mca-19'

_LINE = re.compile(r'\s*([0-9a-f]+):\t(\S+)\s*([^/<]*)')


def disassemble(binary: Path, block: Block) -> list[str]:
    """The loop that a block lies in, as assembly. An emulator's block ends where a page ends, so it may be a part.

    Args:
        binary: the file that the block lies in; its code has the same addresses as in the file.
        block: from :func:`instruction_counts.hottest`.

    Raises:
        ValueError: there is no loop around it.
    """
    reach = 4096
    command = ['aarch64-linux-gnu-objdump', '-d', '--no-show-raw-insn']
    command += [f'--start-address={max(0, block.offset - reach)}', f'--stop-address={block.offset + reach}']
    listing = subprocess.run([*command, str(binary)], capture_output=True, text=True, check=True).stdout
    return loop_around(listing, block.offset)


def loop_around(listing: str, address: int) -> list[str]:
    r"""The shortest loop around an address in a listing of objdump, as assembly for llvm-mca.

    Raises:
        ValueError: no jump leads from after the address to before it.

    Example:
        >>> loop_around(' 40:\tcnt\tv1.16b, v2.16b\n 44:\tb.ne\t40 <f+0x40>  // b.any\n', 0x44)
        ['cnt v1.16b, v2.16b', 'b.ne .']
    """
    found = [_LINE.match(line) for line in listing.splitlines()]
    lines = [(int(match[1], 16), match[2], match[3].strip()) for match in found if match]
    for index, (here, name, operands) in enumerate(lines):
        target = operands.split(',')[-1].strip()
        if here < address or not re.fullmatch(r'b\.\w+|cbn?z', name) or not int(target, 16) <= address:
            continue
        loop = [f'{other} {rest}' for place, other, rest in lines[:index] if place >= int(target, 16)]
        return [*loop, f'{name} {operands.removesuffix(target)}.']
    raise ValueError(f'no loop around the address {address:#x}.')


def products(loop: list[str]) -> int:
    """Products of two signs that one pass through a loop adds up.

    Example:
        >>> products(['cnt v1.16b, v2.16b', 'b.ne .'])
        128
    """
    return PRODUCTS_OF_CNT * sum(line.startswith('cnt ') and '.16b' in line for line in loop)


def products_per_cycle(loop: list[str], core: str) -> float:
    """Products of two signs per cycle by LLVM's model of a core.

    Args:
        loop: from :func:`disassemble`.
        core: LLVM's name of it, such as ``cortex-a55``.

    Raises:
        ValueError: llvm-mca does not read the loop.
    """
    passes = 200
    done = subprocess.run(
        [MCA, '-mtriple=aarch64', f'-mcpu={core}', f'-iterations={passes}'],
        input='\n'.join(loop) + '\n',
        capture_output=True,
        text=True,
    )
    cycles = re.search(r'Total Cycles:\s+(\d+)', done.stdout)
    if done.returncode or not cycles:
        raise ValueError(f'{MCA} does not read the loop: {done.stderr.strip()[:300]}')
    return products(loop) * passes / int(cycles[1])
