"""Time packed files by librebnn alone next to the same files in ONNX Runtime with our operators.

    python -m lab.tools.benchmark_librebnn zoo:blood-cells-nano zoo:cifar10-resnet20=32x32 --blocks 200
    python -m lab.tools.benchmark_librebnn zoo:cifar10-resnet20=32x32 --real resnet20.onnx resnet20_int8.onnx

A file's images are noise of 256x320 or of HEIGHTxWIDTH after it. Blocks of runs take turns on one thread, whose own
time is taken; image and results stay in one place. Full-precision files of the same input take turns, too.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rebnn_mm.benchmark.timing import noise_feeds, open_timed, ratio_of
from rebnn_mm.deploy.zoo import in_zoo, zoo_path
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.native_library import load_kernels

LINE = 64
"""Bytes of a line of the cache, to which scratch memory is aligned."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='+', metavar='FILE[=HEIGHTxWIDTH]', help='packed files, or zoo:NAME')
    parser.add_argument('--real', nargs='+', default=[], metavar='FILE', help='full-precision files to time as well')
    parser.add_argument('--blocks', type=int, default=100, help='blocks of each; default 100')
    parser.add_argument('--runs', type=int, default=3, help='runs of a block; default 3')
    return parser.parse_args()


def open_alone(path: Path, size: tuple[int, int], image: np.ndarray) -> Callable[[], None]:
    """Load a file into librebnn; what runs it on the image."""
    library = load_kernels()
    if library is None:
        raise RebnnError('librebnn is not built.', fix='Run make setup.')

    def check(status: int) -> None:
        if status:
            raise RebnnError(f'{path}: {library.rebnn_last_error().decode()}')

    data, model = path.read_bytes(), ctypes.c_void_p()
    sides = [ctypes.c_int64(side) for side in size]
    check(library.rebnn_model_load(data, ctypes.c_size_t(len(data)), *sides, ctypes.byref(model)))
    channels, classes, most, count = (ctypes.c_int64() for _ in range(4))
    scratch_size = ctypes.c_size_t()
    check(library.rebnn_model_sizes(model, *map(ctypes.byref, (channels, classes, scratch_size))))
    check(library.rebnn_model_most_detections(model, ctypes.byref(most)))
    memory = np.empty(scratch_size.value + LINE, np.uint8)
    scratch = ctypes.c_void_p(memory[-memory.ctypes.data % LINE :].ctypes.data)
    if most.value:
        shapes = ((most.value, 4), np.float32), (most.value, np.float32), (most.value, np.int64)
        arrays = [image, np.array(size, np.int64), *(np.empty(*shape) for shape in shapes)]
        after = [ctypes.byref(count)]
        function = library.rebnn_model_detect
    else:
        arrays, after, function = [image, np.empty(classes.value, np.float32)], [], library.rebnn_model_run
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]

    def run(kept: tuple[np.ndarray, ...] = (memory, *arrays)) -> None:  # what the pointers point at
        check(function(model, *pointers, *after, scratch, scratch_size))

    return run


def open_bound(path: Path, packed: bool, size: tuple[int, int]) -> Callable[[], None]:
    """Open a file in ONNX Runtime; what runs it on noise, without copying images or results."""
    session = open_timed(path, packed=packed, threads=1)
    binding, feeds = session.io_binding(), noise_feeds(session, size)
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def run(kept: dict[str, np.ndarray] = feeds) -> None:  # the binding borrows their memory
        session.run_with_iobinding(binding)

    return run


def time_in_turns(runs: list[Callable[[], None]], blocks: int, length: int) -> list[list[float]]:
    """Milliseconds of processor time of each run."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(blocks):
        for own, run in zip(times, runs, strict=True):
            for _ in range(length):
                start = time.thread_time()
                run()
                own.append(1e3 * (time.thread_time() - start))
    return times


def compare(word: str, real: list[Path], blocks: int, length: int) -> None:
    """Time one file and its rivals, and print a line for each."""
    name, _, side = word.partition('=')
    height, width = (int(number) for number in (side or '256x320').split('x'))
    size, path = (height, width), zoo_path(name) if in_zoo(name) else Path(name)
    session = open_timed(path, packed=True, threads=1)
    image = next(array for array in noise_feeds(session, size).values() if array.ndim == 4)
    labels = ['librebnn', 'ONNX Runtime', *(one.name for one in real)]
    runs = [
        open_alone(path, size, image),
        open_bound(path, True, size),
        *(open_bound(one, False, size) for one in real),
    ]
    times = time_in_turns(runs, blocks, length)
    print(f'{name}, {height}x{width}')
    for label, own in zip(labels, times, strict=True):
        ratio = ratio_of(own, times[0], length)
        took = f'{statistics.median(own):.3g} ms (shortest {min(own):.3g})'
        print(f'  {label}: {took}, {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of librebnn')


@report_errors
def main() -> None:
    args = parse_args()
    for word in args.files:
        compare(word, [Path(one) for one in args.real], args.blocks, args.runs)


if __name__ == '__main__':
    main()
