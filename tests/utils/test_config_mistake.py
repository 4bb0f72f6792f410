import pickle
import re
from pathlib import Path

import mmengine
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import HOOKS, MODELS, build_from_cfg
from mmengine.runner import load_checkpoint

from rebnn_mm.utils.config_mistake import Mistake, explained, fitting_config, misspelt_key

build_conv_layer = pytest.importorskip('mmcv.cnn').build_conv_layer


class Layer:
    """Takes ``width``, and has a bug."""

    def __init__(self, width=1):
        self.paint(width=width)

    def paint(self, colour):
        """Not given ``width``."""


def sentence(run, cfg=None, output=None):
    with pytest.raises(Mistake) as found, explained(cfg, output):
        run()
    assert '\n' not in str(found.value)
    return str(found.value)


@pytest.mark.parametrize(
    ('conv', 'start', 'hint'),
    [
        (dict(type='ReBNNConv'), "model.neck.type='ReBNNConv' is not registered (model)", "'ReBNNConv2d'?"),
        (dict(type='rebnnconv2D'), "model.neck.type='rebnnconv2D' is not registered", "'ReBNNConv2d'?"),
        (dict(type='Qqqqqqqqq'), "model.neck.type='Qqqqqqqqq' is not", 'module that registers it (custom_imports).'),
        (dict(type='ReBNNConv2d', gama=0), "ReBNNConv2d: no option 'gama'", "'gamma'? Known: "),
        (dict(type='BinaryConv2d', wieght=None), "BinaryConv2d: no option 'wieght'", "'weight'?"),
        (dict(type='BinaryConv2d', weight='ReBNNWieght'), "weight='ReBNNWieght' is no registered", "'ReBNNWeight'?"),
        (
            dict(type='BinaryConv2d', activation=dict(type='BinaryRSign', shft='mean')),
            "activation of type BinaryRSign: no option 'shft'",
            "'shift'?",
        ),
        (dict(type='ReBNNConv2d', gamma='adaptve'), "ReBNN: gamma='adaptve' is unknown; use 'adaptive'", ''),
        (dict(bias=True), 'model.neck has no type, which says what to build.', ''),
    ],
)
def test_a_layer_of_a_config(conv, start, hint):
    # a variable of the config, from which a section was made, is not what the user has to change
    cfg = Config(dict(aaa=conv, model=dict(type='FPN', neck=conv)))
    found = sentence(lambda: build_conv_layer(conv, 16, 16, 3), cfg)
    assert found.startswith(start) and hint in found


def test_anything_else_that_a_registry_builds():
    assert sentence(lambda: HOOKS.build(dict(type='EMAHok'))) == (
        "type='EMAHok' is not registered (hook). Did you mean 'EMAHook'?"
    )
    hook = dict(type='LoggerHook', intervl=1)
    found = sentence(lambda: HOOKS.build(hook), Config(dict(custom_hooks=[dict(type='IterTimerHook'), hook])))
    assert found.startswith("custom_hooks.1 of type LoggerHook: no option 'intervl'. Did you mean 'interval'?")


def test_an_option_that_is_needed():
    loss = dict(type='PKDLoss')
    found = sentence(lambda: MODELS.build(loss), Config(dict(model=dict(losses=[loss]))))
    assert found == "model.losses.0 with type='PKDLoss' lacks 'modules', which it needs."


def test_a_name_of_another_scope():
    pytest.importorskip('mmdet')
    assert MODELS.get('mmdet.FCOSHead') is not None
    assert "Did you mean 'mmdet.FCOSHead'?" in sentence(lambda: MODELS.build(dict(type='FCOSHead')))


def test_a_class_in_place_of_a_name():
    optimizer = dict(type=torch.optim.SGD, params=[torch.zeros(1)], momentm=0.9)
    assert sentence(lambda: build_from_cfg(optimizer, MODELS)).startswith("SGD: no option 'momentm'. Did you mean")


@pytest.mark.parametrize(
    ('run', 'kind'),
    [
        (lambda: build_from_cfg(dict(type=Layer, width=2), MODELS), TypeError),  # the option exists: the bug is ours
        (lambda: Layer(width=2), TypeError),
        (lambda: {}['ReBNNConv'], KeyError),
        (lambda: int('x'), ValueError),
        (lambda: build_conv_layer(dict(type='ReBNNConv2d'), 16, 16, 'x'), Exception),
        (lambda: Path('/no/such/file').read_text(), FileNotFoundError),
        (lambda: torch.ones(2) + torch.ones(3), RuntimeError),
    ],
)
def test_bugs_keep_their_traceback(run, kind):
    with pytest.raises(kind) as found, explained():
        run()
    assert not isinstance(found.value, Mistake)


