"""The binary VGG-16 as a classifier, and its checkpoint as the start of SSD."""

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

import mmdet.registry
import mmdet.utils
import mmpretrain.registry
import mmpretrain.utils
from mmpretrain.structures import DataSample

from .ssd import narrow

mmdet.utils.register_all_modules(init_default_scope=False)
mmpretrain.utils.register_all_modules(init_default_scope=False)


@pytest.fixture
def classifier(load_config) -> nn.Module:
    torch.manual_seed(0)
    cfg = load_config('pretrain/vgg16_rebnn_imagenet')
    cfg.model.backbone.base_channels = 4
    cfg.model.head.in_channels = 64
    preprocessor = {'type': 'ClsDataPreprocessor', **cfg.data_preprocessor}
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = mmpretrain.registry.MODELS.build({**cfg.model, 'data_preprocessor': preprocessor})
        model.init_weights()
    return model


def test_classifier_trains_a_step_and_predicts(classifier):
    images = list(torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8))
    samples = [DataSample().set_gt_label(label) for label in (0, 999)]
    batch = classifier.data_preprocessor(dict(inputs=images, data_samples=samples), training=True)
    classifier(**batch, mode='loss')['loss'].backward()
    weights = {n: m.weight for n, m in classifier.named_modules() if isinstance(m, nn.Conv2d)}
    assert all(weight.grad.abs().sum() > 0 for weight in weights.values())
    scores = classifier.eval()(batch['inputs'], mode='predict')
    assert [score.pred_score.shape for score in scores] == [(1000,), (1000,)]


def test_detector_starts_with_all_that_the_classifier_learned(classifier, load_config, tmp_path):
    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.uniform_(0.1, 1.0)
    torch.save(dict(state_dict=classifier.state_dict()), tmp_path / 'epoch_200.pth')
    cfg = narrow(load_config('coco/ssd300_vgg16_rebnn_coco'))
    cfg.model.backbone.init_cfg = dict(
        type='Pretrained', checkpoint=str(tmp_path / 'epoch_200.pth'), prefix='backbone.'
    )
    detector = mmdet.registry.MODELS.build(cfg.model)
    detector.init_weights()
    filled, learned = detector.backbone.state_dict(), classifier.backbone.state_dict()
    assert filled.keys() == learned.keys()
    assert all(torch.equal(value, learned[key]) for key, value in filled.items())
