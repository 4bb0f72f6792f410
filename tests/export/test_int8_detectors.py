"""Which layers of whole detectors become int8, and that their files still find the same objects."""

import pytest
from mmengine.registry import DefaultScope

pytest.importorskip('mmdet')

from rebnn_mm.deploy.session import library_available
from rebnn_mm.export.difference import difference_of
from rebnn_mm.export.examples import Image, feeds_of
from rebnn_mm.export.exporter import build_unfused_graph
from rebnn_mm.export.metadata import set_metadata
from rebnn_mm.export.options import PLAIN
from rebnn_mm.export.passes import passes_of
from rebnn_mm.export.passes.int8 import choose, plan_int8
from rebnn_mm.export.rewriting import apply_passes
from rebnn_mm.export.tasks import task_of
from tests.export.detection.detectors import image, narrow_c4, narrow_ssd, of_config

HEADS = {
    'coco/faster_rcnn_r18_rebnn_coco': {
        *('rpn_head.rpn_cls', 'rpn_head.rpn_reg', 'roi_head.bbox_head.fc_cls', 'roi_head.bbox_head.fc_reg')
    },
    'coco/ssd300_vgg16_rebnn_coco': {
        f'bbox_head.{kind}_convs.{level}.0' for kind in ('cls', 'reg') for level in range(6)
    },
}
NARROW = dict(zip(HEADS, (narrow_c4, narrow_ssd), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize('config', HEADS)
def test_a_detector_finds_the_same_with_int8_heads(config):
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = of_config(config, NARROW[config])
        task, size = task_of(model), (300, 300)
        traced, _ = build_unfused_graph(model, task, size)

    def made(plan=None):
        graph = apply_passes(traced, *passes_of(task, PLAIN, plan))
        set_metadata(graph, task.name)
        return graph

    exact = made()
    assert {choice.layer for choice in choose(exact, 'heads') if choice.int8} == HEADS[config]
    assert all('conv1' in choice.layer for choice in choose(exact, 'all') if not choice.int8)
    examples = [Image(image(*size, seed=seed).numpy(), size) for seed in (0, 1)]
    plan = plan_int8(exact, 'heads', [feeds_of(exact, example) for example in examples])
    found = difference_of(exact, made(plan), task, examples, option='--int8', library=library_available())
    # random heads tell some twenty objects with scores around the threshold
    assert all(image.missing <= 8 and image.extra <= 8 and image.iou > 0.5 for image in found.detections)
    assert 0 < found.difference < 0.2
