"""The checks of a device on the CPU, where they pass, and on what is wrong, which they refuse."""

from functools import partial

import mmcv.ops
import pytest
import torch
from torch import nn

from lab import device
from lab.device import layers, run_part, steps
from lab.device.cost import count_kept_bytes, step_cost
from lab.device.finding import Finding, differences
from lab.device.layers import check_layers, check_memory_modes, check_sums, compare_with_cpu
from lab.device.steps import check_steps, check_sync
from rebnn_mm.functional import bits
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.quantizers import MissingHookWarning, Values
from rebnn_mm.quantizers.shared import BinaryApproxSign

pytestmark = pytest.mark.filterwarnings('ignore', category=MissingHookWarning)


def failed(findings):
    return [finding for finding in findings if finding.state != 'passed']


def conv_with(activation: type) -> BinaryConv2d:
    torch.manual_seed(0)
    conv = BinaryConv2d(8, 6, 3, padding=1)
    conv.activation_quantizer = activation(8, -3)
    return conv


class AnotherLayout(BinaryApproxSign):
    values = Values('signs', sign_of='other')

    def quantize(self, x):
        return super().quantize(x if x.is_contiguous() else x.flip(0))


class RoundedInput(BinaryApproxSign):
    """Compares what autocast has rounded with a threshold."""

    values = Values('signs', sign_of='other')

    def quantize(self, x):
        return super().quantize(x.to(torch.get_autocast_dtype('cpu')).float() - 0.3 * torch.is_autocast_enabled('cpu'))


@pytest.mark.parametrize(
    ('activation', 'wrong'),
    [
        (BinaryApproxSign, []),
        (AnotherLayout, ['channels_last', 'channels_last, bfloat16']),
        (RoundedInput, ['channels_last, bfloat16', 'bfloat16', 'float16']),
    ],
)
def test_a_wrong_layer_is_refused_in_the_modes_in_which_it_is_wrong(activation, wrong):
    found = compare_with_cpu('layer', conv_with(activation), torch.randn(2, 8, 6, 5), 'cpu')
    assert {f.check.removeprefix('layer, ') for f in failed(found)} >= set(wrong)
    if activation is not RoundedInput:
        found = compare_with_cpu('layer', conv_with(activation), torch.randn(2, 8, 6, 5), 'cpu')
        assert [f.check.removeprefix('layer, ') for f in failed(found)] == wrong


def test_layers_and_quantizers_of_every_method_pass():
    found = list(check_layers('cpu'))
    assert failed(found) == [] and {'ReBNNConv2d, bfloat16', 'FDALinear, bfloat16'} <= {f.check for f in found}


def test_sums_that_are_no_integers_are_refused(monkeypatch):
    assert failed(check_sums('cpu')) == []
    monkeypatch.setattr(
        nn.Module, 'to', lambda self, device: self.register_forward_hook(lambda *a: a[2] * 1.001) and self
    )
    assert failed(check_sums('cpu')) == list(check_sums('cpu')) != []


def test_memory_modes_that_differ_by_a_bit_are_refused(monkeypatch):
    kept = layers.BLOCKS.module_dict
    monkeypatch.setattr(layers.BLOCKS, '_module_dict', {'react': kept['react']})
    assert failed(check_memory_modes('cpu')) == []
    outcome = layers.outcome

    def other(block, x, *args):
        result = outcome(block, x, *args)
        if block.conv1.memory == 'recompute':
            result['output'] *= 1 + 2.0**-23
        return result

    monkeypatch.setattr(layers, 'outcome', other)
    assert [f.check for f in failed(check_memory_modes('cpu'))] == [
        'react, recompute, float32',
        'react, recompute, bfloat16',
    ]


