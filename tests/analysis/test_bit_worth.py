import pytest
import torch
from mmengine.config import Config
from torch import nn

from rebnn_mm.analysis.bit_worth import Worth, keep_real, parts_of, proposal, with_real_weights
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryResNet


def network(**conv_cfg):
    return BinaryResNet(
        18, base_channels=8, num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,), conv_cfg=conv_cfg
    )


def test_layers_are_counted_by_stage_or_each_by_itself():
    model = nn.ModuleDict({'backbone': network(type='ReBNNConv2d')})
    parts = parts_of(model)
    assert list(parts) == ['backbone.layer1', 'backbone.layer2'] and [len(names) for names in parts.values()] == [4, 4]
    assert parts_of(model, each_layer=True) == {name: [name] for names in parts.values() for name in names}


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        ({}, ['downsample', 'shortcut', 'backbone.layer1.0.conv1']),
        ({'keep_real': ['neck']}, ['neck', 'backbone.layer1.0.conv1']),
        ({'keep_real': True}, ['downsample', 'shortcut', 'backbone.layer1.0.conv1']),
    ],
)
def test_a_named_layer_becomes_real_and_no_other(given, expected):
    conv_cfg = dict(type='ReBNNConv2d', **given)
    cfg = Config(dict(model=dict(type='X', heads=[dict(type='Y', conv_cfg=conv_cfg)])))
    keep_real(cfg, ['backbone.layer1.0.conv1'])
    assert cfg.model.heads[0].conv_cfg.keep_real == expected
    names = [name for name, layer in _binary(network(**cfg.model.heads[0].conv_cfg))]
    assert 'backbone.layer1.0.conv1' not in names and len(names) == 7


def test_binarized_models_take_names_themselves():
    cfg = Config(dict(model=dict(type='rebnn_mm.Binarized', real='X', conv=dict(type='ReBNNConv2d'))))
    keep_real(cfg, ['neck.fc'])
    assert cfg.model.keep_real == ['neck.fc'] and 'keep_real' not in cfg.model.conv


@pytest.mark.parametrize(
    ('model', 'message'),
    [
        (dict(type='X', conv_cfg=dict(type='Conv2d')), 'says nowhere which layers are binary'),
        (dict(conv_cfg=dict(type='ReBNNConv2d', keep_real=False)), 'keep_real=False of ReBNNConv2d'),
    ],
)
def test_what_cannot_stay_real_is_said(model, message):
    with pytest.raises(ValueError, match=message):
        keep_real(Config(dict(model=model)), ['a'])


def test_a_real_layer_starts_from_the_quantized_weights():
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {'neck': nn.Sequential(*[BinaryConv2d(4, 5, 3, activation='BinaryRSign') for _ in range(2)])}
    )
    state = with_real_weights(model.state_dict(), model, ['neck.1'])
    layer = model['neck'][1]
    assert torch.equal(state['neck.1.weight'], layer.weight_quantizer(layer.weight).detach())
    assert torch.equal(state['neck.0.weight'], model['neck'][0].weight)
    assert [key for key in state if 'quantizer' in key] == ['neck.0.activation_quantizer.shift']


def test_layers_without_codes_keep_what_they_multiply_with():
    model = nn.Sequential(BinaryConv2d(4, 4, 3, weight='AdaBinWeight', activation='AdaBinActivation'))
    state = with_real_weights(model.state_dict(), model, ['0'])
    assert torch.equal(state['0.weight'], model[0].weight_quantizer(model[0].weight).detach())
    assert all(len(filter.unique()) == 2 for filter in state['0.weight'])


def worth(part, gain, ms, megabytes):
    return Worth(part, 1, 1, gain, {'int8': ms}, {'int8': megabytes})


def test_the_proposal_brings_the_most_within_both_limits():
    parts = [worth('a', 3, 5, 1), worth('b', 2, 2, 3), worth('c', 2, 2, 1), worth('d', -1, -9, -9)]

    def names(**limits):
        return [w.part for w in proposal(parts, 'int8', **limits)]

    assert names() == ['a', 'b', 'c'] and names(ms=4) == ['b', 'c'] and names(ms=4, megabytes=2) == ['c']
    assert names(ms=5) == ['b', 'c'] and names(megabytes=2) == ['a', 'c'] and names(ms=1) == []
    alike = [worth('fast', 2, 2, 1), worth('slow', 2, 5, 1)]
    assert [w.part for each in (alike, alike[::-1]) for w in proposal(each, 'int8', megabytes=1)] == ['fast', 'fast']
    with pytest.raises(ValueError, match='17 parts gain something, more than 16'):
        proposal([worth(str(n), 1, 1, 1) for n in range(17)], 'int8')


def _binary(backbone):
    model = nn.ModuleDict({'backbone': backbone})
    return [(name, layer) for name, layer in model.named_modules() if isinstance(layer, BinaryConv2d) and layer.binary]
