"""Counting AArch64 instructions: the plug-in on a program whose instructions are known, and the loops' limits."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[4] / 'lab' / 'tools' / 'board'
sys.path.insert(0, str(TOOLS))

from gates import LEAST_PRODUCTS  # noqa: E402
from hot_loop import disassemble, loop_around, products, products_per_cycle  # noqa: E402
from instruction_counts import Region, by_library, hottest, read_counts, read_maps, sum_of  # noqa: E402

# Between the marks: one instruction of set-up, and ten passes of nine.
PROGRAM = """
    .text
    .global _start
_start:
    adr x1, _start
    cnt v0.16b, v1.16b
    hint #96
    b begin
begin:
    mov x2, #10
again:
    ldr q1, [x1]
    ldr x3, [x1]
    eor v2.16b, v1.16b, v0.16b
    cnt v2.16b, v2.16b
    fmla v3.4s, v1.4s, v0.s[1]
    fmla v3.4s, v1.4s, v0.4s
    fmul v4.4s, v1.4s, v0.4s
    subs x2, x2, #1
    b.ne again
    hint #97
    b end
end:
    mov x0, #0
    mov x8, #93
    svc #0
"""


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f'there is no {tool} here')
    if '-plugin' not in subprocess.run(['qemu-aarch64', '-help'], capture_output=True, text=True).stdout:
        pytest.skip('this qemu-aarch64 has no plug-ins')


@pytest.fixture(scope='module')
def counted(tmp_path_factory) -> tuple[Path, list[str]]:
    """The program, linked at a fixed address, and what the plug-in wrote."""
    needs('cc', 'aarch64-linux-gnu-gcc', 'qemu-aarch64')
    folder = tmp_path_factory.mktemp('count')
    (folder / 'program.s').write_text(PROGRAM)
    plugin = folder / 'count.so'
    for command in (
        ['aarch64-linux-gnu-gcc', '-nostdlib', '-static', folder / 'program.s', '-o', folder / 'program'],
        ['cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', TOOLS / 'count_instructions.c', '-o', plugin],
        ['qemu-aarch64', '-plugin', f'{plugin},out={folder / "counts"}', folder / 'program'],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder / 'program', (folder / 'counts').read_text().splitlines()


def test_the_plug_in_counts_every_instruction_in_its_class(counted):
    totals = sum_of(by_library(read_counts(counted[1], [])))
    # The end mark is a block of two instructions.
    assert totals == {
        'all': 1 + 10 * 9 + 2,
        'SIMD': 50,
        'CNT': 10,
        'FMLA': 20,
        'SIMD memory': 10,
        'memory': 10,
        'branches': 10 + 2,
    }


def test_a_program_without_marks_is_an_error(counted, tmp_path):
    program, _ = counted
    done = subprocess.run(
        ['qemu-aarch64', '-plugin', f'{program.parent / "count.so"}', program], capture_output=True, text=True
    )
    assert 'give a file that can be written' in done.stderr
    with pytest.raises(ValueError, match='did not reach both of its marks'):
        read_counts([], [])


def test_the_hottest_block_is_the_loop(counted):
    needs('aarch64-linux-gnu-objdump')
    program, lines = counted
    block = hottest(read_counts(lines, []), 'elsewhere')
    loop = disassemble(program, block)
    assert len(loop) == 9 and loop[0] == 'ldr q1, [x1]' and loop[-1] == 'b.ne .'
    assert products(loop) == 128


def test_regions_give_offsets_in_files():
    maps = ['1000-2000 r-xp 00000400 08:01 7 /a/lib one.so', '2000-3000 rw-p 00000000 00:00 0']
    assert read_maps(maps) == [Region(0x1000, 0x2000, 0x400, 'lib one.so')]
    blocks = read_counts(['1010 2 3 0 0 0 0 0 0', '2800 5 1 0 0 0 0 0 0'], read_maps(maps))
    assert [(block.library, block.offset) for block in blocks] == [('lib one.so', 0x410), ('elsewhere', 0x2800)]
    assert hottest(blocks, 'lib one.so').executions == 2


@pytest.mark.parametrize('line', ['', '10 1 2', '10 1 2 3 4 5 6 7 8 9'])
def test_a_damaged_count_is_refused(line):
    with pytest.raises(ValueError, match='run the program under the plug-in again'):
        read_counts([line], [])


def test_a_block_outside_of_loops_is_refused():
    with pytest.raises(ValueError, match='no loop around the address 0x44'):
        loop_around(' 40:\tcnt\tv1.16b, v2.16b\n 44:\tret\n', 0x44)


@pytest.fixture(scope='module')
def quick() -> tuple[Path, str]:
    """The kernels compiled for AArch64, and what the quick check printed."""
    needs('cmake', 'cc', 'aarch64-linux-gnu-g++', 'aarch64-linux-gnu-objdump', 'qemu-aarch64', 'llvm-mca-19')
    # Kept between runs, so that only what has changed is compiled again; git ignores it.
    folder = TOOLS.parents[2] / 'build' / 'board-tests'
    done = subprocess.run(['bash', TOOLS / 'check_aarch64.sh', '--quick', folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_the_kernels_loops_hold_their_limits(quick):
    for isa, core in LEAST_PRODUCTS:
        assert f'holds  products per cycle, {isa} on {core}' in quick[1]


def test_a_slow_loop_is_seen():
    needs('llvm-mca-19')
    fast, slow = (
        products_per_cycle([*lines, 'b.ne .'], 'neoverse-n1')
        for lines in (
            ['cnt v0.16b, v1.16b', 'cnt v2.16b, v3.16b'],
            ['cnt v0.16b, v0.16b', 'cnt v0.16b, v0.16b'],
        )
    )
    assert fast > 3 * slow > 0
