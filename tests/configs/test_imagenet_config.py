import pytest
import torch
from torch import nn

pytest.importorskip('mmpretrain')

from mmengine.registry import DefaultScope
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample
from mmpretrain.utils import register_all_modules

register_all_modules(init_default_scope=False)


def test_classifier_trains_a_step_and_predicts(load_config):
    torch.manual_seed(0)
    cfg = load_config('resnet18_rebnn_imagenet')
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(
            {**cfg.model, 'data_preprocessor': {'type': 'ClsDataPreprocessor', **cfg.data_preprocessor}}
        )
        model.init_weights()
        images = list(torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8))
        samples = [DataSample().set_gt_label(label) for label in (0, 999)]
        batch = model.data_preprocessor(dict(inputs=images, data_samples=samples), training=True)
        model(**batch, mode='loss')['loss'].backward()
        scores = model.eval()(batch['inputs'], mode='predict')
    convs = {n: m for n, m in model.named_modules() if isinstance(m, nn.Conv2d)}
    binary = {n: m for n, m in convs.items() if type(m) is not nn.Conv2d}
    assert len(convs) - len(binary) == 4  # stem and three shortcuts
    assert all(m.binary and m.weight.grad.abs().sum() > 0 for m in binary.values())
    assert [s.pred_score.shape for s in scores] == [(1000,), (1000,)]


def test_one_stage_schedule_of_the_paper(load_config):
    cfg = load_config('resnet18_rebnn_imagenet')
    options = {key: value for key, value in cfg.optim_wrapper.optimizer.items() if key != '_scope_'}
    assert options == dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=0.0001)
    assert cfg.optim_wrapper.constructor == 'ReBNNOptimWrapperConstructor'
    assert cfg.train_cfg.max_epochs == 200
    assert (cfg.param_scheduler.type, cfg.param_scheduler.T_max) == ('CosineAnnealingLR', 200)
    assert [hook.type for hook in cfg.custom_hooks] == ['ReBNNHook']
