"""The configs of networks other than the paper's: structure, size, a step, a prediction, packed file, recipe."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample
from mmpretrain.utils import register_all_modules

from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.engine.optim_constructor import parameter_roles
from rebnn_mm.export import pack
from rebnn_mm.export.exporter import export
from rebnn_mm.layers import BinaryConv2d
from tests.export.networks import lively

from .imagenet import check_prediction, convolutions, trained_one_step

register_all_modules(init_default_scope=False)

CONFIGS = Path(__file__).parents[2] / 'configs' / 'networks'
TEACHER = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryResNet', depth=18, base_channels=4, conv_cfg=None, block='relu', out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=1000, in_channels=32),
    init_cfg=dict(type='Kaiming', layer='Conv2d'),
)


class Row(NamedTuple):
    """What a config builds."""

    narrow: dict  # options of its backbone for a test, and how many channels its last map then has
    channels: int
    binary: int  # convolutions
    real: int  # whatever else multiplies
    parameters: int
    bops: float  # M, as counted by hand or printed
    ops: float  # M
    size: float  # MB


EIGHTH = dict(base_channels=8)
R2B = dict(base_channels=8, stem_act=dict(num_parameters=8))
ROWS = {
    'reactnet_a_stage1_imagenet': Row(EIGHTH, 256, 26, 2, 29_343_592, 0.0, 4828.76, 117.374),
    'reactnet_a_imagenet': Row(EIGHTH, 256, 26, 2, 29_343_592, 4816.90, 87.13, 7.937),
    'bireal50_imagenet': Row(EIGHTH, 256, 47, 10, 25_729_064, 3596.62, 625.84, 22.901),
    'bnext_t_imagenet': Row(EIGHTH, 256, 31, 64, 30_853_276, 4816.90, 88.61, 13.932),
    'bnext_s_imagenet': Row(EIGHTH, 256, 31, 64, 68_581_174, 10838.02, 190.47, 27.992),
    'quicknet_small_imagenet': Row(dict(width=0.25), 128, 16, 10, 12_652_504, 1156.06, 34.00, 4.184),
    'quicknet_imagenet': Row(dict(width=0.125), 64, 16, 10, 13_230_024, 1849.69, 58.55, 4.352),
    'quicknet_large_imagenet': Row(dict(width=0.125), 64, 32, 10, 23_338_184, 3699.38, 87.45, 5.644),
    'real_to_binary_stage1_imagenet': Row(R2B, 64, 0, 53, 11_986_920, 0.0, 1814.37, 47.948),
    'real_to_binary_stage2_imagenet': Row(R2B, 64, 16, 37, 11_986_920, 0.0, 1814.37, 47.948),
    'real_to_binary_imagenet': Row(R2B, 64, 16, 37, 11_986_920, 1676.28, 164.28, 5.379),
    'meliusnet22_imagenet': Row(dict(base_channels=16), 128, 34, 7, 6_944_584, 4624.22, 208.64, 4.066),
}
ONE_OF_EACH = [
    'reactnet_a_imagenet',
    'bireal50_imagenet',
    'bnext_t_imagenet',
    'quicknet_imagenet',
    'real_to_binary_imagenet',
    'meliusnet22_imagenet',
]
REAL_TO_BINARY = ['real_to_binary_stage1_imagenet', 'real_to_binary_stage2_imagenet', 'real_to_binary_imagenet']
NOT_SLOW = {*ONE_OF_EACH, *REAL_TO_BINARY}
EVERY = [pytest.param(name, marks=() if name in NOT_SLOW else pytest.mark.slow) for name in ROWS]


def without_download(cfg: Config) -> Config:
    """The config with a teacher that is small and random."""
    if 'teacher' in cfg.model:
        cfg.model.teacher = TEACHER  # update() would merge it
        cfg.model.teacher_checkpoint = None
    return cfg


@pytest.fixture(autouse=True)
def _scope_of_mmpretrain():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


@pytest.fixture
def narrow(load_config):
    """A config with few channels, and a teacher that needs no download."""

    def narrow(name: str) -> Config:
        cfg = load_config(f'networks/{name}')
        cfg.model.backbone.update(ROWS[name].narrow)
        cfg.model.head.in_channels = ROWS[name].channels
        return without_download(cfg)

    return narrow


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=() if name == 'reactnet_a_imagenet' else pytest.mark.slow) for name in ROWS]
)
def test_structure_and_costs(name, load_config):
    """What papers and released codes print of them is in lab/reports/training.md, with the rule that it follows."""
    row, cfg = ROWS[name], without_download(load_config(f'networks/{name}'))
    with torch.device('meta'):
        network = build_network(cfg)
    cost = network_cost(network, (224, 224))
    binary = [m for m in convolutions(network).values() if isinstance(m, BinaryConv2d) and m.binary]
    assert (len(binary), len(cost.products) - len(binary)) == (row.binary, row.real)
    assert sum(p.numel() for p in network.parameters()) == row.parameters
    found = cost.bops / 1e6, cost.ops / 1e6, cost.deployed_bytes / 1e6
    assert found == pytest.approx((row.bops, row.ops, row.size), abs=6e-3)


@pytest.mark.parametrize('name', EVERY)
def test_one_step_learns_and_prediction_gives_scores(name, narrow, tmp_path):
    runner, gradients = trained_one_step(narrow(name), tmp_path)
    assert gradients.keys() == convolutions(runner.model).keys()
    # Squeeze and excitation is one channel wide here, and its ReLU can be silent for two images.
    wrong = {n for n, value in gradients.items() if not 0 < value < float('inf')}
    assert {n for n in wrong if '.se.' not in n and '.gate' not in n} == set()
    assert len(wrong) < len(gradients) / 5
    roles = set(parameter_roles(runner.model).values())
    assert roles >= {'norm', 'rest'} and ('latent weight' in roles) == (ROWS[name].bops > 0)
    check_prediction(runner)


def built(cfg: Config) -> nn.Module:
    """The config's model with values that are not those of a fresh start."""
    torch.manual_seed(0)
    return lively(MODELS.build({**cfg.model, 'data_preprocessor': cfg.data_preprocessor}))


