import json
import pickle
from pathlib import Path

import mmengine
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import ConcatDataset
from mmengine.registry import HOOKS, MODELS, build_from_cfg
from mmengine.runner import load_checkpoint

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.config_mistake import user_errors

build_conv_layer = pytest.importorskip('mmcv.cnn').build_conv_layer


class Layer:
    """Takes ``width``, and has a bug."""

    def __init__(self, width=1):
        self.paint(width=width)

    def paint(self, colour):
        """Not given ``width``."""


def sentence(run, cfg=None, output=None):
    with pytest.raises(RebnnError) as found, user_errors(cfg, output):
        run()
    assert '\n' not in str(found.value)
    return str(found.value)


@pytest.mark.parametrize('workers', [0, 1])
def test_an_image_that_cannot_be_read_is_named(workers, tmp_path):
    image = tmp_path / 'a b.jpg'
    image.write_bytes(b'no image')
    read = pytest.importorskip('mmcv.transforms').LoadImageFromFile()
    entries = [dict(img_path=str(image))]
    loader = torch.utils.data.DataLoader(entries, 1, num_workers=workers, collate_fn=lambda batch: read(batch[0]))
    told = f'{image}: it cannot be read as an image. Copy or download it again, or leave it out of the labels.'
    assert sentence(lambda: next(iter(loader))) == told


@pytest.mark.parametrize(
    ('conv', 'start', 'hint'),
    [
        (dict(type='ReBNNConv'), "model.conv_cfg.type='ReBNNConv' is not registered (model)", "'ReBNNConv2d'?"),
        (dict(type='rebnnconv2D'), "model.conv_cfg.type='rebnnconv2D' is not registered", "'ReBNNConv2d'?"),
        (
            dict(type='Qqqqqqqqq'),
            "model.conv_cfg.type='Qqqqqqqqq' is not",
            'module that registers it (custom_imports).',
        ),
        (dict(type='ReBNNConv2d', gama=0), "ReBNNConv2d: no option 'gama'", "'gamma'? Known: "),
        (dict(type='BinaryConv2d', wieght=None), "BinaryConv2d: no option 'wieght'", "'weight'?"),
        (dict(type='BinaryConv2d', weight='ReBNNWieght'), "weight='ReBNNWieght' is not a", "'ReBNNWeight'?"),
        (
            dict(type='BinaryConv2d', activation=dict(type='BinaryRSign', shft='mean')),
            "activation of type BinaryRSign: no option 'shft'",
            "'shift'?",
        ),
        (dict(type='ReBNNConv2d', gamma='adaptve'), "ReBNN: gamma='adaptve' is unknown; use 'adaptive'", ''),
        (dict(bias=True), 'model.conv_cfg has no type, which says what to build.', ''),
    ],
)
def test_a_layer_of_a_config(conv, start, hint):
    # a variable of the config, from which a section was made, is not what the user has to change
    cfg = Config(dict(aaa=conv, model=dict(type='BinaryResNet', conv_cfg=conv)))
    found = sentence(lambda: build_conv_layer(conv, 16, 16, 3), cfg)
    assert found.startswith(start) and hint in found


def test_anything_else_that_a_registry_builds():
    assert sentence(lambda: HOOKS.build(dict(type='EMAHok'))) == (
        "type='EMAHok' is not registered (hook). Did you mean 'EMAHook'?"
    )
    hook = dict(type='LoggerHook', intervl=1)
    found = sentence(lambda: HOOKS.build(hook), Config(dict(custom_hooks=[dict(type='IterTimerHook'), hook])))
    assert found.startswith("custom_hooks.1 of type LoggerHook: no option 'intervl'. Did you mean 'interval'?")


@pytest.mark.parametrize('option', [dict(lr=-1), dict(lr=0.1, momentum=-1), dict(lr=0.1, weight_decay=-1)])
def test_a_number_that_an_optimizer_refuses(option):
    found = sentence(lambda: torch.optim.SGD([torch.zeros(1)], **option))
    assert found.startswith('optim_wrapper.optimizer: PyTorch refuses it: Invalid ') and found.endswith(': -1.')


def test_a_data_set_without_images(tmp_path):
    coco = pytest.importorskip('mmdet.datasets').CocoDataset
    path = tmp_path / 'train.json'

    def build(number, **options):
        images = [dict(id=1, file_name='1.jpg', height=9, width=9)][:number]
        path.write_text(json.dumps(dict(images=images, annotations=[], categories=[dict(id=1, name='a')])))
        return coco(ann_file=str(path), data_prefix=dict(img=''), metainfo=dict(classes=('a',)), **options)

    cfg = Config(dict(train_dataloader=dict(dataset=dict(ann_file=str(path)))))
    told = f'{path}: a data set has no entry, or none that its filter_cfg keeps. Name data that have some.'
    assert sentence(lambda: build(0), cfg) == told
    with_boxes = dict(filter_cfg=dict(filter_empty_gt=True))
    assert sentence(lambda: ConcatDataset([build(1, **with_boxes)]), cfg) == told
    with pytest.raises(ValueError, match='concatenate'), user_errors():
        build(0)
    assert len(build(1)) == 1


def test_an_option_that_is_needed():
    loss = dict(type='PKDLoss')
    found = sentence(lambda: MODELS.build(loss), Config(dict(model=dict(losses=[loss]))))
    assert found == "model.losses.0 with type='PKDLoss' lacks 'modules', which it needs."


def test_a_name_of_another_scope():
    pytest.importorskip('mmdet')
    assert MODELS.get('mmdet.FCOSHead') is not None
    assert "Did you mean 'mmdet.FCOSHead'?" in sentence(lambda: MODELS.build(dict(type='FCOSHead')))


def test_a_class_in_place_of_a_name():
    optimizer = dict(type=torch.optim.SGD, momentm=0.9)
    found = sentence(lambda: build_from_cfg(optimizer, MODELS), Config(dict(optim_wrapper=dict(optimizer=optimizer))))
    assert found.startswith("optim_wrapper.optimizer of type SGD: no option 'momentm'. Did you mean")


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
    with pytest.raises(kind) as found, user_errors(Config(dict(model=dict(type=Layer, width=2)))):
        run()
    assert not isinstance(found.value, RebnnError)


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
    with pytest.raises(pickle.UnpicklingError), user_errors():
        pickle.loads(b'no pickle')


def test_weights_that_cannot_be_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    address = 'http://localhost:9/resnet.pth'
    line = sentence(lambda: load_checkpoint(torch.nn.Linear(1, 1), address))
    assert line.startswith(f"'{address}' cannot be downloaded: ")
    assert line.endswith('and name the file in its place.')


def test_a_full_disk_names_the_file_or_what_the_caller_writes():
    def dump():
        mmengine.dump([0], '/dev/full', 'pkl')

    assert sentence(dump, Config(dict(work_dir='runs'))) == 'cannot write to runs: No space left on device.'

    def write():
        with open('/dev/full', 'wb') as file:
            file.write(b'x')

    assert sentence(write, output='a.onnx') == 'cannot write to a.onnx: No space left on device.'


def test_a_folder_that_cannot_be_made_later(tmp_path):
    (tmp_path / 'file').touch()
    found = sentence(lambda: mmengine.mkdir_or_exist(str(tmp_path / 'file' / 'log')))
    assert found == f'cannot write to {tmp_path}/file/log: Not a directory.'
