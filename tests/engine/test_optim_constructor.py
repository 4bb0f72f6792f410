import pytest
import torch
from torch import nn

from rebnn_mm.engine import ReBNNOptimWrapperConstructor
from rebnn_mm.layers import BinaryRPReLU, ReBNNConv2d


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.conv = ReBNNConv2d(8, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.act = BinaryRPReLU(8)
        self.prelu = nn.PReLU(8)
        self.tied = self.stem


def groups(paramwise=None, optimizer=None, model=None):
    optimizer = optimizer or {'type': 'SGD', 'lr': 0.1, 'weight_decay': 0.01}
    wrapper = ReBNNOptimWrapperConstructor({'optimizer': optimizer}, paramwise)(model or Net())
    return wrapper.optimizer.param_groups


def test_one_group_per_role_without_decay_where_it_harms():
    model = Net()
    found = groups(model=model)
    assert [(g['role'], len(g['params']), g['weight_decay']) for g in found] == [
        ('latent weight', 1, 0.01),
        ('scaling factor', 1, 0.0),
        ('shift and slope', 5, 0.0),
        ('norm', 2, 0.0),
        ('rest', 3, 0.01),
    ]
    assert found[0]['params'][0] is model.conv.weight and found[1]['params'][0] is model.conv.alpha
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
    assert lines[0] == "optimizer group 'latent weight': 1 parameters, 576 values, lr 0.1, weight_decay 0.01"
