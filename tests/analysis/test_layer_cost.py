import pytest

from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost, find_slow_packed_layers

REAL = LayerCost('real', 'Conv2d', weights=10, bias=2, macs=100, calls=1)
ONE_BIT = LayerCost('one', 'ReBNNConv2d', 1, 1, weights=20, scales=4, vectors=5, macs=200, calls=1)
FOUR_BIT = LayerCost('four', 'DoReFaConv2d', 4, 4, weights=30, scales=4, macs=300, calls=1)
HALF_REAL = LayerCost('half', 'ReActConv2d', 32, 1, weights=40, vectors=5, macs=400, calls=1)
NORM = LayerCost('norm', 'BatchNorm2d', vectors=8, running=8, calls=1, values_out=50)


def test_a_real_factor_on_either_side_makes_a_real_operation():
    network = NetworkCost((REAL, ONE_BIT, FOUR_BIT, HALF_REAL, NORM))
    assert network.macs == 1000
    assert network.bops == 200 * 1 + 300 * 16
    mixed = LayerCost('mixed', 'DoReFaConv2d', 1, 4, weights=30, scales=4, macs=300, calls=1)
    assert NetworkCost((mixed,)).bops == 300 * 4
    assert network.flops == 100 + 400
    assert network.macs_by_precision() == {'W32A32': 100, 'W1A1': 200, 'W4A4': 300, 'W32A1': 400}
    assert network.binary_share() == 0.2


def test_the_32_bit_network_has_no_quantizers():
    network = NetworkCost((REAL, ONE_BIT, HALF_REAL, NORM))
    assert network.float_bytes == 4 * (10 + 2 + 20 + 40 + 8)


def test_products_and_others():
    attention = LayerCost('attention', 'Attention', macs=5, calls=1)
    network = NetworkCost((REAL, NORM, attention))
    assert [layer.name for layer in network.products] == ['real', 'attention']
    assert network.others == [NORM]


def test_an_empty_network_has_no_share():
    assert NetworkCost(()).binary_share() == 0.0


def test_binary_layers_of_narrow_groups_are_named():
    def of(name, channels, bits=1):
        return LayerCost(name, 'ReBNNConv2d', bits, bits, weights=9, group_channels=channels)

    assert find_slow_packed_layers([REAL, ONE_BIT, of('wide', 32), of('real', 1, 32), of('whole', 0)]) == ''
    text = find_slow_packed_layers([of('wide', 64), of('a', 16)])
    assert (
        text.startswith('1 grouped binary layer is slower packed than real: a.') and 'sees 16 input channels' in text
    )
    text = find_slow_packed_layers(
        [of(name, channels) for name, channels in zip('abcdef', (1, 1, 2, 1, 4, 1), strict=True)]
    )
    assert 'real: a, b, c, d and 2 more.' in text and 'sees 1 to 4 input channels' in text


def layer(weight_bits, activation_bits, **facts):
    return LayerCost('x', 'Conv2d', weight_bits, activation_bits, weights=640, macs=6400, calls=1, **facts)


@pytest.mark.parametrize(
    ('bits', 'ops'),
    [((1, 1), 100), ((2, 2), 400), ((4, 4), 1600), ((2, 4), 800), ((8, 8), 6400), ((32, 1), 6400), ((1, 32), 6400)],
)
def test_operations_of_a_multiply_accumulate(bits, ops):
    assert layer(*bits).ops == ops


def test_bytes_of_a_layer():
    assert layer(1, 1, scales=8, vectors=4, bias=8).deployed_bytes == 640 / 8 + 4 * (8 + 4 + 8)
    assert layer(4, 4, scales=8).deployed_bytes == 640 / 2 + 4 * 8
    assert layer(32, 1, vectors=4).deployed_bytes == 4 * (640 + 4)
    norm = LayerCost('n', 'BatchNorm2d', vectors=16, running=16, calls=1, values_out=100)
    assert (norm.deployed_bytes, norm.ops) == (64, 0)
