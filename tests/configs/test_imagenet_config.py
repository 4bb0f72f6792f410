"""Every ImageNet config: what it builds, that it learns from a step, that it predicts, and its recipe."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torchvision
from mmengine.config import Config
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from torch import nn

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d

from .imagenet import check_prediction, convolutions, trained_one_step

register_all_modules(init_default_scope=False)


class Row(NamedTuple):
    """What a config has to hold."""

    block: str
    layer: str
    hook: str
    optimizer: str
    epochs: int
    stage: int = 0  # of two-stage training; 0 for one stage


ROWS = {
    'imagenet/resnet18_bnn_imagenet': Row('BinarySingleShortcutBlock', 'BNNConv2d', 'BinaryHook', 'Adam', 256),
    'imagenet/resnet18_xnor_imagenet': Row('BinaryPreActBlock', 'XNORConv2d', 'BinaryHook', 'Adam', 100),
    'imagenet/resnet18_bireal_imagenet': Row('BinaryBiRealBlock', 'BiRealConv2d', 'BinaryHook', 'Adam', 256),
    'imagenet/resnet18_rbnn_imagenet': Row('BinaryHardtanhBlock', 'RBNNConv2d', 'BinaryHook', 'SGD', 150),
    'imagenet/resnet18_recu_imagenet': Row('BinaryHardtanhBlock', 'ReCUConv2d', 'BinaryHook', 'SGD', 200),
    'imagenet/resnet18_rebnn_imagenet': Row('BinaryHardtanhBlock', 'ReBNNConv2d', 'ReBNNHook', 'SGD', 200),
    'imagenet/resnet18_react_stage1_imagenet': Row('BinaryReActBlock', 'ReActConv2d', 'BinaryHook', 'Adam', 256, 1),
    'imagenet/resnet18_react_imagenet': Row('BinaryReActBlock', 'ReActConv2d', 'BinaryHook', 'Adam', 256, 2),
    'imagenet/resnet18_fda_imagenet': Row('BinaryReActBlock', 'FDAConv2d', 'BinaryHook', 'Adam', 256, 2),
    'imagenet/resnet18_recu_two_stage_imagenet': Row('BinaryReActBlock', 'ReCUConv2d', 'BinaryHook', 'Adam', 256, 2),
    'imagenet/resnet18_rebnn_two_stage_imagenet': Row('BinaryReActBlock', 'ReBNNConv2d', 'ReBNNHook', 'Adam', 256, 2),
    'imagenet/resnet34_bireal_imagenet': Row('BinaryBiRealBlock', 'BiRealConv2d', 'BinaryHook', 'Adam', 256),
    'imagenet/resnet34_rbnn_imagenet': Row('BinaryHardtanhBlock', 'RBNNConv2d', 'BinaryHook', 'SGD', 150),
    'imagenet/resnet34_recu_imagenet': Row('BinaryHardtanhBlock', 'ReCUConv2d', 'BinaryHook', 'SGD', 200),
    'imagenet/resnet34_rebnn_imagenet': Row('BinaryHardtanhBlock', 'ReBNNConv2d', 'ReBNNHook', 'SGD', 200),
    'imagenet/resnet34_react_stage1_imagenet': Row('BinaryReActBlock', 'ReActConv2d', 'BinaryHook', 'Adam', 256, 1),
    'imagenet/resnet34_react_imagenet': Row('BinaryReActBlock', 'ReActConv2d', 'BinaryHook', 'Adam', 256, 2),
    'imagenet/resnet34_rebnn_two_stage_imagenet': Row('BinaryReActBlock', 'ReBNNConv2d', 'ReBNNHook', 'Adam', 256, 2),
}
GAMMA = {'0': 0, '1e-5': 1e-5, '1e-4': 1e-4, '1e-3': 1e-3, '1e-2': 1e-2, 'max': 'max', 'adaptive': 'adaptive'}
ABLATION = {
    f'ablation/resnet18_gamma_{value}_imagenet': ROWS['imagenet/resnet18_rebnn_two_stage_imagenet'] for value in GAMMA
}
TWO_STAGE = [name for name, row in ROWS.items() if row.stage]
REAL = {'imagenet/resnet18_imagenet': 46.76, 'imagenet/resnet34_imagenet': 87.19}
CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.fixture(autouse=True)
def _scope_of_mmpretrain():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


@pytest.fixture(scope='module')
def teacher_file(tmp_path_factory):
    """Weights of the teacher's shape, as torchvision stores them."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp('torchvision') / 'resnet34.pth'
    torch.save(torchvision.models.resnet34().state_dict(), path)
    return str(path)


