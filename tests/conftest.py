"""Imported before any test, as `custom_imports` is read before anything is built."""

import functools
import os

# Several workers share the processors; set before torch reads it.
if 'PYTEST_XDIST_WORKER' in os.environ:
    os.environ.setdefault('OMP_NUM_THREADS', '1')

from mmengine.config import utils

import rebnn_mm  # noqa: F401

# To find a config of mmdet, mmengine reads the hundred files of its index, which takes longer than the config itself.
utils.load = functools.cache(utils.load)
