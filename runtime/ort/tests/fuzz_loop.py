"""What the programs have in common that give the ONNX Runtime operators random cases."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime


def session_options(seed: int) -> onnxruntime.SessionOptions:
    """Every tensor is a block of its own, beyond whose ends a sanitizer sees; every 16th case has two threads."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2 if seed % 16 == 0 else 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    return options


def change_shape(rng: np.random.Generator, shape: list[int]) -> None:
    """Change a shape, often into one that does not fit."""
    kind = rng.random()
    if kind < 0.2 or not shape:
        shape.insert(int(rng.integers(len(shape) + 1)), int(rng.integers(0, 3)))
    elif kind < 0.4:
        del shape[int(rng.integers(len(shape)))]
    elif kind < 0.5:
        shape[:] = [1] * int(rng.integers(0, 12))
    elif kind < 0.6:
        rng.shuffle(shape)
    else:
        i = int(rng.integers(len(shape)))
        shape[i] = max(0, int(rng.choice([0, 1, shape[i] - 1, shape[i] + 1, 2 * shape[i], shape[i] + 8])))


def main(description: str | None, run_case: Callable[[int], str]) -> None:
    """Run the cases that the command line asks for; ``run_case`` takes a number and says what became of its case."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=1000, help='number of cases; default: %(default)s')
    parser.add_argument('--seed', type=int, default=0, help='number of the first case; default: %(default)s')
    parser.add_argument('--trace', type=Path, help='file that always holds the number of the case under way')
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    outcomes: Counter[str] = Counter()
    start = time.monotonic()
    for done in range(args.count):
        if args.trace:
            args.trace.write_text(str(args.seed + done))
        outcomes[run_case(args.seed + done)] += 1
        if (done + 1) % 1000 == 0:
            left = (time.monotonic() - start) / (done + 1) * (args.count - done - 1)
            print(f'{done + 1} of {args.count} cases, {left:.0f} s left', file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    print(
        f'{args.count} cases from {args.seed} on in {seconds:.0f} s, process {os.getpid()}: no crash, no wrong answer'
    )
    for outcome, number in outcomes.most_common():
        print(f'{number:8} {outcome}')
