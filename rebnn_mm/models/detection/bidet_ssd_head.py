"""BiDet's SSD head."""

from typing import Any

import torch
from mmdet.models.utils import unpack_gt_instances
from mmdet.structures import SampleList
from mmdet.utils import InstanceList
from torch import Tensor, nn

from rebnn_mm.models.losses import BiDetLoss
from rebnn_mm.registry import MODELS

from .bidet_boxes import kept_scores, sampled_location
from .binary_rpn_head import Config
from .fixed_ssd_head import FixedSSDHead


@MODELS.register_module()
class BiDetSSDHead(FixedSSDHead):
    """:class:`FixedSSDHead` that predicts distributions of box deltas and learns with BiDet's losses.

    The box branch of each level has 8 outputs per anchor: means, then log variances. With ``sample_sigma=0`` the
    deltas are the means and the log variances are not trained; above 0 they are drawn in training
    (:func:`sampled_location`). In evaluation they are the means. Both branches are real.

    The losses, while ``bottleneck.active``: the information regularisation averaged over the maps that enter the head,
    and the sparse object prior of all anchors' class scores after non-maximum suppression.

    Args:
        sample_sigma: factor on the predicted deviation.
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        suppression: options of :func:`kept_scores`.
        **kwargs: arguments of mmdet's ``SSDHead``.

    Example:
        >>> import torch
        >>> sizes = dict(min_sizes=[30, 60], max_sizes=[60, 111], input_size=64)
        >>> anchors = dict(type='SSDAnchorGenerator', scale_major=False, strides=[8, 16], ratios=[[2], [2]], **sizes)
        >>> head = BiDetSSDHead(num_classes=3, in_channels=(8, 8), anchor_generator=anchors)
        >>> scores, boxes = head((torch.randn(1, 8, 8, 8), torch.randn(1, 8, 4, 4)))
        >>> head.reg_convs[0][-1].out_channels, scores[0].shape, boxes[0].shape
        (32, torch.Size([1, 16, 8, 8]), torch.Size([1, 16, 8, 8]))

    Source: BiDet (Wang et al., CVPR 2020); weights and thresholds are those of its released SSD.
    """

    def __init__(
        self,
        *args: Any,
        sample_sigma: float = 0.0,
        bottleneck: Config = dict(regularisation=0.1, prior=0.2),
        suppression: Config = dict(score_thr=0.03, iou_threshold=0.45, max_per_class=200),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sample_sigma = sample_sigma
        self.bottleneck = BiDetLoss(**bottleneck)
        self.suppression = suppression

    def _init_layers(self) -> None:
        super()._init_layers()
        for branch in self.reg_convs:
            last = branch[-1]
            branch[-1] = nn.Conv2d(last.in_channels, 2 * last.out_channels, last.kernel_size, padding=last.padding)

    def forward(self, x: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
        """Class scores (N, anchors * (classes + 1), H, W) and box deltas (N, anchors * 4, H, W) of every level."""
        scores, boxes = super().forward(x)
        sigma = self.sample_sigma if self.training else 0.0
        return scores, [sampled_location(level, 1, sigma) for level in boxes]

    def loss(self, x: tuple[Tensor, ...], batch_data_samples: SampleList) -> dict[str, Any]:
        """Losses of a batch."""
        if not self.bottleneck.active:
            return super().loss(x, batch_data_samples)
        instances, ignored, metas = unpack_gt_instances(batch_data_samples)
        scores, boxes = self(x)
        losses = self.loss_by_feat(scores, boxes, instances, metas, ignored)
        losses.update(self.bottleneck(x, self._kept(scores, boxes, instances, metas)))
        return losses

    def _kept(
        self, scores: list[Tensor], boxes: list[Tensor], instances: InstanceList, metas: list[dict[str, Any]]
    ) -> list[tuple[Tensor, int]]:
        sizes = [level.shape[-2:] for level in scores]
        anchors = torch.cat(self.prior_generator.grid_priors(sizes, dtype=torch.float32, device=boxes[0].device))
        probabilities = _by_anchor(scores, self.cls_out_channels).float().softmax(dim=-1)
        deltas = _by_anchor(boxes, 4).detach().float()
        kept = []
        for score, delta, objects, meta in zip(probabilities, deltas, instances, metas, strict=True):
            where = self.bbox_coder.decode(anchors, delta, max_shape=meta['img_shape'])
            kept += kept_scores(where, score, objects.labels, **self.suppression)
        return kept


def _by_anchor(levels: list[Tensor], values: int) -> Tensor:
    """All levels' (N, anchors * values, H, W) as one (N, all anchors, values)."""
    return torch.cat([level.permute(0, 2, 3, 1).reshape(len(level), -1, values) for level in levels], dim=1)
