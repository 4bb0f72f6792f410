"""In plain ONNX Runtime detectors find what mmdet finds: whole ones at every size, single steps with random maps."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor
from mmdet.registry import MODELS
from mmdet.structures.bbox import bbox2roi
from mmengine.config import ConfigDict
from mmengine.registry import DefaultScope
from torch import Tensor

from rebnn_mm.export import apply_passes, pack
from rebnn_mm.export.detection.boxes import image_corners
from rebnn_mm.export.detection.heads import one_stage_detections, pool_regions, proposals, two_stage_detections
from rebnn_mm.export.detection.whole_graph import detector_graph
from rebnn_mm.export.difference import agreement
from rebnn_mm.export.passes import ChannelsLast, FuseBlocks

from .detectors import (
    DELTAS,
    DENSE_TEST,
    ONE_ANCHOR,
    RETINA_ANCHORS,
    computed,
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
DETECTORS = {
    'C4': lambda: of_config('coco/faster_rcnn_r18_bidet_coco', narrow_c4),
    'FPN': lambda: of_config('coco/faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn),
    'SSD300': lambda: of_config('coco/ssd300_vgg16_bidet_coco', narrow_ssd),
    'RetinaNet': lambda: one_stage(
        dict(type='RetinaHead', conv_cfg=BINARY, anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS)
    ),
    'towers': lambda: one_stage(
        dict(type='rebnn_mm.BinaryTowers', head='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS)
    ),
    'FCOS': lambda: one_stage(dict(type='FCOSHead', strides=[4, 8, 16], norm_cfg=dict(type='BN')), 'FCOS'),
}

# RetinaNet's head is that of the towers, without their shortcuts; test_verify.py compares an FPN with PyTorch, too.
OTHERS = ('FPN', 'RetinaNet', 'FCOS')


@pytest.fixture(
    scope='module',
    params=[pytest.param(name, marks=pytest.mark.slow if name in OTHERS else ()) for name in DETECTORS],
)
def exported(request):
    """Name, model and graph of a detector."""
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = DETECTORS[request.param]()
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
    fused = apply_passes(graph, FuseBlocks())
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


@pytest.mark.slow
def test_a_neck_that_enlarges_two_maps_alike():
    """RTMDet's doubles both by the same sizes, which the channels at the end turn once."""
    model = swapped('rtmdet/rtmdet_l_8xb32-300e_coco', narrow_csp)
    graph = apply_passes(detector_graph(pack(model).model), FuseBlocks())
    after = apply_passes(graph, ChannelsLast())
    assert {a.s for node in after.graph.node for a in node.attribute if a.name == 'layout'} == {b'NHWC'}
    assert sum(node.op_type == 'Resize' for node in after.graph.node) == 2
    feeds = dict(image=image(128, 96), valid_size=np.array([128, 96]))
    before, found = run(graph, **feeds), run(after, **feeds)
    assert len(before[0]) > 0
    assert agreement(tuple(before), tuple(found)).same


def narrow_yolox(model: Any) -> None:
    """A YOLOX whose neck is one convolution per level."""
    narrow_csp(model)
    model.neck = dict(type='ChannelMapper', in_channels=[32, 64, 128], out_channels=32, kernel_size=1)
    model.test_cfg.score_thr = 0.3


@pytest.mark.slow
def test_a_stem_that_cuts_the_image_into_squares():
    """YOLOX's first convolution takes 12 channels, and the file takes images of 3 and gives boxes."""
    model = swapped('yolox/yolox_s_8xb8-300e_coco', narrow_yolox)
    assert model.backbone.stem.conv.conv.real_because == 'first layer of the backbone (12 input channels)'
    graph = apply_passes(detector_graph(pack(model).model), FuseBlocks(), ChannelsLast())
    for size in ((64, 96), (128, 96)):
        wanted = predicted(model, image(*size), size)
        assert len(wanted[0]) >= 20
        assert agreement(wanted, tuple(run(graph, image=image(*size), valid_size=np.array(size)))).same


HEADS = {
    'retina': dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS),
    'softmax': dict(
        type='AnchorHead',
        anchor_generator=RETINA_ANCHORS,
        bbox_coder=DELTAS,
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False),
    ),
    'atss': dict(type='ATSSHead', norm_cfg=None, anchor_generator=ONE_ANCHOR, bbox_coder=DELTAS),
    'fcos': dict(type='FCOSHead', norm_cfg=None, strides=[4, 8, 16]),
    'gfl': dict(type='GFLHead', norm_cfg=None, reg_max=6, anchor_generator=ONE_ANCHOR),
    'yolox': dict(type='YOLOXHead', strides=[4, 8, 16]),
    'rtmdet': dict(
        type='RTMDetHead',
        norm_cfg=None,
        with_objectness=False,
        anchor_generator=dict(type='MlvlPointGenerator', offset=0, strides=[4, 8, 16]),
        bbox_coder=dict(type='DistancePointBBoxCoder'),
    ),
    'ssd': dict(
        type='rebnn_mm.FixedSSDHead',
        bbox_coder=DELTAS,
        anchor_generator=dict(
            type='SSDAnchorGenerator',
            scale_major=False,
            strides=[4, 8, 16],
            ratios=[[2], [2, 3], [2]],
            min_sizes=[8, 16, 32],
            max_sizes=[16, 32, 64],
        ),
    ),
}


