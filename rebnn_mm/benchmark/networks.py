"""The networks that the benchmark knows by name, and random weights under which any takes as long as a trained one."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn


class Network(NamedTuple):
    """A binary network and its full-precision counterpart."""

    config: str
    real: str
    size: tuple[int, int]


NETWORKS = {
    'resnet18': Network('imagenet/resnet18_rebnn_two_stage_imagenet', 'imagenet/resnet18_imagenet', (224, 224)),
    'resnet34': Network('imagenet/resnet34_rebnn_two_stage_imagenet', 'imagenet/resnet34_imagenet', (224, 224)),
    'resnet18_hardtanh': Network('imagenet/resnet18_rebnn_imagenet', 'imagenet/resnet18_imagenet', (224, 224)),
    'faster_rcnn_c4': Network('coco/faster_rcnn_r18_rebnn_coco', 'coco/faster_rcnn_r18_coco', (600, 1000)),
    'ssd300': Network('coco/ssd300_vgg16_rebnn_coco', 'coco/ssd300_vgg16_coco', (300, 300)),
    'resnet20_cifar': Network('cifar10/cpu/resnet20', 'cifar10/cpu/resnet20_real', (32, 32)),
}

NOISE = 0.2

BOXES = 0.05
"""Factor of the weights that move boxes: they stay near their anchors, as those of a trained detector do. The time
that the features of a region take grows with its area."""


def fill_norms_of_length(model: nn.Module) -> None:
    """Give SSD's L2Norm its starting value, which mmdet leaves as its memory was until ``init_weights()``."""
    for module in model.modules():
        if type(module).__name__ == 'L2Norm':
            nn.init.constant_(cast(Tensor, module.weight), cast(float, module.scale))


def randomise_weights(model: nn.Module) -> nn.Module:
    """Give a model random weights, always the same, under which nothing is skipped or vanishes; in eval mode.

    He's initialisation keeps the size of values without norms, too; what starts where it does nothing gets off there.
    """
    generator = torch.Generator().manual_seed(0)
    fill_norms_of_length(model)
    for name, module in model.named_modules():
        weight = getattr(module, 'weight', None)
        if type(module) in (nn.Conv2d, nn.Linear) and isinstance(weight, Tensor):
            nn.init.kaiming_normal_(weight, nonlinearity='relu', generator=generator)
            if 'reg' in name:
                weight.data.mul_(BOXES)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.dim() == 1 and tensor.is_floating_point():
            noise = NOISE * torch.rand(tensor.shape, generator=generator)
            tensor.data.add_(noise if 'var' in name or 'weight' in name else noise - NOISE / 2)
    return model.eval()
