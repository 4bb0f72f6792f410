from pathlib import Path

import pytest
from mmengine.registry import MODELS

import rebnn_mm.methods
from rebnn_mm.methods import METHODS

FILES = {path.stem for path in Path(rebnn_mm.methods.__file__).parent.glob('*.py')} - {'__init__'}


def test_every_file_is_listed():
    assert set(METHODS) == FILES


@pytest.mark.parametrize('method', METHODS)
def test_a_line_says_what_it_is_and_its_names_are_registered_and_importable(method):
    summary, names = METHODS[method]
    assert ': ' in summary and summary.endswith('.')
    assert names and all(getattr(rebnn_mm.methods, name) is MODELS.get(name) for name in names)
