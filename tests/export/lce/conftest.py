"""Larq compute engine as a function."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(sys.prefix, 'lce')

Runs = Callable[[Sequence[tuple[bytes, np.ndarray]]], list[np.ndarray]]


@pytest.fixture
def run_lce(tmp_path) -> Runs:
    """Run files, each on images in NCHW order, in one process."""
    if not (FOLDER / 'larq_compute_engine').is_dir():
        pytest.skip(
            f'larq compute engine is not in {FOLDER}; make setup puts it there on x86-64 with Python 3.10 to 3.12'
        )

    def run(cases: Sequence[tuple[bytes, np.ndarray]]) -> list[np.ndarray]:
        arguments = []
        for index, (model, x) in enumerate(cases):
            names = [tmp_path / f'{index}{ending}' for ending in ('.tflite', '.npy', '_y.npy')]
            names[0].write_bytes(model)
            np.save(names[1], x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)
            arguments += names
        command = [sys.executable, str(Path(__file__).with_name('run_lce.py')), *map(str, arguments)]
        done = subprocess.run(command, env={**os.environ, 'PYTHONPATH': str(FOLDER)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        results = [np.load(path) for path in arguments[2::3]]
        return [y.transpose(0, 3, 1, 2) if y.ndim == 4 else y for y in results]

    return run
