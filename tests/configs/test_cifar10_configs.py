"""Every CIFAR-10 config: what it builds, that it learns from a step, and that it predicts."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATASETS, DefaultScope
from torch import nn

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample
from mmpretrain.utils import register_all_modules

from lab.study.plan import read_chosen, read_experiment
from rebnn_mm.layers import BinaryConv2d

register_all_modules(init_default_scope=False)

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / 'configs'
LAYERS = {path.stem: Config.fromfile(path).binary.type for path in sorted((CONFIGS / '_base_/methods').glob('*.py'))}
"""Layer of each method."""

NETWORKS = {'resnet20': 18, 'resnet20_single': 18, 'resnet18': 16, 'vgg_small': 5}
"""Binary convolutions of each network."""

REAL = {'resnet20': 19 + 2, 'resnet18': 17 + 3, 'vgg_small': 6}
"""Convolutions of each full-precision counterpart, those of shortcuts last."""


OWN = {
    'resnet20_rebnn_100e': ('BinaryReActBlock', 'ReBNNWeight', 100, 128),
    'resnet20_rebnn_taught_40e': ('BinaryReActBlock', 'ReBNNWeight', 40, 128),
    'resnet20_rbnn_1000e': ('BinaryHardtanhBlock', 'RBNNWeight', 1000, 256),
    'resnet20_single_rbnn_1000e': ('BinarySingleShortcutBlock', 'RBNNWeight', 1000, 256),
    'resnet18_rbnn_1000e': ('BinarySingleShortcutBlock', 'RBNNWeight', 1000, 256),
    'vgg_small_rbnn_1000e': (None, 'RBNNWeight', 1000, 256),
    'resnet20_recu_600e': ('BinaryHardtanhBlock', 'ReCUWeight', 600, 256),
    'resnet18_recu_600e': ('BinarySingleShortcutBlock', 'ReCUWeight', 600, 256),
    'vgg_small_recu_600e': (None, 'ReCUWeight', 600, 256),
    'resnet20_rebnn_600e': ('BinaryHardtanhBlock', 'ReBNNWeight', 600, 256),
    'resnet20_single_bnn_250e': ('BinarySingleShortcutBlock', 'BNNWeight', 250, 128),
    'resnet20_dorefa_w4a32_200e': ('PlainCIFARBlock', 'DoReFaWeight', 200, 128),
    'resnet20_irnet_400e': ('BinaryHardtanhBlock', 'IRNetWeight', 400, 128),
    'resnet20_reste_1000e': ('BinaryReSTEBlock', 'ReSTEWeight', 1000, 256),
    'resnet20_single_reste_1000e': ('BinarySingleReSTEBlock', 'ReSTEWeight', 1000, 256),
    'resnet20_ovsw_600e': ('BinaryHardtanhBlock', 'OvSWWeight', 600, 256),
    'resnet18_siman_400e': ('BinarySingleShortcutBlock', 'SiMaNWeight', 400, 256),
    'resnet18_biper_stage1_600e': ('BinarySingleShortcutBlock', 'BiPerSine', 600, 256),
    'resnet18_biper_two_stage_300e': ('BinarySingleShortcutBlock', 'BiPerWeight', 300, 256),
}
"""Block, weight quantizer, epochs and batch of the methods' own recipes."""

BIPER = {'resnet18_biper_stage1_600e': (0.021, 1.6e-3), 'resnet18_biper_two_stage_300e': (0.0037, 1.6e-4)}
"""Rate and decay of its two stages."""

OTHER_RATES = {**BIPER, 'resnet20_rebnn_taught_40e': (0.03, 1e-4)}


@pytest.fixture(autouse=True)
def _scope_of_mmpretrain():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


def load(name: str, method: str = 'rebnn') -> Config:
    return read_chosen(f'METHOD={method} {name}.py', CONFIGS / 'cifar10')


def narrow(cfg: Config) -> Config:
    """An eighth of the channels."""
    backbone, head = cfg.model.backbone, cfg.model.head
    default = 128 if backbone.type == 'BinaryVGGSmall' else 64
    backbone.base_channels = backbone.get('base_channels', default) // 8
    head.in_channels //= 8
    return cfg


