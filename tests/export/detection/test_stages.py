"""The traced parts compute what the detector computes, under the detector's names."""

import subprocess
import sys
import textwrap

import torch

from rebnn_mm.export.detection.stages import ImageStage, RegionStage, example_image, two_stage

from .detectors import DELTAS, RETINA_ANCHORS, image, narrow_fpn, of_config, one_stage


def test_two_stage_detector():
    model = of_config('faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn)
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
        from rebnn_mm.export.detection.stages import unsupported
        print(unsupported(nn.Conv2d(3, 8, 1)))
    """
    done = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == 'it is no detector of mmdet'
