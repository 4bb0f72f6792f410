"""SSD's anchors as ssd.pytorch and what builds on it have them, BiDet's released SSD among others."""

from typing import Any

import torch
from mmdet.models.task_modules import SSDAnchorGenerator
from mmengine.registry import TASK_UTILS
from torch import Tensor


@TASK_UTILS.register_module()
class ClampedSSDAnchorGenerator(SSDAnchorGenerator):
    r"""mmdet's ``SSDAnchorGenerator`` whose centres lie in the image and whose sides are no longer than it.

    .. math:: c = \min(c_0, s), \quad l = \min(l_0, s)

    with the image's size s, separately for x and y. On SSD300's maps this moves the anchors of the last row and column
    at stride 32 by 4 pixels, and shortens the long sides of the last two maps; all others are mmdet's. An image may
    not be larger.

    Args:
        input_size: height and width of the image.
        **options: arguments of mmdet's ``SSDAnchorGenerator``.

    Example:
        >>> sizes = dict(min_sizes=[111], max_sizes=[162], input_size=300)
        >>> anchors = ClampedSSDAnchorGenerator(strides=[32], ratios=[[2]], scale_major=False, **sizes)
        >>> places = anchors.single_level_grid_priors((10, 10), 0, device='cpu').view(100, 4, 4)
        >>> places[0, 0], places[99, 0]
        (tensor([-39.5000, -39.5000,  71.5000,  71.5000]), tensor([244.5000, 244.5000, 355.5000, 355.5000]))

    Source: ``clip`` of the prior boxes in BiDet's released SSD, which is ssd.pytorch's.
    """

    def __init__(self, *args: Any, input_size: int = 300, **options: Any) -> None:
        self.largest_centre = input_size
        super().__init__(*args, input_size=input_size, **options)

    def gen_base_anchors(self) -> list[Tensor]:
        """The anchors of each level's first cell, corners (A, 4)."""
        clamped = []
        for anchors in super().gen_base_anchors():
            start, end = anchors.chunk(2, dim=1)
            centre, half = (start + end) / 2, (end - start).clamp(max=self.largest_centre) / 2
            clamped.append(torch.cat([centre - half, centre + half], dim=1))
        return clamped

    def single_level_grid_priors(self, *args: Any, **kwargs: Any) -> Tensor:
        """The anchors of a level, corners (H * W * A, 4)."""
        anchors = super().single_level_grid_priors(*args, **kwargs)
        centre = (anchors[:, 2:] + anchors[:, :2]) / 2
        beyond = (centre - self.largest_centre).clamp(min=0)
        return anchors - beyond.repeat(1, 2)