def built(cfg: Config) -> nn.Module:
    """With random weights, also those of a teacher."""
    torch.manual_seed(0)
    settings = {**cfg.model, 'data_preprocessor': {'type': 'ClsDataPreprocessor', **cfg.data_preprocessor}}
    if 'teacher' in settings:
        teacher = settings['teacher']
        network = Config.fromfile(ROOT / teacher).model if isinstance(teacher, str) else teacher
        random = dict(type='Kaiming', layer='Conv2d')
        settings |= dict(teacher={**network, 'init_cfg': random}, teacher_checkpoint=None)
    model = MODELS.build(settings)
    model.init_weights()
    return model


def learn_and_predict(model: nn.Module) -> None:
    """A gradient for every convolution, and scores that sum to one."""
    generator = torch.Generator().manual_seed(0)
    images = list(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=generator))
    samples = [DataSample().set_gt_label(label) for label in (0, 3, 6, 9)]
    batch = model.data_preprocessor(dict(inputs=images, data_samples=samples), training=True)
    model.parse_losses(model(**batch, mode='loss'))[0].backward()
    sizes = {name: conv.weight.grad.abs().sum().item() for name, conv in convolutions(model).items()}
    assert {name: size for name, size in sizes.items() if not 0 < size < float('inf')} == {}
    with torch.no_grad():
        scores = torch.stack([result.pred_score for result in model.eval()(batch['inputs'], mode='predict')])
    torch.testing.assert_close(scores.sum(dim=1), torch.ones(4))


def convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Conv2d)}


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize('method', LAYERS)
@pytest.mark.parametrize('network', NETWORKS)
def test_binary_network_learns_and_predicts(network, method):
    cfg = load(network, method)
    assert cfg.work_dir == f'work_dirs/{network}_{method}_cifar10'
    assert [hook.type for hook in cfg.custom_hooks] == ['ReBNNHook' if method == 'rebnn' else 'BinaryHook']
    model = built(narrow(cfg))
    binary = {n: m for n, m in convolutions(model).items() if isinstance(m, BinaryConv2d) and m.binary}
    assert {type(m).__name__ for m in binary.values()} == {LAYERS[method]}
    assert len(binary) == NETWORKS[network]
    assert {(m.weight_bits, m.activation_bits) for m in binary.values()} == {(4, 4) if 'w4a4' in method else (1, 1)}
    real = convolutions(model).keys() - binary.keys()
    assert 'backbone.conv1' in real and all('downsample' in n for n in real - {'backbone.conv1'})
    learn_and_predict(model)


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize('method', LAYERS)
def test_signs_of_methods_that_do_not_normalise_get_a_rate_that_moves_them(method):
    """Behind a normalisation the gradient halves where the weight doubles; OvSW and BiPer have rules of their own."""
    model = built(narrow(load('resnet20', method)))
    layer = next(m for m in convolutions(model).values() if isinstance(m, BinaryConv2d) and m.binary)
    start, direction = torch.randn(layer.weight.shape) * 0.01, torch.randn(layer.weight.shape)
    sizes = []
    for factor in (1, 2):
        weight = (factor * start).requires_grad_()
        (layer.weight_quantizer(weight) * direction).sum().backward()
        sizes.append(weight.grad.norm().item())
    plain = sizes[1] < 0.6 * sizes[0] or method in ('ovsw', 'biper')
    rates = dict(relative=False) if plain else dict(relative=True, lr_mult=10)
    for network in NETWORKS:
        roles = load(network, method).optim_wrapper.paramwise_cfg.roles
        assert roles.latent_weight == (dict(relative=False) if network == 'vgg_small' else rates), network


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize('name', OWN)
def test_own_recipe(name):
    block, quantizer, epochs, batch = OWN[name]
    cfg = load(f'own/{name}_cifar10')
    assert (cfg.train_cfg.max_epochs, cfg.train_dataloader.batch_size) == (epochs, batch)
    assert cfg.auto_scale_lr.base_batch_size == batch
    optimizer = cfg.optim_wrapper.optimizer
    if 'bnn_250e' in name:
        assert optimizer == dict(type='Adam', lr=5e-3)
    else:
        rate, decay = OTHER_RATES.get(name, (0.1, 5e-4 if '600e' in name or 'siman' in name else 1e-4))
        assert optimizer == dict(type='SGD', lr=rate, momentum=0.9, weight_decay=decay)
    schedule = cfg.param_scheduler
    assert (schedule if isinstance(schedule, dict) else schedule[-1]).get('end', epochs) == epochs
    model = built(narrow(cfg))
    binary = [m for m in convolutions(model).values() if isinstance(m, BinaryConv2d) and m.binary]
    assert {type(m.weight_quantizer).__name__ for m in binary} == {quantizer}
    if block:
        assert {type(m).__name__ for m in model.backbone.layer1} == {block}
    learn_and_predict(model)


