from pathlib import Path

import pytest

from rebnn_mm.utils import config_file
from rebnn_mm.utils.config_file import missing_config


def test_existing_config_is_silent(tmp_path):
    path = tmp_path / 'a.py'
    path.touch()
    assert missing_config(path) is None


def test_close_matches_come_from_the_folder_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine/faster_rcnn_r18_coco.py').touch()
    (tmp_path / 'mine/yolo.py').touch()
    message = missing_config('mine/faster_rcn_r18_coco.py')
    assert message == 'no config file at mine/faster_rcn_r18_coco.py. Did you mean mine/faster_rcnn_r18_coco.py?'


def test_what_lies_here_comes_before_the_packages_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mini.py').touch()
    (tmp_path / 'deep').mkdir()
    (tmp_path / 'deep' / 'minny.py').touch()  # a whole home folder may lie below
    assert missing_config('minni.py') == 'no config file at minni.py. Did you mean mini.py?'
    ours = 'rebnn_mm::bccd/faster_rcnn_r18_rebnn_bccd.py'
    assert f'Did you mean {ours}' in missing_config('faster_rcnn_r18_rebn_bccd.py')
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'minna.py').touch()
    assert missing_config('minni.py') == 'no config file at minni.py. Did you mean mini.py?'


def test_a_wrong_folder_or_no_folder_falls_back_to_configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'configs/deep').mkdir(parents=True)
    (tmp_path / 'configs/deep/faster_rcnn_r18_coco.py').touch()
    for wrong in ('config/faster_rcnn_r18_coco.py', 'faster_rcnn_r18_coco', 'configs/faster_rcnn_r18_coco.py'):
        assert 'Did you mean configs/deep/faster_rcnn_r18_coco.py?' in missing_config(wrong)


def test_nothing_close_says_only_that_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert missing_config('zzz.py') == 'no config file at zzz.py.'


def test_a_base_that_variables_choose_is_named_with_what_there_is(tmp_path, monkeypatch):
    (tmp_path / 'small').mkdir()
    (tmp_path / 'small' / 'rte.py').touch()
    (tmp_path / 'row.py').write_text("_base_ = './{{$ENCODER:small}}/{{$TASK:rte}}.py'\n")
    for name in ('ENCODER', 'TASK'):
        monkeypatch.delenv(name, raising=False)
    assert missing_config(tmp_path / 'row.py') is None
    monkeypatch.setenv('TASK', 'rtf')
    message = f'{tmp_path}/row.py has no base for ENCODER=small TASK=rtf: {tmp_path}/small holds rte.'
    assert missing_config(tmp_path / 'row.py') == message
    monkeypatch.setenv('ENCODER', 'large')
    assert missing_config(tmp_path / 'row.py').endswith('large holds nothing.')
    (tmp_path / 'other.py').write_text("_base_ = ['./row.py', 'mmdet::ssd/ssd300.py']\nsource = 'other.py'\n")
    assert missing_config(tmp_path / 'other.py') == missing_config(tmp_path / 'row.py')


def test_clone_uses_the_configs_beside_the_package():
    assert config_file.get_config_dir() == Path(__file__).parents[2] / 'configs'


def test_configs_inside_the_package_come_first(tmp_path, monkeypatch):
    inside, beside = tmp_path / 'rebnn_mm' / '.mim' / 'configs', tmp_path / 'configs'
    for folder in (inside, beside):
        (folder / '_base_').mkdir(parents=True)
    monkeypatch.setattr(config_file, '__file__', str(tmp_path / 'rebnn_mm' / 'utils' / 'config_file.py'))
    assert config_file.get_config_dir() == inside


def test_no_configs_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(config_file, '__file__', str(tmp_path / 'rebnn_mm' / 'utils' / 'config_file.py'))
    with pytest.raises(FileNotFoundError, match='no configs in .*rebnn_mm or beside it. Reinstall'):
        config_file.get_config_dir()
