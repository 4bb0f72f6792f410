"""The configs of networks beside the paper's: structure, size, a step, a prediction, the packed file, the recipe."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.analysis.rules import Rule
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
    backbone=dict(type='BinaryVGGSmall', base_channels=4, conv_cfg=None, block='relu'),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=1000, in_channels=16),
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
ROWS = {
    'reactnet_a_stage1_imagenet': Row(EIGHTH, 256, 26, 2, 29_343_592, 0.0, 4828.76, 117.374),
    'reactnet_a_imagenet': Row(EIGHTH, 256, 26, 2, 29_343_592, 4816.90, 87.13, 7.937),
    'bireal50_imagenet': Row(EIGHTH, 256, 47, 10, 25_729_064, 3596.62, 625.84, 22.901),
    'bnext_t_imagenet': Row(EIGHTH, 256, 31, 64, 30_853_276, 4816.90, 88.61, 13.932),
    'bnext_s_imagenet': Row(EIGHTH, 256, 31, 64, 68_581_174, 10838.02, 190.47, 27.992),
    'quicknet_small_imagenet': Row(dict(width=0.25), 128, 16, 10, 12_652_504, 1156.06, 34.00, 4.184),
    'quicknet_imagenet': Row(dict(width=0.125), 64, 16, 10, 13_230_024, 1849.69, 58.55, 4.352),
    'quicknet_large_imagenet': Row(dict(width=0.125), 64, 32, 10, 23_338_184, 3699.38, 87.45, 5.644),
    'meliusnet22_imagenet': Row(dict(base_channels=16), 128, 34, 7, 6_944_584, 4624.22, 208.64, 4.066),
}
ONE_OF_EACH = [
    'reactnet_a_imagenet',
    'bireal50_imagenet',
    'bnext_t_imagenet',
    'quicknet_imagenet',
    'meliusnet22_imagenet',
]
EVERY = [pytest.param(name, marks=() if name in ONE_OF_EACH else pytest.mark.slow) for name in ROWS]


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
        if 'teacher' in cfg.model:
            cfg.model.update(teacher=TEACHER, teacher_checkpoint=None)
        return cfg

    return narrow


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=() if name == 'reactnet_a_imagenet' else pytest.mark.slow) for name in ROWS]
)
def test_structure_and_costs(name, load_config):
    """What papers and released codes print of them is in docs/models.md, with the rule that it follows."""
    row, cfg = ROWS[name], load_config(f'networks/{name}')
    if 'teacher' in cfg.model:
        cfg.model.update(teacher=TEACHER, teacher_checkpoint=None)
    with torch.device('meta'):
        network = build_network(cfg)
    cost, rule = network_cost(network, (224, 224)), Rule()
    binary = [m for m in convolutions(network).values() if isinstance(m, BinaryConv2d) and m.binary]
    assert (len(binary), len(cost.products) - len(binary)) == (row.binary, row.real)
    assert sum(p.numel() for p in network.parameters()) == row.parameters
    found = cost.bops / 1e6, rule.ops(cost) / 1e6, rule.size(cost)
    assert found == pytest.approx((row.bops, row.ops, row.size), abs=6e-3)


@pytest.mark.parametrize('name', EVERY)
def test_one_step_learns_and_prediction_gives_scores(name, narrow, tmp_path):
    runner, gradients = trained_one_step(narrow(name), tmp_path)
    assert gradients.keys() == convolutions(runner.model).keys()
    # Squeeze and excitation is one channel wide here, and its ReLU can be silent for two images.
    wrong = {n for n, value in gradients.items() if not 0 < value < float('inf')}
    assert {n for n in wrong if '.se.' not in n} == set()
    assert len(wrong) < len(gradients) / 5
    assert set(parameter_roles(runner.model).values()) >= {'latent weight', 'norm', 'rest'}
    check_prediction(runner)


def built(cfg: Config) -> nn.Module:
    """The config's model with values that are not those of a fresh start."""
    torch.manual_seed(0)
    return lively(MODELS.build({**cfg.model, 'data_preprocessor': cfg.data_preprocessor}))


@pytest.mark.parametrize('name', ONE_OF_EACH)
def test_packed_layers_agree(name, narrow):
    """Each by itself: in a whole network a norm's rounding can turn a sign, and what comes behind is another image."""
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