@pytest.mark.parametrize(
    ('name', 'measured'), [('resnet20_rebnn_100e', 'full_sgd'), ('resnet20_rebnn_taught_40e', 'full_sgd_taught')]
)
def test_our_recipe_is_that_of_its_measured_run(name, measured):
    ours = load(f'own/{name}_cifar10')
    (run,) = read_experiment(ROOT / 'lab/experiments/cifar10_full.py').runs([0], [measured])
    measured = run.build_config(ROOT)
    for key in ('param_scheduler', 'data_preprocessor'):
        assert ours[key] == measured[key], key
    for part in ('type', 'backbone', 'neck', 'head', 'teacher_checkpoint'):
        assert ours.model.get(part) == measured.model.get(part), part
    for dataset in ('train_dataloader', 'val_dataloader'):
        assert ours[dataset].dataset == measured[dataset].dataset
    groups = []
    for cfg in (ours, measured):
        wrapper = {**cfg.optim_wrapper, 'type': 'OptimWrapper'}  # the run computes in bfloat16, by a fused kernel
        wrapper['optimizer'] = {**wrapper['optimizer'], 'fused': False}
        groups.append(
            [
                {key: value for key, value in group.items() if key != 'params'}
                for group in build_optim_wrapper(built(cfg), wrapper).optimizer.param_groups
            ]
        )
    assert groups[0] == groups[1]


def test_siman_has_no_decay_on_latent_weights():
    cfg = load('own/resnet18_siman_400e_cifar10')
    model = built(narrow(cfg))
    groups = build_optim_wrapper(model, cfg.optim_wrapper).optimizer.param_groups
    decays = {group['role']: group['weight_decay'] for group in groups}
    assert decays['latent weight'] == 0 and decays['rest'] == 5e-4


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
def test_second_stage_of_biper_takes_over_all_of_the_first():
    first, second = (built(narrow(load(f'own/{name}_cifar10'))) for name in BIPER)
    missing, unexpected = second.load_state_dict(first.state_dict(), strict=False)
    assert not missing and not unexpected
    binary = [m for m in convolutions(second).values() if isinstance(m, BinaryConv2d) and m.binary]
    quantizers = [m.weight_quantizer for m in binary]
    assert [(q.bits, q.omega.item(), q.penalty) for q in quantizers] == [(1, 20.0, 0.0468)] * 16
    start = load('own/resnet18_biper_two_stage_300e_cifar10').load_from
    assert start == 'work_dirs/resnet18_biper_stage1_600e_cifar10/epoch_600.pth'


@pytest.mark.parametrize('network', REAL)
def test_real_valued_twin_has_the_same_structure(network):
    cfg = load(f'{network}_real')
    assert 'custom_hooks' not in cfg
    model = built(narrow(cfg))
    assert {type(m) for m in convolutions(model).values()} == {nn.Conv2d}
    assert len(convolutions(model)) == REAL[network]
    twin = built(narrow(load(network, 'bireal')))
    shapes = {n: m.weight.shape for n, m in convolutions(model).items()}
    assert shapes == {n: m.weight.shape for n, m in convolutions(twin).items()}
    learn_and_predict(model)


