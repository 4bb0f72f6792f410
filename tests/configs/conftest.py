"""Tiny stand-ins for data and schedules, so that real configs can be trained for a step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.fixture(autouse=True)
def _scope_of_mmdet():
    """Tests choose their scope themselves; none may leak into the next."""
    with DefaultScope.overwrite_default_scope('mmdet'):
        yield


@pytest.fixture
def load_config() -> Callable[[str], Config]:
    """Load a config of this repository by its path under configs/, without downloads of pretrained weights."""

    def load(name: str) -> Config:
        cfg = Config.fromfile(CONFIGS / f'{name}.py')
        without_pretrained(cfg.model)
        return cfg

    return load


def without_pretrained(cfg: Any) -> None:
    """Remove every ``init_cfg`` that names a checkpoint."""
    if isinstance(cfg, dict):
        init = cfg.get('init_cfg')
        if isinstance(init, dict) and init.get('type') == 'Pretrained':
            cfg['init_cfg'] = None
        for value in cfg.values():
            without_pretrained(value)


@pytest.fixture
def detection_batch() -> dict[str, list[Any]]:
    """Two images of 96x128 with three boxes each, as a detector's data loader gives them."""
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    from mmengine.structures import InstanceData

    generator = torch.Generator().manual_seed(0)
    boxes = torch.tensor([[8.0, 8.0, 72.0, 60.0], [40.0, 20.0, 120.0, 90.0], [90.0, 4.0, 124.0, 40.0]])
    samples = []
    for i in range(2):
        sample = DetDataSample(
            metainfo=dict(
                img_id=i, img_shape=(96, 128), ori_shape=(96, 128), scale_factor=(1.0, 1.0), pad_shape=(96, 128)
            )
        )
        masks = torch.zeros(3, 96, 128, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        sample.gt_instances = InstanceData(
            bboxes=boxes.clone(), labels=torch.tensor([0, 1, 2]), masks=BitmapMasks(masks.numpy(), 96, 128)
        )
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        samples.append(sample)
    images = torch.randint(0, 256, (2, 3, 96, 128), dtype=torch.uint8, generator=generator)
    return dict(inputs=list(images), data_samples=samples)


@pytest.fixture
def classification_samples():
    """Two images of a size with their labels, as a classifier's data loader gives them."""
    from mmpretrain.structures import DataSample

    def samples(size):
        images = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8)
        return [
            dict(inputs=image, data_samples=DataSample().set_gt_label(label))
            for image, label in zip(images, (3, 7), strict=True)
        ]

    return samples
