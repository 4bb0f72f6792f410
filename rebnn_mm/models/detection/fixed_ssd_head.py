"""mmdet's SSD head, able to predict."""

from typing import ClassVar

from mmdet.models.dense_heads import SSDHead

from rebnn_mm.registry import MODELS


@MODELS.register_module()
class FixedSSDHead(SSDHead):
    """mmdet's ``SSDHead`` with the one attribute that mmdet's prediction asks every dense head for.

    From 3.2 on mmdet reads ``loss_cls`` when it predicts. Its SSD head computes its loss itself and has none, so that
    validation, testing and inference of every SSD end in an ``AttributeError``
    (https://github.com/open-mmlab/mmdetection/issues/11063). Nothing else differs.

    Example:
        >>> FixedSSDHead(num_classes=20, anchor_generator=dict(
        ...     type='SSDAnchorGenerator', scale_major=False, input_size=300, basesize_ratio_range=(0.2, 0.9),
        ...     strides=[8, 16, 32, 64, 100, 300], ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        ... )).loss_cls is None
        True
    """

    loss_cls: ClassVar[None] = None
    """No loss with class channels of its own."""