@pytest.mark.parametrize('path', [*NETWORKS, 'cpu/resnet20'])
def test_methods_differ_in_the_method_only(path):
    """And in the rate of latent weights, of which there is a test of its own."""
    base = load(path, 'bireal').to_dict()
    for method in LAYERS:
        other = load(path, method).to_dict()
        assert base['work_dir'].replace('bireal', method) == other['work_dir']
        other.pop('normalizes', None)
        for key in ('binary', 'custom_hooks', 'work_dir'):
            other[key] = base[key]
        other['optim_wrapper']['paramwise_cfg'] = base['optim_wrapper']['paramwise_cfg']
        other['model']['backbone']['conv_cfg'] = base['model']['backbone']['conv_cfg']
        assert other == base


def test_cpu_budget_is_a_part_of_the_data_and_few_epochs():
    cfg = load('cpu/resnet20')
    assert (cfg.train_dataloader.dataset.indices, cfg.val_dataloader.dataset.indices) == (10000, 2000)
    assert cfg.train_cfg.max_epochs == cfg.param_scheduler.end <= 12
    assert cfg.train_cfg.max_epochs % cfg.train_cfg.val_interval == 0
    assert cfg.train_cfg.max_epochs % cfg.default_hooks.checkpoint.interval == 0
    assert cfg.test_dataloader == cfg.val_dataloader
    full = load('resnet20')
    assert 'indices' not in full.train_dataloader.dataset and 'indices' not in full.test_dataloader.dataset
    assert cfg.model == full.model
    assert (full.train_cfg.max_epochs, full.param_scheduler[-1].end) == (200, 200)
    assert full.param_scheduler[0].end == full.param_scheduler[1].begin


def test_pipeline_crops_inside_four_pixels_of_border_and_keeps_rgb(tmp_path):
    planes = np.full((5, 3, 32, 32), 9, np.uint8)
    planes[:, 0] = 200
    for number in range(1, 6):
        (tmp_path / f'data_batch_{number}').write_bytes(pickle.dumps(dict(data=planes.reshape(5, -1), labels=[4] * 5)))
    cfg = load('resnet20_real')
    options = {**cfg.train_dataloader.dataset, 'data_root': '', 'data_prefix': dict(root=str(tmp_path))}
    dataset = DATASETS.build(options)
    assert len(dataset) == 25
    for item in dataset:
        image = item['inputs']
        assert image.shape == (3, 32, 32) and item['data_samples'].gt_label.item() == 4
        red = image[0].numpy()
        assert set(np.unique(red)) <= {0, 200}
        assert (red.max(1) > 0).sum() >= 28 and (red.max(0) > 0).sum() >= 28
        assert set(np.unique(image[2])) <= {0, 9}
    assert not cfg.data_preprocessor.to_rgb


def test_no_config_is_forgotten():
    """Those of two-stage training have a test file of their own."""
    folder = CONFIGS / 'cifar10'
    named = {*NETWORKS, *(f'{network}_real' for network in REAL), 'cpu/resnet20', 'cpu/resnet20_real'}
    named |= {f'own/{name}_cifar10' for name in OWN}
    named |= {f'reference/{name}_cifar10' for name in ('resnet20_plain', 'resnet20_adabin')}
    named |= {f'{place}resnet20_{stage}' for place in ('', 'cpu/') for stage in ('stage1', 'two_stage')}
    assert {str(path.relative_to(folder).with_suffix('')) for path in folder.rglob('*.py')} == named


@pytest.mark.parametrize('name', ['reference/resnet20_plain_cifar10', 'reference/resnet20_adabin_cifar10'])
def test_reference_network_learns_and_predicts(name):
    model = built(load(name))
    binary = [type(m) is not nn.Conv2d for m in convolutions(model).values() if m.kernel_size != (1, 1)]
    assert binary == [False] + ['adabin' in name] * 18
    learn_and_predict(model)
