"""Whole detectors: the graph in plain ONNX Runtime finds what mmdet finds, at every image size."""

from collections import Counter

import numpy as np
import onnx
import pytest
from torch import nn

from rebnn_mm.export import channels_last, fuse, pack
from rebnn_mm.export.detection import detector_graph
from rebnn_mm.export.difference import agreement

from .detectors import (
    DELTAS,
    RETINA_ANCHORS,
    image,
    narrow_c4,
    narrow_csp,
    narrow_fpn,
    narrow_ssd,
    of_config,
    one_stage,
    predicted,
    run,
    swapped,
)

BINARY = dict(type='ReBNNConv2d')
MODELS = {
    'C4': lambda: of_config('faster_rcnn_r18_bidet_coco', narrow_c4),
    'FPN': lambda: of_config('faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn),
    'SSD300': lambda: of_config('ssd300_vgg16_bidet_coco', narrow_ssd),
    'RetinaNet': lambda: one_stage(
        dict(type='RetinaHead', conv_cfg=BINARY, anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS)
    ),
    'FCOS': lambda: one_stage(dict(type='FCOSHead', strides=[4, 8, 16], norm_cfg=dict(type='BN')), 'FCOS'),
}


@pytest.fixture(scope='module', params=MODELS)
def exported(request):
    """Name, model and graph of a detector."""
    from mmengine.registry import DefaultScope

    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS[request.param]()
        return request.param, model, detector_graph(pack(model).model)


def sizes(name: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Sizes of padded images and of what is valid in them."""
    return [((300, 300), (300, 300))] if name == 'SSD300' else [((192, 224), (190, 217)), ((128, 96), (128, 96))]


def test_the_same_detections_at_every_size(exported):
    name, model, graph = exported
    for (height, width), valid in sizes(name):
        x = image(height, width)
        wanted = predicted(model, x, valid)
        assert len(wanted[0]) >= 20
        assert len(set(wanted[2].tolist())) > 1
        found = run(graph, image=x, valid_size=np.array(valid))
        result = agreement(wanted, tuple(found))
        assert result.same, result
        assert (np.diff(found[1]) <= 0).all()
        assert found[0][:, 2].max() <= valid[1]
        assert found[0][:, 3].max() <= valid[0]


def test_fusion_changes_nothing(exported):
    name, _, graph = exported
    (height, width), valid = sizes(name)[0]
    feeds = dict(image=image(height, width), valid_size=np.array(valid))
    fused = fuse(graph)
    assert len(fused.graph.node) < len(graph.graph.node)
    for a, b in zip(run(graph, **feeds), run(fused, **feeds), strict=True):
        np.testing.assert_array_equal(a, b)


def test_inputs_and_outputs_are_those_of_the_format(exported):
    _, _, graph = exported
    described = {
        value.name: (
            value.type.tensor_type.elem_type,
            [d.dim_value or d.dim_param for d in value.type.tensor_type.shape.dim],
        )
        for value in [*graph.graph.input, *graph.graph.output]
    }
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    assert described == {
        'image': (real, [1, 3, 'height', 'width']),
        'valid_size': (whole, [2]),
        'boxes': (real, ['detections', 4]),
        'scores': (real, ['detections']),
        'labels': (whole, ['detections']),
    }
    assert [(entry.domain, entry.version) for entry in graph.opset_import] == [('', 18), ('rebnn', 1)]


def test_every_binary_layer_is_one_operator_with_its_name(exported):
    _, model, graph = exported
    layers = pack(model).packed
    used = Counter(node.name.split('/')[0] for node in graph.graph.node if node.domain == 'rebnn')
    assert set(used) == set(layers)
    assert len(layers) > 10
    operators = Counter(node.op_type for node in graph.graph.node)
    assert operators['NonMaxSuppression'] == (2 if 'RoiAlign' in operators else 1)


def test_a_neck_that_enlarges_two_maps_alike():
    """RTMDet's doubles both by the same sizes, which the channels at the end turn once."""
    model = swapped('rtmdet/rtmdet_l_8xb32-300e_coco', narrow_csp)
    graph = fuse(detector_graph(pack(model).model))
    after = channels_last(graph)
    assert {a.s for node in after.graph.node for a in node.attribute if a.name == 'layout'} == {b'NHWC'}
    assert sum(node.op_type == 'Resize' for node in after.graph.node) == 2
    feeds = dict(image=image(128, 96), valid_size=np.array([128, 96]))
    before, found = run(graph, **feeds), run(after, **feeds)
    assert len(before[0]) > 0
    assert agreement(tuple(before), tuple(found)).same


def test_what_has_no_graph_is_refused_with_its_reason():
    with pytest.raises(ValueError, match='Sequential cannot be exported with boxes as outputs: it is no detector'):
        detector_graph(nn.Sequential(nn.Conv2d(3, 8, 1)))
