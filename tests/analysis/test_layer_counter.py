"""Counts compared with counts by hand."""

import pytest
import torch
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.methods import BinaryPair, DoReFaConv2d, FDAConv2d, RBNNConv2d, ReActConv2d, ReBNNConv2d, ReBNNLinear


def counted(model, *shape):
    model.eval()
    return {layer.name: layer for layer in count_layers(model, lambda: model(torch.randn(shape)))}


def only(model, *shape):
    (layer,) = counted(model, *shape).values()
    return layer


def test_convolution():
    layer = only(nn.Conv2d(3, 8, 3, stride=2), 1, 3, 9, 11)
    assert layer.output == (1, 8, 4, 5)
    assert layer.macs == (8 * 3 * 9) * (4 * 5)
    assert (layer.weights, layer.bias, layer.scales, layer.vectors, layer.calls) == (216, 8, 0, 0, 1)
    assert (layer.values_in, layer.values_out) == (3 * 9 * 11, 8 * 4 * 5)


def test_grouped_binary_convolution():
    layer = only(ReBNNConv2d(8, 16, 3, padding=1, groups=4, bias=False), 1, 8, 5, 5)
    assert layer.macs == 16 * (8 // 4) * 9 * 25
    assert layer.precision == 'W1A1'
    # A factor per output channel, and the shift of each input channel that a layer outside of our blocks has.
    assert (layer.weights, layer.bias, layer.scales, layer.vectors) == (16 * 2 * 9, 0, 16, 8)


def test_transposed_convolution_counts_positions_of_the_input():
    layer = only(nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2, bias=False), 1, 6, 5, 5)
    assert layer.output == (1, 4, 10, 10)
    assert layer.macs == 6 * (4 // 2) * 4 * 25


def test_linear_layer_on_tokens():
    layer = only(ReBNNLinear(12, 5), 1, 7, 12)
    assert layer.macs == 12 * 5 * 7
    assert layer.precision == 'W1A1'


def test_a_shared_layer_counts_at_every_call_and_is_stored_once():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 1, bias=False)
            self.again = self.conv

        def forward(self, x):
            return self.again(self.conv(x)) + self.conv(x[..., ::2, ::2]).repeat(1, 1, 2, 2)

    layer = only(Shared(), 1, 4, 6, 6)
    assert layer.name == 'conv' and layer.calls == 3
    assert layer.macs == 16 * (36 + 36 + 9)
    assert layer.weights == 16


def test_tied_weights_are_stored_once_and_multiply_twice():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    first, second = counted(model, 1, 4).values()
    assert (first.weights, first.macs, second.weights, second.macs) == (16, 16, 0, 16)
    assert first.checkpoint_bytes + second.checkpoint_bytes == 4 * (16 + 4 + 4)


def test_products_of_activations_belong_to_the_module_that_runs():
    class Attention(nn.Module):
        def forward(self, x):
            return (x @ x.transpose(1, 2)).softmax(-1) @ x

    layer = only(Attention(), 1, 10, 6)
    assert (layer.kind, layer.precision, layer.weights) == ('Attention', 'W32A32', 0)
    assert layer.macs == 2 * 10 * 10 * 6


@pytest.mark.parametrize('tokens', [1, 9])
def test_torchs_attention(tokens):
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    macs = sum(layer.macs for layer in counted(model, 1, tokens, 8).values())
    projections, attention, feed_forward = 4 * 8 * 8 * tokens, 2 * tokens * tokens * 8, 2 * 8 * 16 * tokens
    assert macs == projections + attention + feed_forward


def test_deformable_convolution_of_mmcv():
    ops = pytest.importorskip('mmcv.ops')
    layers = counted(ops.ModulatedDeformConv2dPack(4, 6, 3, padding=1, deform_groups=1, bias=False), 1, 4, 5, 5)
    assert layers[''].macs == 6 * 4 * 9 * 25
    assert layers['conv_offset'].macs == 27 * 4 * 9 * 25


def test_what_a_weight_quantizer_computes_is_no_cost_of_a_prediction():
    layer = only(RBNNConv2d(8, 8, 3, bias=False), 1, 8, 5, 5)
    assert layer.macs == 8 * 8 * 9 * 9  # without the two rotations of every filter
    assert layer.scales == 8
    assert layer.checkpoint_bytes > 4 * 8 * 8 * 9  # with them


