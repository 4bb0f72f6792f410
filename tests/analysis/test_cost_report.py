import json

import pytest

from rebnn_mm.analysis.cost_report import cost_dict, cost_table
from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost

NETWORK = NetworkCost(
    (
        LayerCost(
            'stem', 'Conv2d', why='first', parameters=432, weights=432, macs=10**6, calls=1, checkpoint_bytes=1728
        ),
        LayerCost(
            'conv', 'ReBNNConv2d', 1, 1, parameters=8016, weights=8000, scales=16, macs=64 * 10**6, calls=5,
            output=(1, 16, 4, 4), checkpoint_bytes=32128,
        ),
        LayerCost('spare', 'Linear', parameters=10, weights=10, checkpoint_bytes=40),
        LayerCost('norm1', 'BatchNorm2d', parameters=16, vectors=16, calls=1, values_out=100, checkpoint_bytes=136),
        LayerCost('norm2', 'BatchNorm2d', parameters=16, vectors=16, calls=1, values_out=100, checkpoint_bytes=136),
        LayerCost('relu', 'ReLU', calls=1, values_out=100),
    ),
    (8, 8),
    7,
)  # fmt: skip


def test_totals():
    total = cost_dict(NETWORK, 'somewhere')['total']
    assert total['macs_by_precision'] == {'W32A32': 10**6, 'W1A1': 64 * 10**6}
    assert (total['bops'], total['flops'], total['ops']) == (64 * 10**6, 10**6, 2 * 10**6)
    assert total['macs_per_op'] == 32.5
    assert total['binary_share_of_macs'] == 64 / 65
    assert total['parameters'] == 432 + 8016 + 10 + 32
    assert total['checkpoint_bytes'] == 1728 + 32128 + 40 + 272
    assert total['deployed_bytes'] == 4 * (432 + 16 + 10 + 32) + 8000 / 8
    assert total['float_bytes'] == 4 * (432 + 8000 + 10 + 32)
    assert total['compression'] == total['float_bytes'] / total['deployed_bytes']
    assert total['values_through_other_layers'] == 300


def test_layers_add_up_to_the_total():
    cost = cost_dict(NETWORK)
    for key in ('parameters', 'macs', 'bops', 'flops', 'ops', 'checkpoint_bytes'):
        assert sum(layer[key] for layer in cost['layers']) == pytest.approx(cost['total'][key])


def test_the_dict_is_what_json_holds():
    cost = cost_dict(NETWORK, 'x')
    assert json.loads(json.dumps(cost)) == cost


def test_table_keeps_names_whole_without_a_terminal_and_folds_them_in_a_narrow_one():
    wide = cost_table(NETWORK, 'somewhere')
    assert 'input:         8x8 (somewhere)' in wide
    assert 'not called:    1 layers, counted as deployed: spare' in wide
    assert '65.00 M: W32A32 1.00 M (1.5%), W1A1 64.00 M (98.5%); binary (1-1): 98.5%' in wide
    conv = next(line for line in wide.splitlines() if line.startswith('conv'))
    assert conv.split() == [
        'conv',
        '1/1',
        '16x4x4',
        '8,016',
        '64.00',
        '64.00',
        '0.00',
        '1.00',
        '32.1',
        '1.1',
        'called',
        '5',
        'times',
    ]
    rows = [line.split()[0] for line in wide.partition('\n\n')[0].splitlines()[1:]]
    assert rows == ['stem', 'conv', 'spare', '2', 'total']
    assert 'regions:       7 per image in the second stage' in wide
    table = cost_table(NETWORK, width=100).split('\n\n')[0]
    assert max(map(len, table.splitlines())) <= 100
