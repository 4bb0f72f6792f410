"""The rules of the paper's Tables 2 and 3 on the networks of this project's configs."""

from functools import cache
from pathlib import Path

import pytest
from mmengine.config import Config

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.paper_costs.rule import Rule
from lab.paper_costs.rules import RULES
from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost
from rebnn_mm.analysis.network_cost import network_cost

CONFIGS = Path(__file__).parents[3] / 'configs' / 'imagenet'
HALF_A_UNIT_OF_THE_FOURTH_DIGIT = 5e-4


@cache
def imagenet(name):
    return network_cost(build_network(Config.fromfile(CONFIGS / f'{name}_imagenet.py')), (224, 224))


# One of each block and of each kind of quantizer.
ONE_BIT = ['bnn', 'xnor', 'bireal', 'rbnn', 'rebnn', 'fda', 'rebnn_two_stage']


@pytest.mark.parametrize('method', ONE_BIT)
def test_1_bit_rows_of_table_2_count_the_same(method):
    cost, rule = imagenet(f'resnet18_{method}'), RULES['paper-imagenet']
    assert rule.size(cost) == pytest.approx(4.151, abs=HALF_A_UNIT_OF_THE_FOURTH_DIGIT)
    assert rule.ops(cost) == 137_793_536 + 1_676_279_808 / 64
    assert rule.ops(cost) / 1e8 == pytest.approx(1.640, abs=HALF_A_UNIT_OF_THE_FOURTH_DIGIT)
    assert Rule().ops(cost) == rule.ops(cost)


def test_resnet34_1_bit():
    cost, rule = imagenet('resnet34_rebnn'), RULES['paper-imagenet']
    assert rule.size(cost) == pytest.approx(5.414, abs=HALF_A_UNIT_OF_THE_FOURTH_DIGIT)
    assert rule.ops(cost) / 1e8 == pytest.approx(1.929, abs=HALF_A_UNIT_OF_THE_FOURTH_DIGIT)
    assert cost.bops == 3_525_967_872


@pytest.mark.parametrize(
    ('name', 'size', 'macs', 'torchstat'),
    [('resnet18', 46.758, 1_814_073_344, 18.2140), ('resnet34', 87.191, 3_663_761_408, 36.7422)],
)
def test_real_valued_resnet(name, size, macs, torchstat):
    """Convolutions and linear layer alone are 18.14e8 and 36.64e8; the printed numbers hold norms and ReLU, too."""
    cost, rule = imagenet(name), RULES['paper-imagenet-real']
    assert rule.size(cost) == pytest.approx(size, abs=HALF_A_UNIT_OF_THE_FOURTH_DIGIT)
    assert Rule().size(cost) == rule.size(cost)
    assert Rule().ops(cost) == cost.macs == macs
    assert rule.ops(cost) / 1e8 == pytest.approx(torchstat, abs=1e-4)


def test_what_the_honest_size_has_beyond_the_papers():
    """Factors, shifts, slopes and norms of the two-stage network: 28,352 values in 32 bits."""
    cost = imagenet('resnet18_rebnn_two_stage')
    factors, shifts, slopes, norms = 3840, 3392, 3 * 3840, 2 * 4800
    assert Rule().size(cost) - RULES['paper-imagenet'].size(cost) == pytest.approx(
        4e-6 * (factors + shifts + slopes + norms), rel=1e-9
    )


def test_a_detectors_rules_sort_layers_by_their_place():
    stem = LayerCost('backbone.conv1', 'Conv2d', weights=10, macs=640, calls=1)
    body = LayerCost('backbone.layer1.0.conv1', 'Conv2d', weights=10, macs=640, calls=1)
    norms = [LayerCost(f'{place}.bn', 'BatchNorm2d', calls=1, values_out=32) for place in ('backbone', 'roi_head')]
    rule = RULES['paper-faster-rcnn-1bit']
    assert [rule.layer_ops(x) for x in (stem, body, *norms)] == [640, 10, 64, 1]
    assert [RULES['paper-faster-rcnn-4bit'].layer_ops(x) for x in (stem, body)] == [640, 80]
    hidden = LayerCost('rpn_head.rpn_conv', 'Conv2d', weights=10, bias=4, macs=640, calls=1, values_out=100)
    assert rule.layer_ops(hidden) == 10 + 100


def test_units_and_names():
    assert Rule().unit == 'MB' and RULES['paper-faster-rcnn-1bit'].unit == 'MiB'
    one_mib = NetworkCost((LayerCost('x', 'Linear', weights=2**18, macs=1, calls=1),))
    assert RULES['paper-faster-rcnn-real'].size(one_mib) == 1.0
    assert all(rule.name == name and rule.about for name, rule in RULES.items())
