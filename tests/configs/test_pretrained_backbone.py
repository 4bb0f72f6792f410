"""A classifier's checkpoint as the start of the detector, as docs/models.md describes it."""

from pathlib import Path

import pytest
import torch
import torchvision
from mmengine.config import Config

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.models import ReBNNResNet

register_all_modules(init_default_scope=False)

CONFIG = Path(__file__).parents[2] / 'configs' / 'faster_rcnn_r18_rebnn_coco.py'


def detector_started_from(checkpoint: Path, **options: str) -> torch.nn.Module:
    cfg = Config.fromfile(CONFIG)
    for part in ('model.backbone', 'model.roi_head.shared_head'):
        cfg.merge_from_dict({f'{part}.init_cfg.checkpoint': str(checkpoint)})
        cfg.merge_from_dict({f'{part}.init_cfg.{key}': value for key, value in options.items()})
    model = MODELS.build(cfg.model)
    model.init_weights()
    return model


def stages(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**model.backbone.state_dict(), **model.roi_head.shared_head.state_dict()}


def test_binary_classifier_fills_backbone_and_shared_head_with_all_it_learned(tmp_path):
    classifier = ReBNNResNet(18)
    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.uniform_(0.1, 1.0)
    state = classifier.state_dict()
    saved = {f'backbone.{key}': value for key, value in state.items()}
    torch.save(dict(state_dict={**saved, 'head.fc.weight': torch.zeros(1000, 512)}), tmp_path / 'epoch_200.pth')
    filled = stages(detector_started_from(tmp_path / 'epoch_200.pth', prefix='backbone.'))
    assert filled.keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in filled.items())


def test_real_valued_classifier_fills_what_it_has_and_alpha_follows(tmp_path):
    state = torchvision.models.resnet18().state_dict()
    torch.save(state, tmp_path / 'resnet18.pth')
    filled = stages(detector_started_from(tmp_path / 'resnet18.pth'))
    assert all(torch.equal(filled[key], value) for key, value in state.items() if not key.startswith('fc.'))
    for name in ('layer1.0.conv1', 'layer4.1.conv2'):
        mean = state[f'{name}.weight'].abs().mean(dim=(1, 2, 3))
        torch.testing.assert_close(filled[f'{name}.weight_quantizer.alpha'], mean)
