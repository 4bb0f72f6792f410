"""Counts instructions under qemu-user, asks llvm-mca about the loops that count bits, and holds both against limits.

python lab/tools/board/gates.py BUILD_FOLDER [--skip-models]

lab/tools/board/check_aarch64.sh makes what the folder has to hold and calls this. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from hot_loop import disassemble, products, products_per_cycle
from instruction_counts import CLASSES, Block, by_function, by_library, hottest, read_counts, read_maps, sum_of

MOST_INSTRUCTIONS = 110e6
"""Of the packed ResNet-18, exported with ``--fast``, for one image of 224x224."""

LEAST_PRODUCTS = {('neon_a55', 'cortex-a53'): 28.0, ('neon_a55', 'cortex-a55'): 36.0, ('neon', 'neoverse-n1'): 80.0}
"""Per cycle in the loop of these kernels on that core. Three operations for 128 products allow 42.7 and 85.3."""

PLAIN_CORE, HALF_CORE = 'cortex-a72', 'cortex-a76'
"""The processor that qemu plays, without and with arithmetic of half precision."""

CORES = ('cortex-a53', 'cortex-a55', 'cortex-a72', 'neoverse-n1')

# In channels, out channels, height and width of the input, stride, and how many ResNet-18 has of them.
LAYERS = (
    (64, 64, 56, 1, 4),
    (64, 128, 56, 2, 1),
    (128, 128, 28, 1, 3),
    (128, 256, 28, 2, 1),
    (256, 256, 14, 1, 3),
    (256, 512, 14, 2, 1),
    (512, 512, 7, 1, 3),
)


class Gate(NamedTuple):
    """A limit and what was measured."""

    what: str
    measured: float
    limit: float
    holds: bool


def run_counted(folder: Path, isa: str, program: str, *arguments: str, core: str = PLAIN_CORE) -> list[Block]:
    """Run a program of the folder under the plug-in; its argument ``MAPS`` becomes the file with its memory.

    Raises:
        ValueError: it fails; the message holds what it printed.
    """
    counts, maps = folder / 'counts.txt', folder / 'maps.txt'
    done = subprocess.run(
        [
            *('qemu-aarch64', '-cpu', core, '-E', f'REBNN_ISA={isa}', '-L', '/usr/aarch64-linux-gnu'),
            *('-plugin', f'{folder}/count_instructions.so,out={counts}', str(folder / program)),
            *(str(maps) if argument == 'MAPS' else argument for argument in arguments),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ValueError(f'{program} failed under qemu-aarch64: {(done.stderr or done.stdout).strip()[-500:]}')
    with counts.open() as lines, maps.open() as regions:
        return read_counts(lines, read_maps(regions))


def count_model(folder: Path, isa: str, model: str, core: str = PLAIN_CORE) -> dict[str, dict[str, int]]:
    """Instructions of one inference by library."""
    operators = str(folder / 'runtime' / 'ort' / 'librebnn_ort.so') if 'packed' in model else '-'
    runtime = next((folder / 'onnxruntime').glob('libonnxruntime.so.*'))
    return by_library(
        run_counted(
            folder,
            isa,
            'count_model',
            *(str(runtime), operators, str(folder / 'models' / model), '1', '3', '224', '224'),
            *(str(folder / f'{model}.{isa}.f32'), 'MAPS'),
            core=core,
        )
    )


def count_layer(folder: Path, isa: str, layer: tuple[int, ...], layout: str) -> list[Block]:
    """Blocks of one binary convolution with everything that follows it."""
    return run_counted(folder, isa, 'count_conv', *(str(number) for number in layer[:4]), layout, 'MAPS')


def detector_table(folder: Path) -> None:
    """Print instructions of the zoo's smallest detector by librebnn alone, and the functions with most of them."""
    print('\nmillion instructions of blood-cells-nano without ONNX Runtime, one image of 256x320')
    model, library = Path('rebnn_mm/zoo/blood-cells-nano.onnx'), folder / 'runtime' / 'librebnn.so'
    command = ['aarch64-linux-gnu-nm', '--numeric-sort', '--demangle', '--defined-only', str(library)]
    functions = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for core in (PLAIN_CORE, HALF_CORE):
        blocks = run_counted(folder, 'neon', 'count_reader', str(model), '256', '320', 'MAPS', core=core)
        print(f'{core:>13}{sum_of(by_library(blocks))["all"] / 1e6:9.2f}')
        name = next(block.library for block in blocks if block.library.startswith('librebnn.so'))
        for function, count in list(by_function(blocks, name, functions).items())[:8]:
            print(
                f'{count / 1e6:22.2f}  {function.replace("rebnn::", "").replace("(anonymous namespace)::", "")[:90]}'
            )


