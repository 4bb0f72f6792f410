from pathlib import Path

import pytest
from mmengine.registry import MODELS
from torch import nn

import rebnn_mm.methods
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.methods import METHODS
from rebnn_mm.registry import registered_classes

LAYERS = {**registered_classes(BinaryConv2d), **registered_classes(BinaryLinear)}
FILES = {path.stem for path in Path(rebnn_mm.methods.__file__).parent.glob('*.py')} - {'__init__'}


def test_every_file_is_listed():
    assert set(METHODS) == FILES


@pytest.mark.parametrize('method', METHODS)
def test_a_line_says_what_it_is_and_its_names_are_registered_and_importable(method):
    summary, names = METHODS[method]
    assert ': ' in summary and summary.endswith('.')
    assert names and all(getattr(rebnn_mm.methods, name) is MODELS.get(name) for name in names)


@pytest.mark.parametrize('name', [name for name, cls in LAYERS.items() if cls.__module__.startswith('rebnn_mm.')])
def test_every_layer_names_its_torch_layer_as_a_direct_base(name):
    """Otherwise ``init_cfg=dict(layer='Conv2d')`` would leave it out."""
    assert (nn.Conv2d if name.endswith('Conv2d') else nn.Linear) in LAYERS[name].__bases__
