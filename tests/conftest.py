"""Imported before any test, as `custom_imports` is read before anything is built."""

import os

# Several workers share the processors; set before torch reads it.
if 'PYTEST_XDIST_WORKER' in os.environ:
    os.environ.setdefault('OMP_NUM_THREADS', '1')

import rebnn_mm  # noqa: F401
from tests.scripts import read_index_once

read_index_once()