@pytest.fixture
def narrow(load_config, teacher_file):
    """A config with an eighth of the channels and a teacher that needs no download."""

    def narrow(name: str) -> Config:
        cfg = load_config(name)
        cfg.model.backbone.base_channels = 8
        cfg.model.head.in_channels = 64
        if 'teacher' in cfg.model:
            cfg.model.teacher_checkpoint = teacher_file
        return cfg

    return narrow


def quick(name: str) -> bool:
    """Every method in ResNet-18, and ResNet-34 with one; the ablation's rows differ in a number only."""
    return ('resnet18' in name and name not in ABLATION) or 'resnet34_rebnn' in name or 'gamma_max' in name


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=() if quick(name) else pytest.mark.slow) for name in [*ROWS, *ABLATION]]
)
def test_one_step_learns_and_prediction_gives_scores(name, narrow, tmp_path):
    row, cfg = {**ROWS, **ABLATION}[name], narrow(name)
    runner, gradients = trained_one_step(cfg, tmp_path)
    model = runner.model
    binary = {n: m for n, m in convolutions(model).items() if isinstance(m, BinaryConv2d) and m.binary}
    real = convolutions(model).keys() - binary.keys()
    assert real == {'backbone.conv1', *(f'backbone.layer{i}.0.downsample.0' for i in (2, 3, 4))}
    assert len(binary) == (32 if '34' in name else 16)
    assert {type(m).__name__ for m in binary.values()} == {row.layer}
    bits = {(m.weight_bits, m.activation_bits) for m in binary.values()}
    assert bits == {(32, 1) if row.stage == 1 else (1, 1)}
    assert {type(block).__name__ for block in model.backbone.layer1} == {row.block}
    losses = [key for key in runner.message_hub.log_scalars if 'loss' in key]
    assert losses == (['train/loss', 'train/teacher_loss'] if row.stage else ['train/loss'])
    assert gradients.keys() == convolutions(model).keys()
    assert {n: value for n, value in gradients.items() if not 0 < value < float('inf')} == {}
    check_prediction(runner)


@pytest.mark.parametrize('name', ROWS)
def test_recipe(name, load_config):
    row, cfg = ROWS[name], load_config(name)
    assert [hook.type for hook in cfg.custom_hooks] == [row.hook]
    assert cfg.custom_imports.imports == ['rebnn_mm']
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    optimizer = {key: value for key, value in cfg.optim_wrapper.optimizer.items() if key != '_scope_'}
    if row.optimizer == 'SGD':
        assert optimizer == dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4)
    else:
        assert optimizer == dict(type='Adam', lr=1e-3, weight_decay=1e-5 if 'xnor' in name else 0)
    assert cfg.train_cfg.max_epochs == row.epochs
    schedules = cfg.param_scheduler if isinstance(cfg.param_scheduler, list) else [cfg.param_scheduler]
    assert schedules[-1].end == row.epochs
    assert all(first.end == second.begin for first, second in pairwise(schedules))
    # Four GPUs, as the paper has, make the batch the learning rate is for.
    assert 4 * cfg.train_dataloader.batch_size == cfg.auto_scale_lr.base_batch_size == (256 if 'xnor' in name else 512)


@pytest.mark.parametrize('name', TWO_STAGE)
def test_both_stages_learn_from_the_real_resnet34(name, load_config):
    row, cfg = ROWS[name], load_config(name)
    assert cfg.model.type == 'rebnn_mm.TeacherStudentClassifier'
    assert (cfg.model.teacher, cfg.model.teacher_checkpoint) == (
        'mmpretrain::resnet/resnet34_8xb32_in1k.py',
        'torchvision://resnet34',
    )
    assert cfg.model.teacher_loss.type == 'DistributionLoss'
    stage1 = f'{name.split("_")[0]}_react_stage1_imagenet'
    start = f'work_dirs/{Path(stage1).name}/epoch_{ROWS[stage1].epochs}.pth'
    assert cfg.get('load_from') == (start if row.stage == 2 else None)


