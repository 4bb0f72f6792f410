import math

import pytest
import torch
from mmengine.optim import CosineAnnealingLR, LinearLR, MultiStepLR, PolyLR
from mmengine.optim.scheduler import CosineRestartLR
from torch import nn

from rebnn_mm.engine import BinaryOptimWrapperConstructor
from rebnn_mm.engine.optim_constructor import apply_relative_rates
from rebnn_mm.layers import RPReLU
from rebnn_mm.methods import BNNLinear, ReBNNConv2d
from tests.engine.small_runner import SmallClassifier, log_text, trained


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.conv = ReBNNConv2d(8, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.act = RPReLU(8)
        self.prelu = nn.PReLU(8)
        self.tied = self.stem


def groups(paramwise=None, optimizer=None, model=None):
    optimizer = optimizer or {'type': 'SGD', 'lr': 0.1, 'weight_decay': 0.01}
    wrapper = BinaryOptimWrapperConstructor({'optimizer': optimizer}, paramwise)(model or Net())
    return wrapper.optimizer.param_groups


def test_one_group_per_role_without_decay_where_it_harms():
    model = Net()
    found = groups(model=model)
    # The first group's rate is the one that mmengine logs.
    assert [(g['role'], len(g['params']), g['weight_decay']) for g in found] == [
        ('rest', 3, 0.01),
        ('norm', 2, 0.0),
        ('shift and slope', 5, 0.0),
        ('scaling factor', 1, 0.0),
        ('latent weight', 1, 0.01),
    ]
    assert found[4]['params'][0] is model.conv.weight and found[3]['params'][0] is model.conv.alpha
    assert sum(len(g['params']) for g in found) == len(list(model.parameters()))


def test_custom_keys_win():
    found = groups({'custom_keys': {'alpha': {'decay_mult': 1.0, 'lr_mult': 0.1}, 'stem': {'lr_mult': 2.0}}})
    by_role = {g['role']: g for g in found if g['role'] != 'rest'}
    assert by_role['scaling factor']['weight_decay'] == 0.01
    assert by_role['scaling factor']['lr'] == pytest.approx(0.01)
    assert [g['lr'] for g in found if g['role'] == 'rest'] == pytest.approx([0.2, 0.1])


def test_norm_decay_mult_of_the_user_is_kept():
    found = groups({'norm_decay_mult': 0.5})
    assert next(g for g in found if g['role'] == 'norm')['weight_decay'] == pytest.approx(0.005)


def test_decay_that_is_an_optimizers_default_is_dropped_too():
    found = groups(optimizer={'type': 'AdamW', 'lr': 0.1})
    decay = {g['role']: g['weight_decay'] for g in found}
    assert (
        decay['scaling factor'] == 0.0
        and decay['latent weight'] == torch.optim.AdamW([torch.zeros(1)]).defaults['weight_decay']
    )


def test_optimizer_without_weight_decay_gets_none():
    found = groups(optimizer={'type': 'LBFGS', 'lr': 0.1}, model=nn.Linear(2, 2))
    assert 'weight_decay' not in found[0]


@pytest.mark.parametrize('name', ['latent weight', 'latent_weight'])
def test_options_by_role(name):
    roles = {name: {'lr_mult': 4, 'decay_mult': 0.5}, 'norm': {'lr_mult': 0.5}}
    by_role = {g['role']: g for g in groups({'roles': roles})}
    assert by_role['latent weight']['lr'] == pytest.approx(0.4)
    assert by_role['latent weight']['weight_decay'] == pytest.approx(0.005)
    assert by_role['norm']['lr'] == pytest.approx(0.05) and by_role['norm']['weight_decay'] == 0
    assert by_role['scaling factor']['lr'] == 0.1


def test_custom_keys_win_over_roles():
    paramwise = {'roles': {'latent_weight': {'lr_mult': 4}}, 'custom_keys': {'conv.weight': {'lr_mult': 2}}}
    group = next(g for g in groups(paramwise) if g['role'] == 'latent weight')
    assert group['lr'] == pytest.approx(0.2)


def test_a_custom_key_leaves_to_the_roles_what_it_does_not_name():
    found = {g['role']: g for g in groups({'custom_keys': {'conv': {'lr_mult': 0.5}}})}
    assert found['latent weight']['lr'] == pytest.approx(0.05) and found['latent weight']['relative']
    assert found['scaling factor']['lr'] == pytest.approx(0.05) and found['scaling factor']['weight_decay'] == 0
    paramwise = {'roles': {'latent_weight': {'decay_mult': 3}}, 'custom_keys': {'conv.weight': {'relative': False}}}
    latent = next(g for g in groups(paramwise) if g['role'] == 'latent weight')
    assert not latent['relative'] and latent['weight_decay'] == pytest.approx(0.03)


def test_factors_of_mmengine_win_over_roles():
    rest = {'rest': {'lr_mult': 0.5, 'decay_mult': 0.5}, 'norm': {'decay_mult': 1.0}}
    found = groups({'bias_lr_mult': 2.0, 'bias_decay_mult': 0.0, 'norm_decay_mult': 0.0, 'roles': rest})
    biases, weights = sorted((g for g in found if g['role'] == 'rest'), key=lambda g: g['weight_decay'])
    assert (biases['lr'], biases['weight_decay']) == (pytest.approx(0.2), 0)
    assert (weights['lr'], weights['weight_decay']) == (pytest.approx(0.05), pytest.approx(0.005))
    assert {g['weight_decay'] for g in found if g['role'] == 'norm'} == {0}


@pytest.mark.parametrize(
    ('roles', 'message'),
    [
        ({'latent': {'lr_mult': 4}}, "no role 'latent'. Did you mean 'latent weight'"),
        ({'latent_weight': {'lr_mul': 4}}, "no option 'lr_mul'. Did you mean 'lr_mult'"),
        ({'norm': {'relative': True}}, "no option 'relative'"),
        ({'latent_weight': 4}, 'is to be a dict of dicts'),
        ('latent_weight', 'is to be a dict of dicts'),
        ({'latent_weight': {'lr_mult': '4'}}, "has lr_mult='4'; it is to be a number"),
    ],
)
def test_unknown_roles_and_options_are_named(roles, message):
    with pytest.raises(ValueError, match=message):
        groups({'roles': roles})


@pytest.mark.parametrize(
    ('option', 'message'),
    [
        ({'rols': {}}, "no option 'rols'. Did you mean 'roles'"),
        ({'decay_rate': 0.7, 'num_layers': 12}, "no option 'decay_rate'.*_delete_=True"),
    ],
)
def test_options_that_nobody_reads_are_named(option, message):
    with pytest.raises(ValueError, match=message):
        groups(option)


def two_layers():
    model = nn.Sequential(ReBNNConv2d(8, 8, 3, bias=False), ReBNNConv2d(8, 8, 3, bias=False))
    for conv, magnitude in zip(model, (0.02, 0.2), strict=True):
        conv.weight.data = torch.full_like(conv.weight, magnitude)
    return model


def test_an_optimizer_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="^no optimizer 'AdmaW' is registered. Did you mean 'AdamW'"):
        BinaryOptimWrapperConstructor(dict(optimizer=dict(type='AdmaW', lr=1e-3)))
    with pytest.raises(ValueError, match=r'lr_mult multiplies optimizer.lr, which is not given'):
        BinaryOptimWrapperConstructor(dict(optimizer=dict(type='Adam')), dict(roles=dict(norm=dict(lr_mult=2))))


