"""What the honest rule counts."""

import pytest

from rebnn_mm.analysis.layer_cost import LayerCost
from rebnn_mm.analysis.rules import RULES, Rule


def layer(weight_bits, activation_bits, **facts):
    return LayerCost('x', 'Conv2d', weight_bits, activation_bits, weights=640, macs=6400, calls=1, **facts)


@pytest.mark.parametrize(
    ('bits', 'ops'),
    [((1, 1), 100), ((2, 2), 400), ((4, 4), 1600), ((2, 4), 800), ((8, 8), 6400), ((32, 1), 6400), ((1, 32), 6400)],
)
def test_operations_of_a_multiply_accumulate(bits, ops):
    assert Rule().layer_ops(layer(*bits)) == ops


def test_bytes_of_a_layer():
    assert Rule().layer_bytes(layer(1, 1, scales=8, vectors=4, bias=8)) == 640 / 8 + 4 * (8 + 4 + 8)
    assert Rule().layer_bytes(layer(4, 4, scales=8)) == 640 / 2 + 4 * 8
    assert Rule().layer_bytes(layer(32, 1, vectors=4)) == 4 * (640 + 4)
    norm = LayerCost('n', 'BatchNorm2d', vectors=16, running=16, calls=1, values_out=100)
    assert (Rule().layer_bytes(norm), Rule().layer_ops(norm)) == (64, 0)


def test_names():
    assert all(rule.name == name and rule.about for name, rule in RULES.items())
