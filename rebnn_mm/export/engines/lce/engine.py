"""Runs TensorFlow Lite files in larq compute engine, where it is installed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROGRAM = """
import importlib.util, sys
from pathlib import Path
from types import ModuleType
import numpy as np

folder = Path(importlib.util.find_spec('larq_compute_engine').submodule_search_locations[0])
for name, path in (('larq_compute_engine', folder), ('larq_compute_engine.tflite', folder / 'tflite')):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [str(path)]
from larq_compute_engine.tflite.python.interpreter import Interpreter

for case in Path(sys.argv[1]).iterdir():
    interpreter = Interpreter((case / 'model.tflite').read_bytes())
    np.save(case / 'y.npy', interpreter.predict(np.load(case / 'x.npy')))
"""
"""A process of its own, because the engine's wheel needs NumPy 1. Its package imports TensorFlow, which the
interpreter does without, so the interpreter is imported past the package."""


def engine_folder() -> Path:
    """Folder in which ``make setup`` installs the engine, with the NumPy that it needs."""
    return Path(sys.prefix, 'lce')


def has_engine() -> bool:
    """Check whether files can be run here."""
    return (engine_folder() / 'larq_compute_engine').is_dir()


def run_engine(cases: Sequence[tuple[bytes, NDArray[np.float32]]]) -> list[NDArray[Any]]:
    """Run files, each on images (N, C, H, W), one at a time; gives the outputs, images in the same order."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f'{index:06}') for index in range(len(cases))]
        for path, (model, x) in zip(paths, cases, strict=True):
            path.mkdir()
            (path / 'model.tflite').write_bytes(model)
            np.save(path / 'x.npy', x.transpose(0, 2, 3, 1))
        done = subprocess.run(
            [sys.executable, '-c', PROGRAM, folder],
            env={**os.environ, 'PYTHONPATH': str(engine_folder())},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f'larq compute engine refused the file: {done.stderr.strip().splitlines()[-1]}')
        results = [np.load(path / 'y.npy') for path in paths]
    return [y.transpose(0, 3, 1, 2) if y.ndim == 4 else y for y in results]
