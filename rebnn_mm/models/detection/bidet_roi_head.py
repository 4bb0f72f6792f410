"""BiDet's second stage."""

from typing import Any

from mmdet.models.roi_heads import StandardRoIHead
from mmdet.models.task_modules.samplers import SamplingResult
from mmdet.structures import SampleList
from mmdet.structures.bbox import bbox2roi, get_box_tensor
from mmdet.utils import InstanceList
from torch import Tensor

from rebnn_mm.models.losses import BiDetLoss
from rebnn_mm.registry import MODELS

from .bidet_boxes import kept_scores
from .binary_rpn_head import Config


@MODELS.register_module()
class BiDetRoIHead(StandardRoIHead):
    """mmdet's ``StandardRoIHead`` that learns with BiDet's losses.

    While ``bottleneck.active`` it adds the information regularisation of what enters the two linear layers of the box
    head (the pooled output of the shared head) and the sparse object prior of the sampled regions' class scores, after
    non-maximum suppression of the boxes they predict.

    Args:
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        suppression: options of :func:`kept_scores`.
        **kwargs: arguments of mmdet's ``StandardRoIHead``; :class:`BiDetBBoxHead` goes with it.

    Source: BiDet (Wang et al., CVPR 2020); weights and thresholds are those of its released Faster R-CNN.

    Example:
        >>> BiDetRoIHead().bottleneck
        BiDetLoss(regularisation=0.02, prior=0.05, active=False)
    """

    def __init__(
        self,
        *args: Any,
        bottleneck: Config = dict(regularisation=0.02, prior=0.05),
        suppression: Config = dict(score_thr=0.01, iou_threshold=0.3),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.bottleneck = BiDetLoss(**bottleneck)
        self.suppression = suppression
        self._images: SampleList = []

    def loss(
        self, x: tuple[Tensor, ...], rpn_results_list: InstanceList, batch_data_samples: SampleList
    ) -> dict[str, Tensor]:
        """Losses of the second stage."""
        # bbox_loss is told the sampled regions only; in a crowd the sampler leaves objects out, which count here.
        self._images = batch_data_samples
        return super().loss(x, rpn_results_list, batch_data_samples)

    def bbox_loss(self, x: tuple[Tensor, ...], sampling_results: list[SamplingResult]) -> dict[str, Any]:
        """The results of mmdet's box head, with BiDet's losses among its losses."""
        results = super().bbox_loss(x, sampling_results)
        if self.bottleneck.active:
            features = results['bbox_feats']
            if self.bbox_head.with_avg_pool:
                features = features.mean(dim=(2, 3))
            results['loss_bbox'].update(self.bottleneck([features], self._kept(results, sampling_results)))
        return results

    def _kept(self, results: dict[str, Any], sampling_results: list[SamplingResult]) -> list[tuple[Tensor, int]]:
        regions = [sampled.priors for sampled in sampling_results]
        counts = [len(priors) for priors in regions]
        scores = results['cls_score'].float().softmax(dim=-1).split(counts)
        deltas = results['bbox_pred'].detach().float().split(counts)
        kept = []
        for image, rois, score, delta in zip(self._images, regions, scores, deltas, strict=True):
            boxes = get_box_tensor(
                self.bbox_head.bbox_coder.decode(bbox2roi([rois])[:, 1:], delta, max_shape=image.img_shape)
            )
            if not self.bbox_head.reg_class_agnostic:
                boxes = boxes.view(len(boxes), -1, 4)
            kept += kept_scores(boxes, score, image.gt_instances.labels, **self.suppression)
        return kept