def build(name: str, **test_cfg: Any) -> Any:
    channels: Any = dict(in_channels=(8, 8, 8)) if name == 'ssd' else dict(in_channels=8, feat_channels=8)
    cfg = ConfigDict({**DENSE_TEST, **test_cfg})
    return MODELS.build(dict(num_classes=3, test_cfg=cfg, **channels, **HEADS[name])).eval()


def random_maps(head: Any, height: int, width: int, seed: int = 0) -> list[Tensor]:
    """Maps of the head's shapes: logits of all levels, then boxes, then centre-ness if the head has it."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(-(-height // stride), -(-width // stride)) for stride in (4, 8, 16)]
    with torch.no_grad():
        kinds = head(tuple(torch.zeros(1, 8, *size) for size in sizes))
    maps = [[torch.randn(x.shape, generator=generator) for x in kind] for kind in kinds]
    if type(head).__name__ in ('FCOSHead', 'RTMDetHead'):  # distances
        maps[1] = [x.abs() * 10 for x in maps[1]]
    return [x for kind in maps for x in kind]


def both(head: Any, maps: list[Tensor], size: tuple[int, int]) -> tuple[tuple[np.ndarray, ...], list[np.ndarray]]:
    """mmdet's predictions and the graph's."""
    kinds = [maps[i : i + 3] for i in range(0, len(maps), 3)]
    (wanted,) = head.predict_by_feat(*kinds, batch_img_metas=[dict(img_shape=size)], rescale=False)

    def write(g, size, *values):
        by_level = [tuple(values[level::3]) for level in range(3)]
        return one_stage_detections(g, head, by_level, image_corners(g, size))

    found = computed(write, 'f2 f1 i1', torch.tensor(size), *maps)
    return (wanted.bboxes.numpy(), wanted.scores.numpy(), wanted.labels.numpy()), found


@pytest.mark.parametrize('name', HEADS)
def test_detections_are_those_of_mmdet(name):
    head = build(name)
    for size, padded in (((60, 90), (64, 96)), ((33, 40), (33, 40))):
        wanted, found = both(head, random_maps(head, *padded), size)
        assert len(wanted[0]) > 20
        assert len(set(wanted[2].tolist())) == 3
        assert agreement(wanted, tuple(found)).same
        assert (np.diff(found[1]) <= 0).all()


@pytest.mark.parametrize(
    'options',
    [
        dict(nms_pre=10),
        dict(min_bbox_size=12),
        dict(min_bbox_size=-1),
        dict(nms=None),
        dict(nms=dict(type='nms', iou_threshold=0.4, class_agnostic=True)),
        dict(score_thr=0.95),
        dict(max_per_img=7),
    ],
    ids=str,
)
def test_every_option_of_the_test_config_counts(options):
    head, plain = build('retina', **options), build('retina')
    maps = random_maps(head, 64, 96)
    wanted, found = both(head, maps, (64, 96))
    assert agreement(wanted, tuple(found)).same
    if options != dict(min_bbox_size=-1):
        assert not agreement(both(plain, maps, (64, 96))[0], tuple(found)).same


def test_no_detections():
    head = build('retina', score_thr=0.9999)
    wanted, found = both(head, random_maps(head, 64, 96), (64, 96))
    assert len(wanted[0]) == 0
    assert [x.shape for x in found] == [(0, 4), (0,), (0,)]


PIXELS = 1e-4
"""Tolerance of corners in pixels: exponentials differ in the last bit."""

POOLED = 1e-5
"""Tolerance of averages of up to some dozen interpolated values of size 1."""


def proposal_head(levels: int, **cfg: Any) -> Any:
    anchors = dict(type='AnchorGenerator', scales=[2, 4], ratios=[0.5, 1.0, 2.0], strides=[8, 16, 32][:levels])
    nms = dict(type='nms', iou_threshold=0.7)
    test_cfg = ConfigDict(dict(nms_pre=150, max_per_img=60, nms=nms, min_bbox_size=0) | cfg)
    return MODELS.build(dict(type='RPNHead', in_channels=4, anchor_generator=anchors, test_cfg=test_cfg)).eval()


@pytest.mark.parametrize('levels', [1, 3])
@pytest.mark.parametrize('options', [{}, dict(nms_pre=0, max_per_img=1000), dict(min_bbox_size=20)], ids=str)
def test_proposals_are_those_of_mmdet(levels, options):
    head = proposal_head(levels, **options)
    generator = torch.Generator().manual_seed(0)
    sizes = [(9, 12), (5, 6), (3, 3)][:levels]
    scores = [torch.randn(1, 6, *size, generator=generator) for size in sizes]
    deltas = [torch.randn(1, 24, *size, generator=generator) for size in sizes]
    (wanted,) = head.predict_by_feat(scores, deltas, batch_img_metas=[dict(img_shape=(70, 90))])

    def write(g, size, *maps):
        return proposals(g, head, [maps[i::levels] for i in range(levels)], image_corners(g, size))

    (found,) = computed(write, 'f2', torch.tensor([70, 90]), *scores, *deltas)
    assert len(wanted) >= 20
    torch.testing.assert_close(torch.from_numpy(found), wanted.bboxes, rtol=0, atol=PIXELS)


def extractor(levels: int, **roi_layer: Any) -> SingleRoIExtractor:
    layer = dict(type='RoIAlign', output_size=(3, 2), sampling_ratio=0) | roi_layer
    return SingleRoIExtractor(layer, out_channels=4, featmap_strides=[4, 8, 16][:levels], finest_scale=20)


def regions(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(count, 2, generator=generator) * 100
    return torch.cat([start, start + 1 + torch.rand(count, 2, generator=generator) ** 3 * 150], 1)


@pytest.mark.parametrize('levels', [1, 3])
@pytest.mark.parametrize('layer', [{}, dict(aligned=False), dict(sampling_ratio=2)], ids=str)
def test_pooled_regions_are_those_of_mmdet(levels, layer):
    of_mmdet = extractor(levels, **layer)
    generator = torch.Generator().manual_seed(1)
    features = [torch.randn(1, 4, 64 // 2**i, 48 // 2**i, generator=generator) for i in range(levels)]
    boxes = regions(80)
    # Sizes at which the level changes; 20 is the finest scale.
    boxes[:4, 2:] = boxes[:4, :2] + torch.tensor([[40.0, 40.0], [39.99, 40.0], [80.0, 80.0], [160.0, 40.0]])

    def write(g, boxes, *maps):
        return pool_regions(g, of_mmdet, list(maps), boxes)

    pooled, place = computed(write, 'f4 i1', boxes, *features)
    wanted = of_mmdet(features, bbox2roi([boxes]))
    used = of_mmdet.map_roi_levels(bbox2roi([boxes]), levels)
    assert used.unique().tolist() == list(range(levels))
    torch.testing.assert_close(torch.from_numpy(pooled[place]), wanted, rtol=0, atol=POOLED)


@pytest.mark.parametrize('levels', [1, 3])
def test_no_regions(levels):
    def write(g, boxes, *maps):
        return pool_regions(g, extractor(levels), list(maps), boxes)

    features = [torch.ones(1, 4, 8, 8)] * levels
    pooled, place = computed(write, 'f4 i1', torch.zeros(0, 4), *features)
    assert pooled.shape == (0, 4, 3, 2)
    assert place.shape == (0,)


@pytest.mark.parametrize('agnostic', [True, False])
@pytest.mark.parametrize('options', [{}, dict(score_thr=0.4), dict(max_per_img=-1), dict(score_thr=1.0)], ids=str)
def test_detections_of_regions_are_those_of_mmdet(agnostic, options):
    head: Any = MODELS.build(
        dict(type='BBoxHead', in_channels=4, num_classes=3, reg_class_agnostic=agnostic, bbox_coder=DELTAS)
    )
    nms = dict(type='nms', iou_threshold=0.5)
    cfg = ConfigDict(dict(score_thr=0.1, nms=nms, max_per_img=60) | options)
    generator = torch.Generator().manual_seed(0)
    boxes, logits = regions(100), torch.randn(100, 4, generator=generator) * 2
    deltas = torch.randn(100, 4 if agnostic else 12, generator=generator) * 3
    size = (150, 180)
    (wanted,) = head.predict_by_feat(
        (bbox2roi([boxes]),), (logits,), (deltas,), [dict(img_shape=size)], rcnn_test_cfg=cfg
    )

    def write(g, size, *values):
        return two_stage_detections(g, head, cfg, *values, image_corners(g, size))

    found = computed(write, 'f2 f1 i1', torch.tensor(size), boxes, logits, deltas)
    count = {'score_thr': 60 if options.get('score_thr') == 0.4 else 0}.get(next(iter(options), ''), 60)
    assert len(wanted) >= min(count, 30)
    assert agreement((wanted.bboxes.numpy(), wanted.scores.numpy(), wanted.labels.numpy()), tuple(found)).same
    assert (np.diff(found[1]) <= 0).all()