def test_parts_that_only_train_are_not_deployed():
    layer = only(FDAConv2d(8, 8, 3, bias=False), 1, 8, 5, 5)
    assert (layer.weights, layer.scales, layer.vectors) == (576, 8, 8)
    assert layer.parameters > 576 + 8


def test_bits_of_both_sides():
    assert only(DoReFaConv2d(8, 8, 3), 1, 8, 5, 5).precision == 'W4A4'
    real_weight = only(ReActConv2d(8, 8, 3, weight=None, bias=False), 1, 8, 5, 5)
    assert (real_weight.precision, real_weight.scales, real_weight.vectors) == ('W32A1', 0, 8)
    real_input = only(ReActConv2d(8, 8, 3, activation=None, bias=False), 1, 8, 5, 5)
    assert (real_input.precision, real_input.scales, real_input.vectors) == ('W1A32', 8, 0)


def test_weights_without_integer_codes_keep_two_levels_per_channel():
    layer = only(BinaryConv2d(8, 4, 3, weight='AdaBinWeight', activation='AdaBinActivation'), 1, 8, 5, 5)
    assert layer.scales == 2 * 4
    assert layer.vectors == 2  # the activation's two values per layer


@pytest.mark.parametrize(
    ('weight', 'scales'),
    [('BWNWeight', 1), (dict(type='TWNWeight', per='channel'), 6), (dict(type='QBERTWeight', groups=3), 6)],
)
def test_scales_that_channels_share_are_stored_once(weight, scales):
    layer = only(BinaryLinear(4, 6, weight=weight, activation='BinarySign'), 1, 4)
    assert layer.scales == scales


def test_both_halves_of_a_pair_count():
    pair = BinaryPair.split(BinaryLinear(4, 6, weight='BWNWeight', activation='BinarySign'))
    rows = counted(pair, 5, 4)
    assert {name: (row.weights, row.macs) for name, row in rows.items()} == {'first': (24, 120), 'second': (24, 120)}


def test_a_binary_layer_that_stays_real_says_why():
    layer = only(ReBNNConv2d(3, 8, 3), 1, 3, 5, 5)
    assert (layer.precision, layer.why, layer.scales) == ('W32A32', 'first layer (3 input channels)', 0)


def test_batch_norm_folds_four_vectors_into_two():
    layer = counted(nn.Sequential(nn.BatchNorm2d(6)), 1, 6, 4, 4)['0']
    assert (layer.vectors, layer.running, layer.values_out) == (12, 12, 96)
    assert layer.checkpoint_bytes == 4 * 4 * 6 + 8  # and the number of batches seen, in 64 bits
    without_affine = counted(nn.Sequential(nn.BatchNorm2d(6, affine=False)), 1, 6, 4, 4)['0']
    assert without_affine.vectors == 12


def test_sums_are_those_of_the_model():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), ReBNNConv2d(8, 8, 3), nn.PReLU(8), nn.Dropout())
    layers = counted(model, 1, 3, 9, 9).values()
    assert sum(layer.parameters for layer in layers) == sum(p.numel() for p in model.parameters())
    state = model.state_dict().values()
    assert sum(layer.checkpoint_bytes for layer in layers) == sum(v.numel() * v.element_size() for v in state)


def test_what_does_nothing_in_a_prediction_is_no_layer():
    model = nn.Sequential(nn.Identity(), nn.ReLU(), nn.Dropout(), nn.AvgPool2d(2))
    layers = counted(model, 1, 3, 4, 4)
    assert {name: layer.values_out for name, layer in layers.items()} == {'1': 48, '3': 12}


def test_a_layer_that_is_not_called_is_listed():
    class Auxiliary(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.used(x)

    layers = counted(Auxiliary(), 1, 4)
    assert (layers['unused'].calls, layers['unused'].macs, layers['unused'].weights) == (0, 0, 8)


def test_nothing_stays_on_the_model():
    model = nn.Sequential(nn.Conv2d(3, 8, 3))
    with pytest.raises(RuntimeError):
        counted(model, 1, 4, 9, 9)
    assert not model[0]._forward_hooks and not model[0]._forward_pre_hooks
    assert torch.backends.mha.get_fastpath_enabled()
