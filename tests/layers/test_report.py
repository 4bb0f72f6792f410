from torch import nn

from rebnn_mm.layers import BinaryEmbedding, ReBNNConv2d, ReBNNLinear
from rebnn_mm.layers.report import layer_report, layer_rows


def net(**options):
    return nn.Sequential(
        ReBNNConv2d(3, 8, 3, **options),
        ReBNNConv2d(8, 8, 3, **options),
        ReBNNConv2d(8, 16, 1, 2, **options),
        ReBNNConv2d(16, 32, 1, **options),
        nn.Conv2d(32, 4, 1),
        ReBNNLinear(4, 2),
    )


def test_rows_say_what_is_real_and_why():
    rows = layer_rows(net())
    assert [(row.weight_bits, row.activation_bits, row.why) for row in rows] == [
        (32, 32, 'first layer (3 input channels)'),
        (1, 1, ''),
        (32, 32, 'shortcut (1x1, strided, widening)'),
        (1, 1, ''),
        (32, 32, 'made by its module, not through conv_cfg'),
        (1, 1, ''),
    ]
    assert [row.values for row in rows] == [216, 576, 128, 512, 128, 8]


def test_report_counts_and_names_what_may_be_a_shortcut():
    report = layer_report(net())
    assert '3 of 6 layers are binary; they hold 1,096 of 1,568 weights (69.9 %).' in report
    assert '1 binary 1x1 convolutions change the number of channels (3)' in report
    assert "keep_real=['downsample', 'NAME', ...]" in report


def test_named_shortcuts_end_the_question():
    assert 'keep_real' not in layer_report(net(keep_real=['9'])).splitlines()[-1]


def test_no_layers():
    assert layer_report(nn.ReLU()) == 'no convolution or linear layer'


def test_embeddings_are_rows_too():
    rows = layer_rows(nn.Sequential(BinaryEmbedding(10, 4), nn.Embedding(6, 4)))
    assert [(row.weight_bits, row.activation_bits, row.shape, row.why) for row in rows] == [
        (1, 32, (10, 4), ''),
        (32, 32, (6, 4), 'embedding'),
    ]