@pytest.mark.slow
def test_a_rule_that_sees_the_scale_of_the_loss_is_refused(monkeypatch):
    monkeypatch.setattr(steps, 'list_own', lambda base: ['XNORConv2d'])
    assert failed(check_steps('cpu')) == []
    unscale = torch.amp.GradScaler.unscale_

    def step(scaler, optimizer):
        unscale(scaler, optimizer)
        for group in optimizer.param_groups:
            for parameter in group['params']:
                parameter.grad.mul_(scaler.get_scale())
        optimizer.step()

    monkeypatch.setattr(torch.amp.GradScaler, 'step', step)
    wrong = [f.check for f in failed(check_steps('cpu'))]
    assert wrong[0] == 'the same with a scaled loss, gamma_bounds=None' and len(wrong) >= 5


class WaitingClassifier(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.head = nn.Linear(3, 10)

    def forward(self, x):
        y = self.head(x.mean(dim=(2, 3)))
        return y if y.sum() > 0 else -y


def test_a_step_that_waits_for_a_value_is_refused():
    assert all('waits for the device in _local_scalar_dense' in f.detail for f in check_sync('cpu', WaitingClassifier))


@pytest.mark.parametrize('value', [float('nan'), 1.001, float('inf')])
def test_differences(value):
    one = torch.ones(2)
    assert differences('a', dict(y=one, z=None), dict(y=one, z=None), 0.0).state == 'passed'
    assert differences('a', dict(y=one * value, z=one), dict(y=one, z=one), 1e-4).state == 'failed'
    assert 'is missing' in differences('a', dict(y=None), dict(y=one), 1.0).detail
    assert 'is missing' in differences('a', dict(y=one), dict(y=one[:1]), 1.0).detail


def test_wrong_bits_are_refused(monkeypatch):
    skipped, *found = run_part('bits', 'cpu')
    *checked, timed = found
    assert skipped.state == 'skipped' and checked and failed(checked) == [] and timed.state == 'measured'
    pack = bits.pack

    def wrong(x, what=bits.NEGATIVE):
        packed, layout = pack(x, what)
        return packed ^ (what == bits.WITHIN_ONE), layout

    monkeypatch.setattr(bits, 'pack', wrong)
    assert [f.check for f in run_part('bits', 'cpu') if f.state == 'failed'] == [f.check for f in checked]


def test_wrong_operators_of_detectors_are_refused(monkeypatch):
    *found, focal = run_part('ops', 'cpu')
    assert found and not failed(found) and focal.state == 'skipped'
    nms = mmcv.ops.nms
    monkeypatch.setattr(mmcv.ops, 'nms', lambda boxes, scores, threshold: nms(boxes, scores, threshold + 0.01))
    monkeypatch.setattr(mmcv.ops, 'RoIAlign', partial(mmcv.ops.RoIAlign, pool_mode='max'))
    wrong = {f.check for f in failed(run_part('ops', 'cpu'))}
    assert wrong >= {f.check for f in found if f.check.startswith(('NMS, ', 'RoIAlign'))} >= {'NMS, 0.3', 'NMS, 0.5'}


def test_an_error_is_a_finding(monkeypatch):
    def broken(kind):
        yield Finding('first', 'passed')
        raise RuntimeError('CUDA error: an illegal memory access\nand more')

    monkeypatch.setitem(device.PARTS, 'layers', broken)
    first, last = run_part('layers', 'cpu')
    assert first.state == 'passed'
    assert last == Finding('layers', 'failed', 'RuntimeError: CUDA error: an illegal memory access')


def test_costs():
    layer = nn.Linear(4, 4, bias=False)
    x = torch.randn(8, 4)
    assert count_kept_bytes(lambda: layer(x).exp(), iter(layer.parameters())) == 2 * 8 * 4 * 4
    cost = step_cost(layer, lambda: layer(x).square().sum(), 'cpu', rounds=2)
    assert set(cost) == {'ms', 'kept MiB'} and cost['ms'] > 0


@pytest.mark.slow
@pytest.mark.parametrize('part', ['memory', 'steps', 'compile', 'encoder'])
def test_the_other_parts_pass_on_a_cpu(part):
    assert [f for f in run_part(part, 'cpu') if f.state not in ('passed', 'measured')] == []