def test_rates_follow_with_a_scheduler_that_remembers_none():
    from mmengine.optim import OptimWrapper, ReduceOnPlateauLR

    weight = nn.Parameter(torch.tensor([0.125, -0.0625]))
    optimizer = torch.optim.SGD([dict(params=[weight], relative=True)], lr=0.1)
    scheduler = ReduceOnPlateauLR(OptimWrapper(optimizer), monitor='loss', factor=0.5, patience=0, min_value=0.025)
    assert apply_relative_rates(optimizer, [scheduler]) == (0.9375, 0.9375)
    rates = []
    for loss in (1.0, 2.0, 3.0, 4.0):
        scheduler.step(dict(loss=loss))
        rates.append(optimizer.param_groups[0]['lr'] / 0.9375)
    assert rates == [1, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ('kind', 'length'),
    [(CosineAnnealingLR, dict(T_max=8)), (CosineRestartLR, dict(periods=[8, 8], restart_weights=[1, 1]))],
)
def test_a_cosine_falls_to_one_share_of_every_rate(kind, length):
    wrapper = BinaryOptimWrapperConstructor({'optimizer': {'type': 'AdamW', 'lr': 0.004}})(two_layers())
    scheduler = kind(wrapper, eta_min=2e-4, by_epoch=False, **length)
    rates = apply_relative_rates(wrapper.optimizer, [scheduler])
    wide = torch.tensor([group['lr'] for group in wrapper.optimizer.param_groups])
    assert rates == pytest.approx((0.008, 0.08))
    for _ in range(7):
        wrapper.optimizer.step()
        scheduler.step()
    narrow = torch.tensor([group['lr'] for group in wrapper.optimizer.param_groups])
    assert narrow / wide == pytest.approx([0.05 + 0.95 * (1 + math.cos(math.pi * 7 / 8)) / 2] * len(wide))


