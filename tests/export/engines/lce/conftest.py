"""Larq compute engine as a function."""

import pytest

from rebnn_mm.export.engines.lce.engine import engine_folder, has_engine, run_engine


@pytest.fixture
def run_lce():
    """Run files, each on images in NCHW order, in one process."""
    if not has_engine():
        pytest.skip(f'larq compute engine is not in {engine_folder()}; make setup puts it there on x86-64')
    return run_engine
