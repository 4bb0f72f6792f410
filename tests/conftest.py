"""Imported before any test, as `custom_imports` is read before anything is built."""

import gc
import os
import sys

# Several workers share the processors; set before torch reads it.
if 'PYTEST_XDIST_WORKER' in os.environ:
    os.environ.setdefault('OMP_NUM_THREADS', '1')

from collections import OrderedDict
from types import SimpleNamespace

import pytest
from mmengine.registry import DefaultScope

import rebnn_mm  # noqa: F401
from tests.once import fill_onnx_registry_once, read_index_once, trace_once

read_index_once()


def pytest_collection_finish() -> None:
    gc.set_threshold(50_000, 10, 10)  # an export makes and drops millions of objects
    if 'rebnn_mm.export.trace' in sys.modules:
        fill_onnx_registry_once()
        trace_once()


@pytest.fixture(autouse=True, scope='module')
def _libraries_are_no_garbage():
    """Python would look through a million objects of libraries again and again, a fifth of the time of an export."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope='session')
def _no_pause_between_passes():
    """A loop of iterations waits two seconds before each further pass over the data, for the sake of its workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('mmengine.runner.loops.time', SimpleNamespace(sleep=lambda seconds: None))
        yield


@pytest.fixture(autouse=True, scope='module')
def _no_default_scope():
    """A Runner leaves its scope behind, in which the next file of the worker would look for its classes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultScope, '_instance_dict', OrderedDict())
        yield


@pytest.fixture(autouse=True)
def _same_default_scope(monkeypatch, _no_default_scope):
    monkeypatch.setattr(DefaultScope, '_instance_dict', OrderedDict(DefaultScope._instance_dict))