@pytest.mark.parametrize('name', [name for name in TWO_STAGE if ROWS[name].stage == 2 and 'resnet18' in name])
def test_second_stage_takes_everything_the_first_one_learned(name, narrow, tmp_path):
    torch.manual_seed(0)
    first = MODELS.build(narrow('imagenet/resnet18_react_stage1_imagenet').model)
    first.init_weights()
    state = first.state_dict()
    second = MODELS.build(narrow(name).model)
    found = second.load_state_dict(state, strict=False)
    assert found.unexpected_keys == []
    assert [key for key in found.missing_keys if 'quantizer' not in key] == []
    assert {key.split('.')[-1] for key in state if 'activation_quantizer' in key} == {'shift'}
    if name == 'imagenet/resnet18_rebnn_two_stage_imagenet':
        for layer in (m for m in second.modules() if isinstance(m, BinaryConv2d) and m.binary):
            torch.testing.assert_close(layer.alpha.data, layer.weight.abs().mean(dim=(1, 2, 3)))


def test_bireal_smooths_labels(load_config):
    loss = load_config('imagenet/resnet18_bireal_imagenet').model.head.loss
    assert (loss.type, loss.label_smooth_val) == ('LabelSmoothLoss', 0.1)


def test_schedule_of_two_stages_ends_at_zero(load_config):
    """Shown on two epochs of two iterations."""
    cfg = load_config('imagenet/resnet18_react_imagenet')
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-3)
    options = {**cfg.param_scheduler, 'end': 2, 'optimizer': optimizer, 'epoch_length': 2}
    options.pop('type')
    options.pop('convert_to_iter_based')
    scheduler = PARAM_SCHEDULERS.get('LinearLR').build_iter_from_epoch(**options)
    rates = []
    for _ in range(4):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([1e-3, 2e-3 / 3, 1e-3 / 3, 0])


@pytest.mark.parametrize(('name', 'size'), REAL.items())
def test_real_valued_rows_are_stock(name, size, load_config, tmp_path):
    cfg = load_config(name)
    assert 'custom_hooks' not in cfg
    runner, gradients = trained_one_step(cfg, tmp_path)
    check_prediction(runner)
    # mmpretrain starts the last norm of each block at 0, so convolutions inside blocks have to wait for a step.
    assert gradients['backbone.conv1'] > 0
    model = runner.model
    assert {type(m) for m in convolutions(model).values()} == {nn.Conv2d}
    # The size in the paper's table: 32-bit parameters in millions of bytes.
    assert sum(p.numel() for p in model.parameters()) * 4 / 1e6 == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(('row', 'gamma'), GAMMA.items())
def test_gamma_ablation_differs_from_the_second_stage_in_gamma_only(row, gamma, load_config):
    ours, base = (
        load_config(name).to_dict()
        for name in (f'ablation/resnet18_gamma_{row}_imagenet', 'imagenet/resnet18_rebnn_two_stage_imagenet')
    )
    layer = ours['model']['backbone']['conv_cfg']
    assert layer == {**base['model']['backbone']['conv_cfg'], 'gamma': gamma}
    ours['model']['backbone']['conv_cfg'] = base['model']['backbone']['conv_cfg']
    assert {**ours, 'filename': None} == {**base, 'filename': None}
    built = MODELS.build(dict(layer, in_channels=4, out_channels=4, kernel_size=3))
    assert built.weight_quantizer.gamma_mode == gamma


def test_no_ablation_config_is_forgotten():
    files = {path.stem for path in (CONFIGS / 'ablation').glob('*.py')}
    assert {f'ablation/{stem}' for stem in files} == ABLATION.keys()


def test_no_imagenet_config_is_forgotten():
    assert {f'imagenet/{path.stem}' for path in (CONFIGS / 'imagenet').glob('*.py')} == {*ROWS, *REAL}
