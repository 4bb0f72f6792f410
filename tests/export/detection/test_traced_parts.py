"""The traced parts compute what the detector computes; models without a graph give what their heads give."""

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rebnn_mm.export import pack
from rebnn_mm.export.detection import explain_unsupported
from rebnn_mm.export.detection.traced_parts import ImageStage, RegionStage, example_image, raw_graph, two_stage

from .detectors import (
    DELTAS,
    ONE_ANCHOR,
    RETINA_ANCHORS,
    image,
    narrow_c4,
    narrow_fpn,
    of_config,
    one_stage,
    run,
)


def test_two_stage_detector():
    model = of_config('coco/faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn)
    assert two_stage(model)
    x = image(64, 96)
    with torch.no_grad():
        maps, features = ImageStage(model)(x)
        expected = model.extract_feat(x)
        scores, boxes = model.rpn_head(expected)
        regions = torch.randn(4, 16, 7, 7)
        logits, deltas = RegionStage(model)(regions)
        of_head = model.roi_head.bbox_head(regions)
    assert all(torch.equal(a, b) for a, b in zip(maps, [*scores, *boxes], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(features, expected, strict=True))
    assert torch.equal(logits, of_head[0])
    assert torch.equal(deltas, of_head[1])
    names = {name for stage in (ImageStage(model), RegionStage(model)) for name, _ in stage.named_parameters()}
    assert names == {name for name, _ in model.named_parameters()}


def test_one_stage_detector():
    model = one_stage(dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS))
    assert not two_stage(model)
    x = image(64, 96)
    with torch.no_grad():
        maps, features = ImageStage(model)(x)
        scores, boxes = model(x)
    assert features == ()
    assert all(torch.equal(a, b) for a, b in zip(maps, [*scores, *boxes], strict=True))


def test_example_has_the_channels_that_the_first_convolution_wants():
    channels = {
        1: torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(1, 8, 3)),
        3: torch.nn.Sequential(torch.nn.PixelUnshuffle(2), torch.nn.Conv2d(12, 8, 3)),
        12: torch.nn.Conv2d(12, 8, 3),
    }
    for count, model in channels.items():
        assert example_image(model).shape[1] == count
        assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert example_image(torch.nn.Linear(3, 2)).shape[1] == 3


@pytest.mark.slow
def test_is_answered_where_mmdet_is_not_installed():
    code = """
        import sys
        from importlib.abc import MetaPathFinder

        class WithoutMmdet(MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split('.')[0] == 'mmdet':
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, WithoutMmdet())
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == 'mmdet' else found(name, *rest)
        from torch import nn
        from rebnn_mm.export.detection import explain_unsupported
        print(explain_unsupported(nn.Conv2d(3, 8, 1)))
    """
    done = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == 'it is not a detector of mmdet'


MAPS = 1e-4
"""Tolerance of maps of size 1 after a dozen layers, of which one rounds differently."""


def short_c4(model: Any) -> None:
    """A C4 detector with one stage in its backbone."""
    narrow_c4(model)
    model.backbone.update(num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,))
    model.rpn_head.update(in_channels=8)
    model.rpn_head.anchor_generator.strides = [4]


@pytest.mark.slow
def test_one_stage_head_of_another_kind():
    model = one_stage(dict(type='PAAHead', anchor_generator=ONE_ANCHOR, norm_cfg=dict(type='BN')), 'PAA')
    assert 'PAAHead has a predict_by_feat of its own' in explain_unsupported(model)
    graph = raw_graph(pack(model).model, image(64, 96))
    names = [f'output_{kind}_{level}' for kind in range(3) for level in range(3)]
    assert [value.name for value in graph.graph.output] == names
    for size in ((64, 96), (80, 56)):
        x = torch.cat([image(*size, seed) for seed in range(2)])
        with torch.no_grad():
            wanted = [level for kind in model(x) for level in kind]
        for found, expected in zip(run(graph, image=x), wanted, strict=True):
            assert expected.std() > 100 * MAPS
            np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=MAPS)


def test_second_stage_that_is_not_supported_is_left_out():
    model = of_config('coco/faster_rcnn_r18_rebnn_coco', short_c4)
    model.roi_head.mask_head = nn.Identity()
    graph = raw_graph(pack(model).model, image(64, 96))
    assert [value.name for value in graph.graph.output] == ['output_0_0', 'output_0_1', 'output_1_0']
    x = image(64, 96)
    with torch.no_grad():
        (feature,) = model.extract_feat(x)
        (score,), (box,) = model.rpn_head((feature,))
    for found, expected in zip(run(graph, image=x), (score, box, feature), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=MAPS)
    assert not any(node.name.startswith('roi_head') for node in graph.graph.node)


def test_a_model_that_needs_more_than_the_image_is_refused():
    with pytest.raises(ValueError, match='Bilinear gives no output for an image alone'):
        raw_graph(nn.Bilinear(3, 3, 1), image(64, 96))


def test_a_model_of_one_size_is_traced_at_it():
    class Whole(nn.Module):
        """As a transformer for images: it takes patches of one size of image."""

        def forward(self, x):
            if x.shape[2:] != (24, 16):
                raise ValueError('not my size')
            return x.flatten(2).mean(2)

    with pytest.raises(
        ValueError,
        match='Whole gives no output for an image alone: not my size. Export a module whose forward takes images',
    ):
        raw_graph(Whole(), image(64, 96))
    graph = raw_graph(Whole(), torch.zeros(1, 3, 24, 16))
    dims = [dim.dim_value for dim in graph.graph.input[0].type.tensor_type.shape.dim]
    assert dims[2:] == [24, 16] and not dims[0]
    x = np.random.default_rng(0).normal(size=(3, 3, 24, 16)).astype(np.float32)
    np.testing.assert_allclose(run(graph, image=x)[0], x.reshape(3, 3, -1).mean(2), rtol=0, atol=1e-6)


def test_an_output_that_is_no_tensor_is_named():
    class Texts(nn.Module):
        def forward(self, x):
            return x, 'text'

    with pytest.raises(ValueError, match='Texts gives a str as output_1'):
        raw_graph(Texts(), image(64, 96))


def test_a_whole_torchvision_detector_is_refused_with_what_to_export():
    detection = pytest.importorskip('torchvision.models.detection')
    detector = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=2).eval()
    with pytest.raises(ValueError, match=r'^SSD gives a dict as output_0, .* its backbone and head \(docs/plain_pyt'):
        raw_graph(detector, image(64, 96))
