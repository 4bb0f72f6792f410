"""A classifier's checkpoint as the start of the detector, as docs/models.md describes it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import save_checkpoint

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.models import BinaryResNet

register_all_modules(init_default_scope=False)

CONFIG = Path(__file__).parents[2] / 'configs' / 'coco/faster_rcnn_r18_rebnn_coco.py'


def detector_started_from(checkpoint: Path, block: str = 'react', **options: str) -> torch.nn.Module:
    cfg = Config.fromfile(CONFIG)
    for part in ('model.backbone', 'model.roi_head.shared_head'):
        cfg.merge_from_dict({f'{part}.block': block, f'{part}.init_cfg.checkpoint': str(checkpoint)})
        cfg.merge_from_dict({f'{part}.init_cfg.{key}': value for key, value in options.items()})
    model = MODELS.build(cfg.model)
    model.init_weights()
    return model


def stages(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**model.backbone.state_dict(), **model.roi_head.shared_head.state_dict()}


def with_learned_values(model: torch.nn.Module) -> torch.nn.Module:
    """No parameter where initialisation would put it."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(0.1, 1.0)
    return model


@pytest.mark.parametrize('block', ['react', 'bireal', 'hardtanh'])
def test_binary_classifier_fills_backbone_and_shared_head_with_all_it_learned(block, tmp_path):
    state = with_learned_values(BinaryResNet(18, block=block)).state_dict()
    saved = {f'backbone.{key}': value for key, value in state.items()}
    torch.save(dict(state_dict={**saved, 'head.fc.weight': torch.zeros(1000, 512)}), tmp_path / 'epoch_200.pth')
    filled = stages(detector_started_from(tmp_path / 'epoch_200.pth', block, prefix='backbone.'))
    assert filled.keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in filled.items())


def test_student_of_two_stage_training_fills_the_detector_without_its_teacher(tmp_path):
    pytest.importorskip('mmpretrain')
    from rebnn_mm.models.classification import TeacherStudentClassifier

    def classifier(width: int) -> dict[str, Any]:
        return dict(
            backbone=dict(type='BinaryResNet', depth=18, base_channels=width, out_indices=(3,)),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=10, in_channels=8 * width),
        )

    with DefaultScope.overwrite_default_scope('mmpretrain'):
        random = dict(type='Normal', layer='Conv2d')
        teacher = dict(type='ImageClassifier', **classifier(4), init_cfg=random)
        student = with_learned_values(TeacherStudentClassifier(**classifier(64), teacher=teacher))
    save_checkpoint(dict(state_dict=student.state_dict()), str(tmp_path / 'epoch_256.pth'))
    filled = stages(detector_started_from(tmp_path / 'epoch_256.pth', prefix='backbone.'))
    state = student.backbone.state_dict()
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