@pytest.mark.parametrize('kept', [0, 100, 4000], ids=['nothing', 'header', 'most'])
@pytest.mark.parametrize('zipped', [True, False])
def test_a_checkpoint_that_is_cut_off(tmp_path, kept, zipped):
    path = tmp_path / 'epoch_1.pth'
    torch.save({'state_dict': {'weight': torch.ones(2000)}}, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:kept])
    found = sentence(lambda: load_checkpoint(torch.nn.Linear(1, 1), str(path)))
    assert found.startswith(f'{path} cannot be read as a checkpoint: ') and f'({kept} bytes). It is cut off' in found


def test_a_file_that_is_no_checkpoint(tmp_path):
    path = tmp_path / 'epoch_1.pth'
    path.write_text('<html>404 Not Found</html>')
    assert f'{path} cannot be read as a checkpoint' in sentence(
        lambda: load_checkpoint(torch.nn.Linear(1, 1), str(path))
    )
    with pytest.raises(pickle.UnpicklingError), explained():
        pickle.loads(b'no pickle')


def test_weights_that_cannot_be_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    address = 'http://localhost:9/resnet.pth'
    cfg = Config(dict(model=dict(init_cfg=dict(type='Pretrained', checkpoint=address))))
    line = sentence(lambda: load_checkpoint(torch.nn.Linear(1, 1), address), cfg)
    assert line.startswith(f"model.init_cfg.checkpoint='{address}' cannot be downloaded from {address}: ")
    assert line.endswith('and name the file as model.init_cfg.checkpoint.')


def test_a_full_disk_names_the_file_or_what_the_caller_writes():
    assert (
        sentence(lambda: mmengine.dump([0], '/dev/full', 'pkl'))
        == 'cannot write to /dev/full: No space left on device.'
    )

    def write():
        with open('/dev/full', 'wb') as file:
            file.write(b'x')

    assert sentence(write, output='a.onnx') == 'cannot write to a.onnx: No space left on device.'


def test_a_folder_that_cannot_be_made_later(tmp_path):
    (tmp_path / 'file').touch()
    found = sentence(lambda: mmengine.mkdir_or_exist(str(tmp_path / 'file' / 'log')))
    assert found == f'cannot write to {tmp_path}/file/log: Not a directory.'


CONFIG = dict(
    model=dict(type='SSD', backbone=dict(type='VGG', init_cfg=None), neck=dict(scale=(1, 2))),
    optim_wrapper=dict(type='OptimWrapper', optimizer=dict(type='SGD')),
    pipeline=[dict(type='Load'), dict(type='Resize')],
    layers=dict(layer3=dict(lr_mult=1), conv1=dict(lr_mult=1)),
)


@pytest.mark.parametrize(
    'key',
    [
        'model.backbone.type',
        'model.backbone.with_cp',
        'model.backbone.dcn.type',
        'optim_wrapper.clip_grad.max_norm',
        'optim_wrapper.paramwise_cfg.custom_keys.backbone.lr_mult',
        'layers.layer4.lr_mult',
        'layers.conv2.lr_mult',
        'pipeline.1.scale',
        'randomness.seed',
        'load_from',
        'resume',
        'train_dataloader.batch_size',
        'auto_scale_lr.base_batch_size',
        'default_hooks.checkpoint.interval',
        'find_unused_parameters',
        'tta_model.type',
        'work_dir',
    ],
)
def test_new_entries_are_welcome_as_in_mmengine(key):
    cfg = Config(CONFIG)
    assert misspelt_key(cfg, {key: 1}) is None
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
    found = misspelt_key(Config(CONFIG), {'model.type': 'X', key: 1})
    assert found.startswith(f'--cfg-options {key}: {problem}') and '\n' not in found


def test_the_way_out_it_names_works():
    cfg, options = Config(CONFIG), {'model.backbone.init_cfg.type': 'P', 'model.backbone.init_cfg._delete_': True}
    assert misspelt_key(cfg, options) is None
    cfg.merge_from_dict(options)
    assert cfg.model.backbone.init_cfg == dict(type='P')


@pytest.mark.parametrize(
    ('text', 'options', 'words'),
    [
        ('', {}, 'my.py cannot be read: '),
        ('a = dict(b=1', {}, 'my.py cannot be read: SyntaxError'),
        ('model = dict(depth=18)', {'modle.depth': 34}, "the config has no 'modle'"),
    ],
)
def test_a_config_that_does_not_fit_is_one_sentence(tmp_path, text, options, words):
    path = tmp_path / 'my.py'
    with pytest.raises(ValueError, match='^no config file at '):
        fitting_config(path, options)
    path.write_text(text or 'a = nothing')
    with pytest.raises(ValueError, match=re.escape(words)):
        fitting_config(path, options)
    path.write_text('model = dict(depth=18)')
    assert fitting_config(path, {'model.depth': 34}).model.depth == 34