def layer_table(folder: Path) -> None:
    """Print instructions by layer, and what one layout from the first to the last operator would save."""
    print('\nbinary convolutions of ResNet-18 with all that follows them, million instructions, and by 1000 products')
    print(f'{"":24}{"neon":>16}{"neon_a55":>16}{"neon, NHWC":>16}')
    sums = [0.0, 0.0, 0.0]
    for layer in LAYERS:
        into, out, size, stride, count = layer
        macs = 9 * into * out * (size // stride) ** 2
        row = f'{count} x {into:3} -> {out:3}, {size:2} /{stride}'
        cells = ''
        for column, (isa, layout) in enumerate((('neon', 'NCHW'), ('neon_a55', 'NCHW'), ('neon', 'NHWC'))):
            total = sum_of(by_library(count_layer(folder, isa, layer, layout)))['all']
            sums[column] += count * total
            cells += f'{total / 1e6:9.2f} {1000 * total / macs:6.1f}'
        print(f'{row:24}{cells}')
    print(f'{"all 16":24}' + ''.join(f'{total / 1e6:9.2f}       ' for total in sums))


def loop_gates(folder: Path) -> list[Gate]:
    """The loops' speed by llvm-mca, printed, and the limits on it."""
    print('\nproducts per cycle of the hottest loop, by llvm-mca')
    print(f'{"":12}{"instructions":>14}{"products":>10}' + ''.join(f'{core:>14}' for core in CORES))
    gates = []
    for isa in ('neon', 'neon_a55'):
        loop = disassemble(
            folder / 'runtime' / 'librebnn.so', hottest(count_layer(folder, isa, LAYERS[2], 'NCHW'), 'librebnn.so')
        )
        speeds = {core: products_per_cycle(loop, core) for core in CORES}
        print(f'{isa:12}{len(loop):14}{products(loop):10}' + ''.join(f'{speeds[core]:14.1f}' for core in CORES))
        for (of, core), least in LEAST_PRODUCTS.items():
            if of == isa:
                gates.append(Gate(f'products per cycle, {isa} on {core}', speeds[core], least, speeds[core] >= least))
    return gates


def model_gates(folder: Path) -> list[Gate]:
    """Instructions of whole networks, printed, and the limit on them."""
    print('\nmillion instructions for one image of 224x224, one thread')
    print(f'{"":40}' + ''.join(f'{kind:>13}' for kind in CLASSES))
    gates = []
    packed, fast = 'resnet18_packed.onnx', 'resnet18_packed_fast.onnx'
    half, int8 = 'resnet18_packed_half_stem.onnx', 'resnet18_packed_int8.onnx'
    for model, isa, core in (
        ('resnet18_real.onnx', 'neon', PLAIN_CORE),
        *((packed, 'neon', PLAIN_CORE), (fast, 'neon', PLAIN_CORE), (fast, 'neon_a55', PLAIN_CORE)),
        (half, 'neon', HALF_CORE),
        *((int8, 'neon', PLAIN_CORE), (int8, 'neon', HALF_CORE)),
    ):
        totals = count_model(folder, isa, model, core)
        total = sum_of(totals)
        title = Path(model).stem if model == 'resnet18_real.onnx' else f'{Path(model).stem}, {isa}'
        rows = {title: total} | {f'  {name}': counts for name, counts in totals.items() if counts['all'] > 2e5}
        for name, counts in rows.items():
            print(f'{name:40}' + ''.join(f'{counts[kind] / 1e6:13.2f}' for kind in CLASSES))
        if model == fast:
            million, most = total['all'] / 1e6, MOST_INSTRUCTIONS / 1e6
            gates.append(
                Gate(f'million instructions, packed ResNet-18 with --fast, {isa}', million, most, million <= most)
            )
    return gates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path, help='what lab/tools/board/check_aarch64.sh built')
    parser.add_argument('--skip-models', action='store_true', help='only the layers, without ONNX Runtime')
    args = parser.parse_args()
    try:
        gates = loop_gates(args.folder)
        if not args.skip_models:
            layer_table(args.folder)
            detector_table(args.folder)
            gates += model_gates(args.folder)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f'gates: {error}', file=sys.stderr)
        return 1
    print('\nlimits')
    for gate in gates:
        print(f'  {"holds" if gate.holds else "FAILS"}  {gate.what}: {gate.measured:.1f}, limit {gate.limit:g}')
    return 0 if all(gate.holds for gate in gates) else 1


if __name__ == '__main__':
    sys.exit(main())