@pytest.mark.parametrize('lr_mult', [1, 4])
def test_a_polynomial_falls_to_one_share_of_every_rate(lr_mult):
    roles = dict(roles=dict(norm=dict(lr_mult=lr_mult), rest=dict(lr_mult=lr_mult)))
    wrapper = BinaryOptimWrapperConstructor({'optimizer': {'type': 'AdamW', 'lr': 0.004}}, roles)(two_layers())
    scheduler = PolyLR(wrapper, eta_min=1e-3, power=2, by_epoch=False, end=8)
    apply_relative_rates(wrapper.optimizer, [scheduler])
    wide = torch.tensor([group['lr'] for group in wrapper.optimizer.param_groups])
    shares = []
    for _ in range(8):
        wrapper.optimizer.step()
        scheduler.step()
        shares.append(torch.tensor([group['lr'] for group in wrapper.optimizer.param_groups]) / wide)
    assert shares[-1] == pytest.approx([0.25] * len(wide))
    assert shares[3] == pytest.approx([0.25 + 0.75 * (3 / 7) ** 2] * len(wide))


def test_rates_follow_the_magnitude_of_each_layer_once():
    wrapper = BinaryOptimWrapperConstructor({'optimizer': {'type': 'SGD', 'lr': 0.1}})(two_layers())
    scheduler = MultiStepLR(wrapper, milestones=[2], gamma=0.1, by_epoch=False)
    assert apply_relative_rates(wrapper.optimizer, [scheduler]) == pytest.approx((0.2, 2.0))
    assert apply_relative_rates(wrapper.optimizer, [scheduler]) is None
    rates = [[g['lr'] for g in wrapper.optimizer.param_groups if g['role'] == 'latent weight']]
    for _ in range(2):
        wrapper.step()
        scheduler.step()
        rates.append([g['lr'] for g in wrapper.optimizer.param_groups if g['role'] == 'latent weight'])
    assert rates == [pytest.approx(row) for row in ([0.2, 2.0], [0.2, 2.0], [0.02, 0.2])]
    assert wrapper.optimizer.param_groups[0]['lr'] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ('optimizer', 'rates'),
    [
        (dict(type='Adam', lr=0.1), (0.05, 0.05)),
        (dict(type='AdamW', lr=0.01), (0.02, 0.05)),
        (dict(type='SGD', lr=0.1), (0.2, 2.0)),
    ],
)
def test_in_a_long_training_adam_does_not_carry_weights_away(optimizer, rates):
    wrapper = BinaryOptimWrapperConstructor({'optimizer': optimizer})(two_layers())
    scheduler = LinearLR(wrapper, start_factor=0.1, by_epoch=False, end=10)
    assert apply_relative_rates(wrapper.optimizer, [scheduler], steps=100) == pytest.approx(rates)
    latent = [g for g in wrapper.optimizer.param_groups if g['role'] == 'latent weight']
    assert [g['lr'] for g in latent] == pytest.approx([0.1 * rate for rate in rates])
    for _ in range(9):
        wrapper.step()
        scheduler.step()
    assert [g['lr'] for g in latent] == pytest.approx(rates)


