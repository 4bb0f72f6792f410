from pathlib import Path

import pytest

from rebnn_mm.utils import config_dir

ROOT = Path(__file__).parents[2]


def test_clone_uses_the_configs_beside_the_package():
    assert config_dir.get_config_dir() == ROOT / 'configs'


def test_configs_inside_the_package_come_first(tmp_path, monkeypatch):
    inside, beside = tmp_path / 'rebnn_mm' / 'configs', tmp_path / 'configs'
    for folder in (inside, beside):
        (folder / '_base_').mkdir(parents=True)
    monkeypatch.setattr(config_dir, '__file__', str(tmp_path / 'rebnn_mm' / 'utils' / 'config_dir.py'))
    assert config_dir.get_config_dir() == inside


def test_no_configs_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(config_dir, '__file__', str(tmp_path / 'rebnn_mm' / 'utils' / 'config_dir.py'))
    with pytest.raises(FileNotFoundError, match='no configs in .*rebnn_mm or beside it. Reinstall'):
        config_dir.get_config_dir()
