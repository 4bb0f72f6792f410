"""A folder of classes teaches a backbone, from which a detector of the same blocks starts."""

from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

import mmdet.registry
import mmdet.utils

mmdet.utils.register_all_modules(init_default_scope=False)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three classes, told apart by their channel."""
    rng = np.random.default_rng(0)
    for split in ('train', 'val'):
        for label in range(3):
            for number in range(4):
                image = rng.integers(0, 60, (64, 64, 3), dtype=np.uint8)
                image[..., label] += 190
                mmcv.imwrite(image, str(tmp_path / 'classes' / split / f'class{label}' / f'{number}.png'))
    return tmp_path / 'classes'


def trained(cfg: Config, folder: Path, work_dir: Path) -> tuple[dict[str, torch.Tensor], float]:
    """The weights after six epochs at a constant rate, and their accuracy."""
    for loader in (cfg.train_dataloader, cfg.val_dataloader):
        loader.dataset.data_root = str(folder)
        loader.batch_size = 6
    cfg.test_dataloader, cfg.test_evaluator, cfg.test_cfg = None, None, None
    cfg.model.head.num_classes = 3
    cfg.param_scheduler = None
    cfg.train_cfg = dict(by_epoch=True, max_epochs=6, val_interval=6)
    cfg.randomness = dict(seed=0)
    cfg.work_dir = str(work_dir)
    runner = Runner.from_cfg(cfg)
    runner.train()
    return runner.model.state_dict(), runner.message_hub.get_scalar('val/accuracy/top1').current()


@pytest.mark.parametrize(
    ('classifier', 'detector'),
    [
        ('resnet18_classes', 'bccd/faster_rcnn_r18_bccd'),
        pytest.param('resnet18_teacher_classes', 'bccd/faster_rcnn_r18_teacher_bccd', marks=pytest.mark.slow),
    ],
)
def test_backbone_learns_the_classes_and_fills_the_detector(classifier, detector, folder, load_config, tmp_path):
    learned, accuracy = trained(load_config(f'pretrain/{classifier}'), folder, tmp_path / 'work')
    assert accuracy > 60
    cfg = load_config(detector)
    start = dict(type='Pretrained', checkpoint=str(tmp_path / 'work' / 'epoch_6.pth'), prefix='backbone.')
    cfg.model.backbone.update(init_cfg=start)
    cfg.model.roi_head.shared_head.update(init_cfg=start)
    model = mmdet.registry.MODELS.build(cfg.model)
    model.init_weights()
    filled = {**model.backbone.state_dict(), **model.roi_head.shared_head.state_dict()}
    assert all(torch.equal(v, learned[f'backbone.{k}']) for k, v in filled.items())
    assert {f'backbone.{key}' for key in filled} == {key for key in learned if key.startswith('backbone.')}
