"""Small packed files, written once."""

from pathlib import Path

import numpy as np
import pytest

from rebnn_mm.deploy.native import LibraryError, library_path

from . import models

PHOTO = Path(__file__).parents[2] / 'demo/coco_sample/val2017/000000005001.jpg'


@pytest.fixture(scope='session')
def files(tmp_path_factory) -> dict[str, Path]:
    """The paths of a classifier, a detector and a raw model."""
    folder = tmp_path_factory.mktemp('packed')
    makers = {'classifier': models.classifier, 'detector': models.detector, 'raw': models.raw}
    return {name: models.write(make(), folder / f'{name}.onnx') for name, make in makers.items()}


@pytest.fixture(scope='session')
def photo() -> Path:
    return PHOTO


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)


@pytest.fixture
def library() -> Path:
    """The path of the kernels; tests that need them are skipped where they are not built."""
    try:
        return library_path()
    except LibraryError as error:
        pytest.skip(str(error))
