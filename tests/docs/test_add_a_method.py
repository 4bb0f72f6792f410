"""The page that says how to add a method, followed to the letter."""

import re
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS

from rebnn_mm.layers import BinaryConv2d
from tests.engine.small_runner import SmallClassifier, log_text, trained

PAGE = Path(__file__).parents[2] / 'docs' / 'add_a_method.md'
NAMES = ('MedianWeight', 'NarrowingSign', 'MedianConv2d')


@pytest.fixture
def method(tmp_path, monkeypatch):
    """The page's file on the path, and its names out of the registry afterwards."""
    source, config = re.findall(r'```python\n(.*?)```', PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / 'median_method.py').write_text(source)
    (tmp_path / 'config.py').write_text(config)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / 'config.py'
    sys.modules.pop('median_method', None)
    for name in NAMES:
        MODELS.module_dict.pop(name, None)


def test_config_selects_it_in_a_stock_network(method):
    pytest.importorskip('mmpretrain')
    from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
    from mmpretrain.utils import register_all_modules

    register_all_modules(init_default_scope=False)
    cfg = Config.fromfile(method)
    model = MMPRETRAIN_MODELS.build(cfg.model)
    layers = [m for m in model.modules() if isinstance(m, BinaryConv2d) and m.binary]
    assert len(layers) == 16 and {type(layer).__name__ for layer in layers} == {'MedianConv2d'}
    assert all(layer.activation_quantizer.needs_calibration for layer in layers)


def test_schedule_constraint_and_resume_work(method, tmp_path):
    Config.fromfile(method)

    def model():
        torch.manual_seed(0)
        small = SmallClassifier(MODELS.get('MedianConv2d'))
        small.conv1.weight.data.mul_(50)
        return small

    optim = {'optimizer': {'type': 'SGD', 'lr': 0.05, 'momentum': 0.9}}
    whole = trained(tmp_path / 'whole', model(), epochs=4, hook='BinaryHook', optim_wrapper=optim)
    trained(tmp_path / 'parts', model(), epochs=4, hook='BinaryHook', optim_wrapper=optim, stop_after=2)
    resumed = trained(tmp_path / 'parts', model(), epochs=4, hook='BinaryHook', optim_wrapper=optim, resume=True)
    assert 'resumed epoch: 2' in log_text(tmp_path / 'parts')
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name
    conv = whole.model.conv1
    assert conv.weight.abs().max() == 2
    assert conv.activation_quantizer.width == 1.25
    images = torch.randn(2, 8, 8, 8)
    codes, factor = conv.weight_quantizer.codes(conv.weight)
    assert set(codes.unique().tolist()) == {-1.0, 1.0}
    expected = torch.nn.functional.conv2d(conv.activation_quantizer(images), codes, padding=1) * factor.view(-1, 1, 1)
    torch.testing.assert_close(conv.eval()(images), expected)
