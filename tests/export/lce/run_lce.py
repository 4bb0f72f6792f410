"""Runs files in larq compute engine: python run_lce.py a.tflite x.npy y.npy [b.tflite ...].

A program of its own, because the engine's wheel needs NumPy 1. Its package imports TensorFlow, which its interpreter
does without, so the interpreter is imported past the package.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

folder = Path(importlib.util.find_spec('larq_compute_engine').submodule_search_locations[0])
for name, path in (('larq_compute_engine', folder), ('larq_compute_engine.tflite', folder / 'tflite')):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [str(path)]

from larq_compute_engine.tflite.python.interpreter import Interpreter  # noqa: E402

for model, x, y in zip(*[iter(sys.argv[1:])] * 3, strict=True):
    np.save(y, Interpreter(Path(model).read_bytes()).predict(np.load(x)))
