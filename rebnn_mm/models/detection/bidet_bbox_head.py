"""BiDet's box head."""

from typing import Any

from mmdet.models.roi_heads.bbox_heads import BBoxHead
from mmdet.registry import MODELS as MMDET_MODELS
from torch import Tensor, nn

from rebnn_mm.registry import MODELS

from .bidet_boxes import sampled_location


@MODELS.register_module()
class BiDetBBoxHead(BBoxHead):
    """mmdet's ``BBoxHead`` that predicts distributions of box deltas: twice the outputs, means then log variances.

    In training the deltas are drawn (:func:`sampled_location`), in evaluation they are the means, as in
    :class:`BiDetRPNHead`. Both linear layers are real.

    Args:
        sample_sigma: factor on the predicted deviation.
        **kwargs: arguments of mmdet's ``BBoxHead``.

    Example:
        >>> import torch
        >>> head = BiDetBBoxHead(in_channels=8, roi_feat_size=1, num_classes=3, reg_class_agnostic=True)
        >>> head.fc_reg.out_features
        8
        >>> score, box = head(torch.randn(5, 8))
        >>> score.shape, box.shape
        (torch.Size([5, 4]), torch.Size([5, 4]))

    Source: BiDet (Wang et al., CVPR 2020); sigma is that of its released Faster R-CNN.
    """

    fc_reg: nn.Linear

    def __init__(self, *args: Any, sample_sigma: float = 0.001, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sample_sigma = sample_sigma
        sizes = dict(in_features=self.fc_reg.in_features, out_features=2 * self.fc_reg.out_features)
        self.fc_reg = MMDET_MODELS.build({**self.reg_predictor_cfg, **sizes})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class scores (N, classes + 1) and box deltas (N, 4) or (N, 4 * classes) of regions (N, C, H, W)."""
        score, box = super().forward(x)
        return score, sampled_location(box, 1, self.sample_sigma if self.training else 0.0)
