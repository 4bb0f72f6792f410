from pathlib import Path

import pytest
from mmengine.config import Config

from rebnn_mm.utils import config_file
from rebnn_mm.utils.config_file import check_config_file, check_keys, read_config
from tests.refusal import refusal


def test_close_matches_come_from_the_folder_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine/faster_rcnn_r18_coco.py').touch()
    (tmp_path / 'mine/yolo.py').touch()
    message = refusal(check_config_file, 'mine/faster_rcn_r18_coco.py')
    assert message == 'no config file at mine/faster_rcn_r18_coco.py. Did you mean mine/faster_rcnn_r18_coco.py?'


def test_what_lies_here_comes_before_the_packages_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mini.py').touch()
    (tmp_path / 'deep').mkdir()
    (tmp_path / 'deep' / 'minny.py').touch()  # a whole home folder may lie below
    assert refusal(check_config_file, 'minni.py') == 'no config file at minni.py. Did you mean mini.py?'
    ours = 'rebnn_mm::bccd/faster_rcnn_r18_rebnn_bccd.py'
    assert f'Did you mean {ours}' in refusal(check_config_file, 'faster_rcnn_r18_rebn_bccd.py')
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'minna.py').touch()
    assert refusal(check_config_file, 'minni.py') == 'no config file at minni.py. Did you mean mini.py?'


def test_a_wrong_folder_or_no_folder_falls_back_to_configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'configs/deep').mkdir(parents=True)
    (tmp_path / 'configs/deep/faster_rcnn_r18_coco.py').touch()
    for wrong in ('config/faster_rcnn_r18_coco.py', 'faster_rcnn_r18_coco', 'configs/faster_rcnn_r18_coco.py'):
        assert 'Did you mean configs/deep/faster_rcnn_r18_coco.py?' in refusal(check_config_file, wrong)


def test_a_network_is_suggested_where_a_method_was_in_the_name():
    for name in ('resnet20_single_xnor_cifar10', 'resnet18_cifar10'):
        network = name.removesuffix('_cifar10').removesuffix('_xnor')
        said = refusal(check_config_file, f'rebnn_mm::cifar10/{name}.py')
        assert f' Did you mean rebnn_mm::cifar10/{network}.py' in said


def test_nothing_close_says_only_that_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(check_config_file, 'zzz.py') == 'no config file at zzz.py.'


def test_a_base_that_variables_choose_is_named_with_what_there_is(tmp_path, monkeypatch):
    (tmp_path / 'small').mkdir()
    (tmp_path / 'small' / 'rte.py').touch()
    (tmp_path / 'row.py').write_text("_base_ = './{{$ENCODER:small}}/{{$TASK:rte}}.py'\n")
    for name in ('ENCODER', 'TASK'):
        monkeypatch.delenv(name, raising=False)
    assert refusal(check_config_file, tmp_path / 'row.py') is None
    monkeypatch.setenv('TASK', 'rtf')
    message = f'{tmp_path}/row.py has no base for ENCODER=small TASK=rtf: {tmp_path}/small holds rte.'
    assert refusal(check_config_file, tmp_path / 'row.py') == message
    monkeypatch.setenv('ENCODER', 'large')
    assert refusal(check_config_file, tmp_path / 'row.py').endswith('large holds nothing.')
    (tmp_path / 'other.py').write_text("_base_ = ['./row.py', 'mmdet::ssd/ssd300.py']\nsource = 'other.py'\n")
    assert refusal(check_config_file, tmp_path / 'other.py') == refusal(check_config_file, tmp_path / 'row.py')


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
    with pytest.raises(FileNotFoundError, match='no configs in .*rebnn_mm or next to it. Reinstall'):
        config_file.get_config_dir()


@pytest.mark.parametrize(
    ('base', 'config', 'words'),
    [
        ('a = 1\n', "_base_ = './base.py'\n\nb = epochs\n", "'epochs' is not defined (line 3 of {}/my.py)."),
        ('a = epochs\n', "_base_ = './base.py'\n", "'epochs' is not defined (line 1 of {}/base.py)."),
        ('a = (\n', "_base_ = './base.py'\n", ' ({}/base.py).'),
        ('a = [1]\n', "_base_ = './base.py'\na = dict(b=2)\n", ' ({}/my.py).'),
    ],
)
def test_a_broken_config_is_one_sentence_with_its_place(tmp_path, base, config, words):
    (tmp_path / 'base.py').write_text(base)
    (tmp_path / 'my.py').write_text(config)
    said = refusal(read_config, tmp_path / 'my.py')
    assert said.startswith(f'{tmp_path}/my.py cannot be read: ') and said.endswith(words.format(tmp_path))