@pytest.mark.parametrize('name', ONE_OF_EACH)
def test_packed_layers_agree(name, narrow):
    """Each by itself: in a whole network a norm's rounding can turn a sign, and what comes after is another image."""
    model = built(narrow(name))
    packed = pack(model)
    assert len(packed.packed) == ROWS[name].binary
    for layer in packed.packed:
        ours = model.get_submodule(layer)
        x = torch.randn(2, ours.in_channels, 6, 5)
        assert torch.equal(packed.model.get_submodule(layer)(x), ours(x)), layer


@pytest.mark.slow
@pytest.mark.parametrize('name', ONE_OF_EACH)
def test_packed_file_agrees(name, narrow):
    made = export(built(narrow(name)), size=(64, 64))
    assert made.task.name == 'classification' and made.verification.difference < 1e-5
    assert sum(not layer.why for layer in made.report.layers) == ROWS[name].binary


def test_second_stage_takes_everything_the_first_one_learned(narrow):
    first, second = (MODELS.build(narrow(f'reactnet_a_{stage}').model) for stage in ('stage1_imagenet', 'imagenet'))
    assert not any(m.weight_bits == 1 for m in convolutions(first).values() if isinstance(m, BinaryConv2d))
    state = first.state_dict()
    second.load_state_dict(state)  # strictly
    assert {key.split('.')[-1] for key in state if 'quantizer' in key} == {'shift'}


def narrowed(value: Any) -> Any:
    """A Real-to-Binary config with eight channels in place of 64, in its teacher too."""
    if not isinstance(value, dict):
        return value
    names = dict(num_parameters=8, in_channels=64, num_classes=5)
    found = {key: names.get(key, narrowed(each)) for key, each in value.items()}
    return {**found, 'base_channels': 8} if 'depth' in found else found