@pytest.mark.parametrize('counts', [1, 2])
def test_the_hook_knows_how_many_steps_a_training_has(tmp_path, counts):
    model = SmallClassifier()
    model.conv1.weight.data.fill_(1.0)
    wrapper = dict(type='OptimWrapper', accumulative_counts=counts, optimizer=dict(type='Adam', lr=0.1))
    runner = trained(tmp_path / 'run', model, optim_wrapper=wrapper, epochs=4)
    (group,) = (g for g in runner.optim_wrapper.optimizer.param_groups if g['params'][0] is model.conv1.weight)
    assert group['lr'] == pytest.approx(0.5 / (16 / counts) ** 0.5)


def test_rates_that_need_not_follow_are_kept():
    paramwise = {'roles': {'latent_weight': {'relative': False, 'lr_mult': 3}}}
    wrapper = BinaryOptimWrapperConstructor({'optimizer': {'type': 'SGD', 'lr': 0.1}}, paramwise)(two_layers())
    assert apply_relative_rates(wrapper.optimizer) is None
    assert [g['lr'] for g in wrapper.optimizer.param_groups if g['role'] == 'latent weight'] == pytest.approx([0.3])


def test_weights_that_are_all_zero_keep_the_rate():
    model = ReBNNConv2d(8, 8, 3, bias=False)
    model.weight.data.zero_()
    wrapper = BinaryOptimWrapperConstructor({'optimizer': {'type': 'SGD', 'lr': 0.1}})(model)
    assert apply_relative_rates(wrapper.optimizer) == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize('optimizer', [{'type': 'SGD', 'lr': 0.1}, {'type': 'Adam', 'lr': 1e-3}])
def test_signs_do_not_depend_on_the_scale_of_the_start(optimizer):
    """BNN's weights have no scale: with latent weights a hundred times as large the network computes the same."""
    signs = []
    for scale in (1.0, 100.0):
        torch.manual_seed(0)
        model = nn.Sequential(BNNLinear(16, 32, bias=False), nn.BatchNorm1d(32), nn.Linear(32, 1)).double()
        model[0].weight.data *= scale * 0.01
        wrapper = BinaryOptimWrapperConstructor({'optimizer': optimizer})(model)
        apply_relative_rates(wrapper.optimizer)
        x = torch.randn(64, 16, dtype=torch.float64)
        for _ in range(30):
            model(x).sub(x[:, :1]).square().mean().backward()
            wrapper.optimizer.step()
            wrapper.optimizer.zero_grad()
        signs.append(model[0].weight < 0)
    assert torch.equal(*signs)


@pytest.mark.parametrize(
    'scheduler',
    [
        dict(type='LinearLR', by_epoch=False, start_factor=1.0, end_factor=0.1, end=16),
        dict(type='PolyLR', by_epoch=False, eta_min=0.01, end=16),
        dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.01, end=16),
    ],
    ids=lambda scheduler: scheduler['type'],
)
def test_a_resumed_run_keeps_its_rates(tmp_path, scheduler):
    whole = trained(tmp_path / 'whole', epochs=4, param_scheduler=scheduler)
    trained(tmp_path / 'parts', epochs=2, param_scheduler=scheduler)
    resumed = trained(tmp_path / 'parts', epochs=4, resume=True, param_scheduler=scheduler)
    rates = [
        [(g['lr'], g['initial_lr']) for g in runner.optim_wrapper.optimizer.param_groups]
        for runner in (whole, resumed)
    ]
    assert rates[0] == rates[1]
    start = SmallClassifier().conv1.weight.abs().mean().item()
    assert rates[0][-1][1] / 0.05 == pytest.approx(start / 0.01, rel=0.2)
    assert 'latent weights train at rates of' in log_text(tmp_path / 'whole')


def test_frozen_parameters_stay_out():
    model = Net()
    model.conv.requires_grad_(False)
    assert 'latent weight' not in {g['role'] for g in groups(model=model)}


def test_one_log_line_per_group(caplog):
    from mmengine.logging import MMLogger

    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        found = groups()
    finally:
        logger.removeHandler(caplog.handler)
    lines = [record.getMessage() for record in caplog.records if 'optimizer group' in record.getMessage()]
    assert len(lines) == len(found)
    assert lines[-1] == (
        "optimizer group 'latent weight': 1 parameters, 576 values, lr 0.1, weight_decay 0.01, times mean(abs(w)) / "
        '0.01 of each layer when training starts'
    )
