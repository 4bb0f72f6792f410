"""The parts of a detector that are traced: what is computed on the whole image, and what is computed per region."""

from typing import Any

import torch
from torch import Tensor, nn

EXAMPLE_SIZE = (320, 352)
"""Height and width of the image with which a model is traced."""

Maps = tuple[Tensor, ...]


class ImageStage(nn.Module):
    """Backbone, neck and dense head; their names are those in the detector, so that graph and model agree on them.

    Args:
        model: a one-stage or two-stage detector of mmdet.

    Shapes: image (N, C, H, W) to two tuples: the head's maps, first one per level of class logits, then as many of
    boxes, then of centre-ness if the head has it; and, of a two-stage detector, the feature maps, one per level.

    Example:
        >>> import torch
        >>> import mmdet.models
        >>> from mmdet.registry import MODELS
        >>> anchors = dict(type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[4])
        >>> model = MODELS.build(dict(
        ...     type='RetinaNet', neck=None,
        ...     backbone=dict(type='ResNet', depth=18, num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,)),
        ...     bbox_head=dict(type='RetinaHead', num_classes=3, in_channels=64, anchor_generator=anchors)))
        >>> maps, features = ImageStage(model)(torch.zeros(1, 3, 32, 64))
        >>> [tuple(x.shape) for x in maps], features
        ([(1, 3, 8, 16), (1, 4, 8, 16)], ())
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.neck = model.neck if model.with_neck else nn.Identity()
        if two_stage(model):
            self.rpn_head = model.rpn_head
        else:
            self.bbox_head = model.bbox_head

    def forward(self, image: Tensor) -> tuple[Maps, Maps]:
        """Maps and features; see the class."""
        features = tuple(self.neck(self.backbone(image)))
        if hasattr(self, 'bbox_head'):
            return _flat(self.bbox_head(features)), ()
        return _flat(self.rpn_head(features)), features


class RegionStage(nn.Module):
    """Shared head and box head of a two-stage detector.

    Args:
        model: the detector.

    Shapes: pooled regions (R, C, h, w) to logits (R, classes + 1) and deltas (R, 4) or (R, 4 * classes).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.roi_head = model.roi_head

    def forward(self, regions: Tensor) -> Maps:
        """Logits and deltas; see the class."""
        if self.roi_head.with_shared_head:
            regions = self.roi_head.shared_head(regions)
        return tuple(self.roi_head.bbox_head(regions))


def two_stage(model: nn.Module) -> bool:
    """Whether a detector has a second stage, which looks at regions.

    Example:
        >>> two_stage(nn.Conv2d(1, 1, 1))
        False
    """
    return getattr(model, 'roi_head', None) is not None and getattr(model, 'rpn_head', None) is not None


def example_image(model: nn.Module) -> Tensor:
    """A black image, (1, C, H, W), with the channels that the model's first convolution takes.

    Example:
        >>> example_image(nn.Conv2d(3, 8, 1)).shape
        torch.Size([1, 3, 320, 352])
    """
    first = next((layer for layer in model.modules() if isinstance(layer, nn.Conv2d)), None)
    return torch.zeros(1, first.in_channels if first else 3, *EXAMPLE_SIZE)


def _flat(kinds: Any) -> Maps:
    return tuple(level for kind in kinds for level in kind)