def test_real_to_binary_learns_from_the_stage_before(load_config, tmp_path):
    """Each checkpoint fills the teacher of the next stage; what the second one learned is where the third starts."""
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    labels = [DataSample().set_gt_label(label) for label in (0, 4)]
    before = None
    for name in REAL_TO_BINARY:
        cfg = load_config(f'networks/{name}')
        model = narrowed(cfg.model.to_dict())
        if before is None:
            model.update(teacher=narrowed(TEACHER), teacher_checkpoint=None)
            model['teacher']['backbone']['base_channels'], model['teacher']['head']['in_channels'] = 4, 32
        else:
            assert cfg.model.teacher_checkpoint == f'work_dirs/{before}/epoch_75.pth'
            assert cfg.get('load_from') in (None, cfg.model.teacher_checkpoint)
            model['teacher_checkpoint'] = str(tmp_path / before)
        torch.manual_seed(1)
        student = MODELS.build(model)
        student.init_weights()
        if cfg.get('load_from'):
            student.load_state_dict(torch.load(tmp_path / before))  # strictly
        losses = student(images, labels, mode='loss')
        maps = 8 if name != REAL_TO_BINARY[-1] else 0
        assert [*losses][:2] == ['teacher_loss', 'label_loss'] and len(losses) == 2 + maps
        if before is not None:
            saved = torch.load(tmp_path / before)
            assert all(torch.equal(value, saved[key]) for key, value in student.teacher.state_dict().items())
        student.parse_losses(losses)[0].backward()
        assert all(p.grad is not None for p in student.parameters())
        torch.save(student.state_dict(), tmp_path / name)
        before = name
    assert [m.activation_bits for m in convolutions(student.teacher).values() if isinstance(m, BinaryConv2d)] == [
        1
    ] * 16


@pytest.mark.parametrize('name', REAL_TO_BINARY)
def test_real_to_binary_has_the_schedule_of_larq_zoo(name, load_config):
    cfg = load_config(f'networks/{name}')
    last = name == REAL_TO_BINARY[-1]
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == (
        ('Adam', 2e-4, 0) if last else ('Adam', 1e-3, 1e-5)
    )
    warm_up, steps = cfg.param_scheduler
    assert (warm_up.end, steps.milestones, steps.gamma, cfg.train_cfg.max_epochs) == (5, [40, 60, 70], 0.3, 75)
    assert (cfg.model.label_weight, cfg.model.teacher_loss.loss_weight) == (1.0, 0.8 if last else 3.0)
    assert 4 * cfg.train_dataloader.batch_size == cfg.auto_scale_lr.base_batch_size == 256


@pytest.mark.parametrize(
    ('name', 'optimizer', 'rate', 'decay', 'epochs', 'batch'),
    [
        ('reactnet_a_stage1_imagenet', 'Adam', 5e-4, 1e-5, 256, 256),
        ('reactnet_a_imagenet', 'Adam', 5e-4, 0, 256, 256),
        ('bireal50_imagenet', 'Adam', 5e-4, 0, 256, 256),
        ('bnext_t_imagenet', 'AdamW', 1e-3, 1e-3, 512, 512),
        ('meliusnet22_imagenet', 'RAdam', 2e-3, 0, 120, 256),
    ],
)
def test_recipe_is_the_authors(name, optimizer, rate, decay, epochs, batch, load_config):
    cfg = load_config(f'networks/{name}')
    found = cfg.optim_wrapper.optimizer
    assert (found.type, found.lr, found.get('weight_decay', 0)) == (optimizer, rate, decay)
    assert cfg.train_cfg.max_epochs == epochs
    assert 4 * cfg.train_dataloader.batch_size == cfg.auto_scale_lr.base_batch_size == batch
    schedules = cfg.param_scheduler if isinstance(cfg.param_scheduler, list) else [cfg.param_scheduler]
    assert (schedules[-1].get('end') or schedules[-1].T_max) == epochs


def test_no_config_is_forgotten():
    assert {path.stem for path in CONFIGS.glob('*.py')} == ROWS.keys()
