import torch
from torch import nn

from rebnn_mm import plan_binary, plan_table
from tests.models.networks import CONV, IMAGE, LINEAR, Network

REASONS = {
    'stem.conv': 'first layer',
    'hidden.conv': '',
    'short': 'shortcut',
    'depthwise': 'depthwise',
    'point': '',
    'up': 'ConvTranspose2d has no binary form',
    'normed': 'ParametrizedConv2d computes something of its own',
    'spare': 'not called',
    'fc': '',
    'head': 'output layer',
}


def real_because(model, *args, **options):
    return {row.name: row.real_because for row in plan_binary(model, *args, example=IMAGE, **options)}


def test_every_rule_keeps_what_it_says():
    found = real_because(Network(), CONV, LINEAR)
    found['normed'] = found['normed'] and REASONS['normed']  # torch decides which of two reasons comes first
    assert found == REASONS
    assert real_because(Network(), None, LINEAR) == {'fc': '', 'head': 'output layer'}
    assert set(real_because(Network(), CONV)) == REASONS.keys() - {'fc', 'head'}


def test_the_table_names_what_starves():
    def network(act):
        return nn.Sequential(nn.Conv2d(3, 4, 1), act(), nn.Conv2d(4, 4, 1), act(), nn.Conv2d(4, 2, 1))

    assert 'after a ReLU' not in plan_table(plan_binary(network(nn.Hardtanh), CONV, example=IMAGE))
    table = plan_table(plan_binary(network(nn.ReLU), CONV, example=IMAGE))
    assert '2      4x4x1x1  binary, after a ReLU' in table and '1 layers become binary after a ReLU' in table


def test_gates_and_attention_of_torchvision():
    from torchvision.models import mobilenet_v3_small, vit_b_16

    plan = plan_binary(mobilenet_v3_small(), CONV, LINEAR, example=torch.zeros(1, 3, 32, 32))
    gates = [row for row in plan if row.name.endswith('block.2.fc2') or row.name.endswith('block.1.fc2')]
    assert gates and {row.real_because for row in gates} == {'output layer'}
    small = vit_b_16(image_size=32)
    small.encoder.layers = small.encoder.layers[:1]
    because = {
        row.name: row.real_because for row in plan_binary(small, CONV, LINEAR, example=torch.zeros(1, 3, 32, 32))
    }
    assert because == {
        'conv_proj': 'first layer',
        'encoder.layers.encoder_layer_0.self_attention': 'MultiheadAttention has no binary form',
        'encoder.layers.encoder_layer_0.self_attention.out_proj': 'its weight is used by a function outside of it',
        'encoder.layers.encoder_layer_0.mlp.0': '',
        'encoder.layers.encoder_layer_0.mlp.3': '',
        'heads.head': 'output layer',
    }
