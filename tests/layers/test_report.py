from functools import partial

import pytest
from mmengine.hub import get_config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from rebnn_mm.layers import BinaryEmbedding
from rebnn_mm.layers.report import layer_report, layer_rows
from rebnn_mm.methods import ReBNNConv2d, ReBNNLinear


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


def test_report_counts():
    report = layer_report(net())
    assert '3 of 6 layers are binary; they hold 1,096 of 1,568 weights (69.9 %).' in report
    assert 'keep them real' not in report  # what changes the number of channels in a chain is no shortcut


class Block(nn.Module):
    """A residual block, whose shortcut has a name that nobody knows."""

    def __init__(self, name, channels=(8, 8, 8, 32), skip=True, **options):
        super().__init__()
        sizes = zip(channels, channels[1:], (1, 3, 1) if len(channels) == 4 else (3,), strict=False)
        self.convs = nn.Sequential(*(ReBNNConv2d(*size, **options) for size in sizes))
        if skip:
            conv = nn.Conv2d if skip == 'real' else partial(ReBNNConv2d, **options)
            self.add_module(name, nn.Sequential(nn.AvgPool2d(1), conv(channels[0], channels[-1], 1)))


def test_report_names_what_may_be_a_shortcut():
    last = layer_report(nn.Sequential(Block('skip', (8, 4, 4, 32)), Block('side', (32, 16)))).splitlines()[-1]
    assert last.startswith('2 binary 1x1 convolutions run parallel to other layers, ')
    assert ': 0.skip.1, 1.side.1. ' in last
    assert last.endswith("keep_real=['downsample', 'shortcut', 'skip', 'side']).")


def test_a_list_that_leaves_out_the_default_is_asked_about():
    last = layer_report(nn.Sequential(Block('downsample', keep_real=['stem']))).splitlines()[-1]
    assert ': 0.downsample.1. ' in last
    assert last.endswith("keep_real=['downsample', 'shortcut', 'stem']).")


@pytest.mark.parametrize(
    'model',
    [
        Block('skip', (8, 4, 4, 32), keep_real=['skip']),
        Block('downsample'),
        Block('skip', keep_real=False),
        Block('skip', skip='real'),
        nn.Sequential(Block('skip', (32, 8, 8, 32), skip=False), Block('skip', (32, 8, 8, 32), skip=False)),
        nn.ModuleList([ReBNNConv2d(64, 32, 1), ReBNNConv2d(64, 32, 1)]),
    ],
    ids=['named', 'known name', 'switched off', 'real', 'bottlenecks', 'levels'],
)
def test_other_1x1_convolutions_raise_no_question(model):
    assert 'keep them real' not in layer_report(model)


@pytest.mark.parametrize('base', ['retinanet/retinanet_r50_fpn_1x_coco.py', 'yolox/yolox_s_8xb8-300e_coco.py'])
def test_stock_detectors_raise_no_question(base):
    pytest.importorskip('mmdet')
    cfg = get_config(f'mmdet::{base}').model
    with DefaultScope.overwrite_default_scope('mmdet'):
        parts = [dict(cfg[part], init_cfg=None, conv_cfg=dict(type='ReBNNConv2d')) for part in ('backbone', 'neck')]
        model = nn.Sequential(*map(MODELS.build, parts))
    rows = [row for row in layer_rows(model) if not row.why]
    assert [row for row in rows if row.shape[2:] == (1, 1) and row.shape[0] != row.shape[1]]
    assert [row.name for row in rows if row.shortcut] == []


def test_no_layers():
    assert layer_report(nn.ReLU()) == 'no convolution or linear layer'


def test_embeddings_are_rows_too():
    rows = layer_rows(nn.Sequential(BinaryEmbedding(10, 4), nn.Embedding(6, 4)))
    assert [(row.weight_bits, row.activation_bits, row.shape, row.why) for row in rows] == [
        (1, 32, (10, 4), ''),
        (32, 32, (6, 4), 'embedding'),
    ]
