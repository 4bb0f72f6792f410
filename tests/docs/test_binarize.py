"""The page on making any model binary, its code run as it stands."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

PAGE = (Path(__file__).parents[2] / 'docs' / 'binarize.md').read_text()
CONFIG, PYTHON = re.findall(r'```python\n(.*?)```', PAGE, flags=re.DOTALL)


def test_config_builds_the_real_class(tmp_path):
    pytest.importorskip('mmdet')
    (tmp_path / 'config.py').write_text(CONFIG)
    cfg = Config.fromfile(tmp_path / 'config.py')
    cfg.merge_from_dict({'model.backbone.widen_factor': 0.25, 'model.neck.in_channels': [64, 128, 256]})
    cfg.model.update(image_size=(64, 64))
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(cfg.model)
    assert type(model).__name__ == 'RTMDet' and model.backbone.stem[2].conv.binary
    assert [hook.type for hook in cfg.custom_hooks] == ['EMAHook', 'PipelineSwitchHook', 'ReBNNHook']


@pytest.mark.slow
def test_python_ends_in_a_packed_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON, 'docs/binarize.md', 'exec'), {})
    assert '64x64x3x3    real: named in keep_real (layer1)' in capsys.readouterr().out
    assert (tmp_path / 'model.onnx').stat().st_size < 4e6
