"""From the first stage to the second one on real images, with the CIFAR-10 configs."""

import pickle
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from lab.study.plan import read_chosen
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models.losses import distribution_loss

register_all_modules(init_default_scope=False)

ROOT = Path(__file__).parents[2]
STAGE1 = 'resnet20_stage1'
METHODS = ['react', 'rebnn']


@pytest.fixture(autouse=True)
def _scope_of_mmpretrain():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Photographs of the sample in CIFAR-10's layout, and a teacher."""
    folder = tmp_path_factory.mktemp('two_stage')
    archive = folder / 'cifar-10-batches-py'
    archive.mkdir()
    files = sorted((ROOT / 'demo' / 'coco_sample').glob('*2017/*.jpg'))[:24]
    images = [mmcv.imresize(mmcv.imread(path, channel_order='rgb'), (32, 32)) for path in files]
    data = np.stack(images).transpose(0, 3, 1, 2).reshape(len(images), -1)
    for number, name in enumerate([*(f'data_batch_{i}' for i in range(1, 6)), 'test_batch']):
        part = slice(4 * number, 4 * number + 4)
        (archive / name).write_bytes(pickle.dumps(dict(data=data[part], labels=list(range(4)))))
    torch.manual_seed(3)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        teacher = MODELS.build(config(None).model.teacher)
        teacher.init_weights()
    torch.save(teacher.state_dict(), folder / 'teacher.pth')
    return folder


def config(method: str | None, folder: str = 'cifar10/cpu') -> Config:
    """The second stage of a method, or the first stage."""
    name = 'resnet20_two_stage' if method else 'resnet20_stage1'
    return read_chosen(f'METHOD={method} {name}.py', ROOT / 'configs' / folder)


class Watch(Hook):
    """What training starts from, and the first loss."""

    priority = 'LOWEST'

    def __init__(self) -> None:
        self.start: dict[str, torch.Tensor] = {}
        self.expected_loss = self.loss = 0.0

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if self.start:
            return
        model = runner.model
        self.start = {key: value.clone() for key, value in model.state_dict().items()}
        data = model.data_preprocessor(data_batch, True)
        with torch.no_grad():
            scores = model(data['inputs'])
            self.expected_loss = distribution_loss(scores, model.teacher.eval()(data['inputs'])).item()
        model.load_state_dict(self.start)  # the statistics that this pass moved

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.loss = self.loss or outputs['teacher_loss'].item()


def run(method: str | None, folder: Path, load_from: str | None = None) -> tuple[Runner, Watch]:
    cfg, name = config(method), method or STAGE1
    cfg.work_dir = str(folder / name)
    cfg.experiment_name = f'{folder.name}_{name}'
    cfg.load_from = load_from
    cfg.model.teacher_checkpoint = str(folder / 'teacher.pth')
    cfg.train_cfg.update(max_epochs=2, val_interval=2)
    cfg.param_scheduler.end = 2
    cfg.train_dataloader.batch_size = 10
    cfg.default_hooks.checkpoint.interval = 2
    cfg.randomness = dict(seed=0)
    cfg.log_level = 'ERROR'
    for loader in (cfg.train_dataloader, cfg.val_dataloader):
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.update(data_root=str(folder), indices=None)
    runner, watch = Runner.from_cfg(cfg), Watch()
    runner.register_hook(watch)
    runner.train()
    return runner, watch


@pytest.fixture(scope='module')
def stage1(folder):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        runner, watch = run(None, folder)
    return runner, watch, folder / STAGE1 / 'epoch_2.pth'


@pytest.fixture(scope='module', params=METHODS)
def stage2(request, stage1, folder):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        runner, watch = run(request.param, folder, load_from=str(stage1[2]))
    return request.param, runner, watch


def binary_layers(model: torch.nn.Module) -> dict[str, BinaryConv2d]:
    return {name: m for name, m in model.named_modules() if isinstance(m, BinaryConv2d) and m.binary}


def test_first_stage_has_real_weights_and_learns_from_the_teacher(stage1):
    runner, watch, _ = stage1
    layers = binary_layers(runner.model)
    assert len(layers) == 18
    assert {(m.weight_bits, m.activation_bits) for m in layers.values()} == {(32, 1)}
    assert watch.loss == pytest.approx(watch.expected_loss, rel=1e-6)
    last = runner.model.state_dict()
    assert all(not torch.equal(watch.start[f'{name}.weight'], last[f'{name}.weight']) for name in layers)
    assert 0 <= runner.message_hub.get_scalar('val/accuracy/top1').current() <= 100


def test_second_stage_starts_where_the_first_one_ended(stage1, stage2):
    method, runner, watch = stage2
    layers = binary_layers(runner.model)
    assert {(m.weight_bits, m.activation_bits) for m in layers.values()} == {(1, 1)}

    state = torch.load(stage1[2], weights_only=False)['state_dict']
    assert all(torch.equal(watch.start[key], value) for key, value in state.items())
    new = watch.start.keys() - state.keys()
    assert {key.split('.')[-2] for key in new} <= {'weight_quantizer'}
    if method == 'rebnn':
        assert len(new) == 2 * len(layers)
        for layer in layers:
            mean = state[f'{layer}.weight'].abs().mean(dim=(1, 2, 3))
            torch.testing.assert_close(watch.start[f'{layer}.weight_quantizer.alpha'], mean)

    assert watch.loss == pytest.approx(watch.expected_loss, rel=1e-6)
    last = runner.model.state_dict()
    assert all(not torch.equal(state[f'{layer}.weight'], last[f'{layer}.weight']) for layer in layers)


def test_result_is_an_ordinary_classifier(stage2, folder):
    """Its checkpoint fills the plain config completely and predicts the same there."""
    method, runner, _ = stage2
    cfg = config(method).model
    for key in ('teacher', 'teacher_checkpoint', 'teacher_loss'):
        cfg.pop(key)
    plain = MODELS.build({**cfg, 'type': 'ImageClassifier'})
    saved = torch.load(folder / method / 'epoch_2.pth', weights_only=False)['state_dict']
    plain.load_state_dict(saved)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(plain.eval()(images), runner.model.eval()(images))


@pytest.mark.parametrize('method', [None, *METHODS])
def test_whole_schedule_differs_from_the_short_one_in_data_and_length_only(method):
    long, short = config(method, 'cifar10'), config(method)
    assert long.model == short.model
    assert long.custom_hooks == short.custom_hooks
    assert long.train_cfg.max_epochs == long.param_scheduler[0].end == 200
    optimizer = long.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('Adam', 1e-3, 0)
    if method:
        assert long.load_from == f'{config(None, "cifar10").work_dir}/epoch_200.pth'
        assert short.load_from == f'{config(None).work_dir}/epoch_{short.train_cfg.max_epochs}.pth'
