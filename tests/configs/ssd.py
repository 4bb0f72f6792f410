"""What the SSD configs of COCO and VOC share in their tests."""

from typing import Any

import torch
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData
from torch import nn

CHANNELS = (32, 64, 32, 16, 16, 16)


def narrow(cfg: Config) -> Config:
    """A binary SSD with a sixteenth of VGG's width."""
    cfg.model.backbone.base_channels = 4
    cfg.model.neck.update(in_channels=CHANNELS[:2], out_channels=CHANNELS)
    cfg.model.bbox_head.in_channels = CHANNELS
    return cfg


def build_without_memory(cfg: Config) -> nn.Module:
    """The model of a config at full width, without values."""
    with torch.device('meta'):
        return MODELS.build(cfg.model)


def without_scopes(cfg: Any) -> Any:
    """A config as plain values, without the notes on its libraries that inheritance leaves."""
    if isinstance(cfg, dict):
        return {key: without_scopes(value) for key, value in cfg.items() if key != '_scope_'}
    return [without_scopes(value) for value in cfg] if isinstance(cfg, list | tuple) else cfg


def convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}


def ssd_batch(size: int = 2) -> dict[str, list[Any]]:
    """Images of 300x300 with three boxes each, as a detector's data loader gives them."""
    generator = torch.Generator().manual_seed(0)
    samples = []
    for i in range(size):
        sample = DetDataSample(
            metainfo=dict(img_id=i, img_shape=(300, 300), ori_shape=(300, 300), scale_factor=(1.0, 1.0))
        )
        # The first box is as large as the anchors of the last level, which are otherwise not trained at all.
        boxes = torch.tensor([[4.0, 4.0, 296.0, 290.0], [120.0, 60.0, 290.0, 270.0], [200.0, 12.0, 240.0, 50.0]])
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor([0, 1, 2]))
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        samples.append(sample)
    images = torch.randint(0, 256, (size, 3, 300, 300), dtype=torch.uint8, generator=generator)
    return dict(inputs=list(images), data_samples=samples)


def train_one_step(model: nn.Module, batch: int = 2) -> dict[str, Any]:
    """Losses of a step as the runner takes it, shifts first; gradients stay in the parameters."""
    from rebnn_mm.layers import calibrate_shifts

    model.init_weights()
    data = model.data_preprocessor(ssd_batch(batch), training=True)
    assert calibrate_shifts(model, lambda: model(data['inputs'], mode='tensor')) == []
    losses = model(**data, mode='loss')
    total, _ = model.parse_losses(losses)
    total.backward()
    assert total.isfinite()
    return losses


def predict(model: nn.Module, batch: int = 2) -> list[InstanceData]:
    """Predictions with a threshold that lets something through before training."""
    model.eval().bbox_head.test_cfg.score_thr = 0.0
    with torch.no_grad():
        return [sample.pred_instances for sample in model.test_step(ssd_batch(batch))]
