"""The networks that the benchmark knows by name."""

from __future__ import annotations

from typing import NamedTuple


class Network(NamedTuple):
    """A binary network and its real-valued twin.

    Attributes:
        config: the binary one's config, without its folder's path and ending.
        real: the twin's.
        size: height and width of an image.
    """

    config: str
    real: str
    size: tuple[int, int]


NETWORKS = {
    'resnet18': Network('resnet18_rebnn_two_stage_imagenet', 'resnet18_imagenet', (224, 224)),
    'resnet34': Network('resnet34_rebnn_two_stage_imagenet', 'resnet34_imagenet', (224, 224)),
    'resnet18_hardtanh': Network('resnet18_rebnn_imagenet', 'resnet18_imagenet', (224, 224)),
    'faster_rcnn_c4': Network('faster_rcnn_r18_rebnn_coco', 'faster_rcnn_r18_coco', (600, 1000)),
    'ssd300': Network('ssd300_vgg16_rebnn_coco', 'ssd300_vgg16_coco', (300, 300)),
    'resnet20_cifar': Network('cifar10/cpu/resnet20_rebnn_cifar10_cpu', 'cifar10/cpu/resnet20_cifar10_cpu', (32, 32)),
}
