"""The list of BiDet's SSD300 compared with the SSD300 of this project, where the two agree."""

from pathlib import Path

import pytest
from mmengine.config import Config

pytest.importorskip('mmdet')

from lab.paper_costs.bidet_ssd_cost import bidet_ssd_cost
from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.analysis.network_cost import network_cost

CONFIG = Path(__file__).parents[3] / 'configs' / 'voc' / 'ssd300_vgg16_bireal_voc.py'


def test_layers_that_ours_has_too():
    ours = network_cost(build_network(Config.fromfile(CONFIG)), (300, 300))
    listed = {layer.name: layer for layer in bidet_ssd_cost().layers}
    found = {layer.name: layer for layer in ours.layers if layer.weights}
    same = [f'backbone.conv{i}_{j}.conv' for i, j in ((1, 1), (1, 2), (2, 2), (3, 2), (3, 3), (4, 2), (4, 3), (5, 1))]
    same += ['backbone.conv6.conv', 'backbone.conv7.conv', 'backbone.pool4.conv']
    same += [f'neck.extra_layers.{i}.{j}.conv' for i in range(4) for j in range(2)]
    for name in same:
        assert (listed[name].macs, listed[name].weights) == (found[name].macs, found[name].weights), name
    heads = [layer.macs for layer in ours.layers if layer.name.startswith('bbox_head.')]
    assert sorted(heads) == sorted(layer.macs for layer in listed.values() if layer.name.startswith('bbox_head.'))


def test_strided_convolutions_widen_where_ours_do_not():
    listed = {layer.name: layer.weights for layer in bidet_ssd_cost().layers}
    assert listed['backbone.pool1.conv'] == 64 * 128 * 9
    assert listed['backbone.conv2_1.conv'] == 128 * 128 * 9


def test_classes_are_in_the_heads_only():
    more = sum(layer.weights for layer in bidet_ssd_cost(81).layers) - sum(
        x.weights for x in bidet_ssd_cost(21).layers
    )
    assert more == 60 * 9 * sum(width * anchors for width, anchors in zip(WIDTHS, ANCHORS, strict=True))


WIDTHS, ANCHORS = (512, 1024, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