CONFIG = dict(
    model=dict(type='SSD', backbone=dict(type='VGG', init_cfg=None), neck=dict(scale=(1, 2))),
    optim_wrapper=dict(type='OptimWrapper', optimizer=dict(type='SGD')),
    pipeline=[dict(type='Load'), dict(type='Resize')],
    layers=dict(layer3=dict(lr_mult=1), conv1=dict(lr_mult=1)),
)


@pytest.mark.parametrize(
    'key',
    [
        'model.backbone.with_cp',
        'model.backbone.dcn.type',
        'optim_wrapper.clip_grad.max_norm',
        'optim_wrapper.paramwise_cfg.custom_keys.backbone.lr_mult',
        'layers.layer4.lr_mult',
        'layers.conv2.lr_mult',
        'pipeline.1.scale',
        'randomness.seed',
        'load_from',
        'auto_scale_lr.base_batch_size',
        'find_unused_parameters',
        'tta_model.type',
    ],
)
def test_new_entries_are_welcome_as_in_mmengine(key):
    cfg = Config(CONFIG)
    assert refusal(check_keys, cfg, {key: 1}) is None
    cfg.merge_from_dict({key: 1})


@pytest.mark.parametrize(
    ('key', 'problem'),
    [
        ('modle.x', "the config has no 'modle'. Did you mean 'model'?"),
        ('loadfrom', "the config has no 'loadfrom'. Did you mean 'load_from'?"),
        ('zzz', "the config has no 'zzz'. Nothing reads a new one of that name."),
        ('model.bakbone.depth', "model has no 'bakbone'. Did you mean 'backbone'?"),
        ('optim_wrapper.optmizer.lr', "optim_wrapper has no 'optmizer'. Did you mean 'optimizer'?"),
        ('pipeline.2.scale', "pipeline is a list of 2, counted from 0, without an entry '2'."),
        ('pipeline.scale', "pipeline is a list of 2, counted from 0, without an entry 'scale'."),
        ('model.type.x', "model.type is 'SSD' and has no entries. Add model.type._delete_=True to put a new dict in"),
        ('model.backbone.init_cfg.type', 'model.backbone.init_cfg is None and has no entries. Add model.backbone.ini'),
        ('model.neck.scale.0', 'model.neck.scale is (1, 2) and has no entries.'),
    ],
)
def test_keys_without_a_place_are_refused(key, problem):
    found = refusal(check_keys, Config(CONFIG), {'model.type': 'X', key: 1})
    assert found.startswith(f'--cfg-options {key}: {problem}') and '\n' not in found


@pytest.mark.parametrize('value', ['abc', '1e', 'yes'])
@pytest.mark.parametrize('key', ['optim_wrapper.optimizer.lr', 'train_cfg.max_epochs', 'param_scheduler.0.end'])
def test_a_word_in_the_place_of_a_number_is_refused(key, value):
    cfg = Config(
        dict(
            optim_wrapper=dict(optimizer=dict(lr=0.1), loss_scale=512),
            train_cfg=dict(max_epochs=4),
            param_scheduler=[dict(end=4)],
            model=dict(conv_cfg=dict(gamma=0.0)),
        )
    )
    found = refusal(check_keys, cfg, {key: value})
    assert found.startswith(f'--cfg-options {key}: it is ') and f'in the config, and {value!r} is a word. ' in found
    meant = {'model.conv_cfg.gamma': 'adaptive', 'optim_wrapper.loss_scale': 'dynamic', key: 2}
    assert refusal(check_keys, cfg, meant) is None


def test_the_way_out_it_names_works():
    cfg, options = Config(CONFIG), {'model.backbone.init_cfg.type': 'P', 'model.backbone.init_cfg._delete_': True}
    assert refusal(check_keys, cfg, options) is None
    cfg.merge_from_dict(options)
    assert cfg.model.backbone.init_cfg == dict(type='P')


@pytest.mark.parametrize('name', ['photo.jpg', 'mine.py'])
def test_what_is_no_text_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(range(256)))
    assert refusal(read_config, tmp_path / name).startswith(f'{tmp_path / name} cannot be read: ')
