"""BiDet's heads: boxes are drawn from predicted distributions, and losses bound what features and scores may tell."""

from typing import Any

import torch
from mmcv.ops import batched_nms
from mmdet.models.roi_heads import StandardRoIHead
from mmdet.models.roi_heads.bbox_heads import BBoxHead
from mmdet.models.task_modules.samplers import SamplingResult
from mmdet.models.utils import unpack_gt_instances
from mmdet.registry import MODELS as MMDET_MODELS
from mmdet.structures import SampleList
from mmdet.structures.bbox import bbox2roi, get_box_tensor
from mmdet.utils import InstanceList
from mmengine.structures import InstanceData
from torch import Tensor, nn

from rebnn_mm.models.losses import BiDetLoss
from rebnn_mm.registry import MODELS

from .heads import BinaryRPNHead, Config, FixedSSDHead


def sample_location(prediction: Tensor, dim: int, sigma: float) -> Tensor:
    r"""Draw locations around the predicted means.

    .. math::
        l = \mu + s \, \sigma \epsilon, \quad \sigma = e^{v / 2}, \quad \epsilon \sim N(0, 1)
        \qquad
        \frac{\partial l}{\partial \mu} = 1, \quad \frac{\partial l}{\partial v} = \frac{l - \mu}{2}

    ``prediction`` has the means :math:`\mu` in the first half of ``dim``, log variances v in the second. A ``sigma``
    s of 0 gives the means, without drawing a random number.

    Source: BiDet (Wang et al., CVPR 2020); s is 0.001 in the released Faster R-CNN.
    """
    mean, log_variance = prediction.chunk(2, dim)
    if sigma == 0:
        return mean
    return mean + sigma * (0.5 * log_variance).exp() * torch.randn_like(mean)


def keep_scores(
    boxes: Tensor,
    scores: Tensor,
    labels: Tensor,
    score_thr: float,
    iou_threshold: float,
    max_per_class: int | None = None,
) -> list[tuple[Tensor, int]]:
    """Scores that survive non-maximum suppression in one image, for the classes of its ground truth only.

    ``boxes`` are (N, 4), or (N, classes, 4) where every class has its own, without gradient; ``scores`` (N, classes or
    more), differentiable; ``labels`` one for each object. The ``max_per_class`` highest scores are kept; None for all.
    """
    classes, objects = labels.unique(return_counts=True)
    of_box, of_class = (scores[:, classes] > score_thr).nonzero(as_tuple=True)
    candidates = scores[of_box, classes[of_class]]
    if len(candidates):
        where = boxes[of_box] if boxes.dim() == 2 else boxes[of_box, classes[of_class]]
        nms = dict(type='nms', iou_threshold=iou_threshold)
        _, keep = batched_nms(where.detach(), candidates.detach(), of_class, nms)
        candidates, of_class = candidates[keep], of_class[keep]
    return [(candidates[of_class == i][:max_per_class], count) for i, count in enumerate(objects.tolist())]


@MODELS.register_module()
class BiDetRPNHead(BinaryRPNHead):
    """:class:`BinaryRPNHead` that predicts distributions of box deltas and learns with BiDet's losses.

    The 1x1 layer of the boxes has 8 outputs per anchor: means, then log variances. In training the deltas are drawn
    (:func:`sample_location`). In evaluation they are the means: the released code of Faster R-CNN draws there too, so
    that its result is another one every time; its SSD takes the means.

    The losses, while ``bottleneck.active``: the information regularisation of the hidden layer's output, after its
    norm, and the sparse object prior of the proposals as they are handed to the second stage, all objects being one
    class. In the released code the proposals' scores are constants, so its prior trains nothing; here it does.

    Args:
        conv_cfg: the 3x3 convolutions; None makes them real.
        sample_sigma: factor on the predicted deviation.
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        **kwargs: further arguments of :class:`BinaryRPNHead`.

    Example:
        >>> anchors = dict(type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[16])
        >>> head = BiDetRPNHead(in_channels=8, feat_channels=16, anchor_generator=anchors)
        >>> head.rpn_reg.out_channels
        8
        >>> score, box = head.forward_single(torch.randn(1, 8, 5, 4))
        >>> score.shape, box.shape
        (torch.Size([1, 1, 5, 4]), torch.Size([1, 4, 5, 4]))

    Source: BiDet (Wang et al., CVPR 2020); weights and sigma are those of its released Faster R-CNN.
    """

    rpn_reg: nn.Conv2d

    def __init__(
        self,
        *args: Any,
        conv_cfg: Config | None = dict(type='BiDetConv2d'),
        sample_sigma: float = 0.001,
        bottleneck: Config = dict(regularisation=0.5, prior=0.01),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, conv_cfg=conv_cfg, **kwargs)
        self.sample_sigma = sample_sigma
        self.bottleneck = BiDetLoss(**bottleneck)
        self._hidden: list[Tensor] | None = None

    def _init_layers(self) -> None:
        super()._init_layers()
        self.rpn_reg = nn.Conv2d(self.feat_channels, 2 * self.rpn_reg.out_channels, 1)

    def forward_single(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.rpn_conv(x)
        if self._hidden is not None:
            self._hidden.append(hidden)
        sigma = self.sample_sigma if self.training else 0.0
        return self.rpn_cls(hidden), sample_location(self.rpn_reg(hidden), 1, sigma)

    def loss_and_predict(
        self, x: tuple[Tensor, ...], batch_data_samples: SampleList, proposal_cfg: Config | None = None
    ) -> tuple[dict[str, Tensor], InstanceList]:
        """Losses and proposals; proposals carry no gradient."""
        if not self.bottleneck.active:
            return super().loss_and_predict(x, batch_data_samples, proposal_cfg)
        instances, ignored, metas = unpack_gt_instances(batch_data_samples)
        hidden: list[Tensor] = []
        self._hidden = hidden
        try:
            scores, boxes = self(x)
        finally:
            self._hidden = None
        losses = self.loss_by_feat(scores, boxes, instances, metas, ignored)
        proposals = self._proposals(scores, boxes, metas, proposal_cfg)
        kept = [(found.scores, len(there)) for found, there in zip(proposals, instances, strict=True)]
        losses.update(self.bottleneck(hidden, kept, prefix='loss_rpn_'))
        for found in proposals:
            found.scores = found.scores.detach()
        return losses, proposals

    def _proposals(
        self, scores: list[Tensor], boxes: list[Tensor], metas: list[dict[str, Any]], cfg: Config | None
    ) -> list[InstanceData]:
        """Compute ``predict_by_feat`` with differentiable scores in single precision.

        In half precision the gradient by a small score would overflow.
        """
        sizes = [level.shape[-2:] for level in scores]
        priors = self.prior_generator.grid_priors(sizes, dtype=torch.float32, device=boxes[0].device)
        return [
            self._predict_by_feat_single(
                [level[i].float() for level in scores],
                [level[i].detach().float() for level in boxes],
                [None] * len(scores),
                mlvl_priors=priors,
                img_meta=meta,
                cfg=cfg,
            )
            for i, meta in enumerate(metas)
        ]


@MODELS.register_module()
class BiDetBBoxHead(BBoxHead):
    """mmdet's ``BBoxHead`` that predicts distributions of box deltas: twice the outputs, means then log variances.

    In training the deltas are drawn (:func:`sample_location`), in evaluation they are the means, as in
    :class:`BiDetRPNHead`. Both linear layers are real.

    Args:
        sample_sigma: factor on the predicted deviation.
        **kwargs: arguments of mmdet's ``BBoxHead``.

    Example:
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
        return score, sample_location(box, 1, self.sample_sigma if self.training else 0.0)


@MODELS.register_module()
class BiDetRoIHead(StandardRoIHead):
    """mmdet's ``StandardRoIHead`` that learns with BiDet's losses.

    While ``bottleneck.active`` it adds the information regularisation of what enters the two linear layers of the box
    head (the pooled output of the shared head) and the sparse object prior of the sampled regions' class scores, after
    non-maximum suppression of the boxes they predict.

    Args:
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        suppression: options of :func:`keep_scores`.
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
            results['loss_bbox'].update(self.bottleneck([features], self._keep_scores(results, sampling_results)))
        return results

    def _keep_scores(
        self, results: dict[str, Any], sampling_results: list[SamplingResult]
    ) -> list[tuple[Tensor, int]]:
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
            kept += keep_scores(boxes, score, image.gt_instances.labels, **self.suppression)
        return kept


@MODELS.register_module()
class BiDetSSDHead(FixedSSDHead):
    """:class:`FixedSSDHead` that predicts distributions of box deltas and learns with BiDet's losses.

    The box branch of each level has 8 outputs per anchor: means, then log variances. With ``sample_sigma=0`` the
    deltas are the means and the log variances are not trained; above 0 they are drawn in training
    (:func:`sample_location`). In evaluation they are the means. Both branches are real.

    The losses, while ``bottleneck.active``: the information regularisation averaged over the maps that enter the head,
    and the sparse object prior of all anchors' class scores after non-maximum suppression.

    Args:
        sample_sigma: factor on the predicted deviation.
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        suppression: options of :func:`keep_scores`.
        **kwargs: arguments of mmdet's ``SSDHead``.

    Example:
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
        return scores, [sample_location(level, 1, sigma) for level in boxes]

    def loss(self, x: tuple[Tensor, ...], batch_data_samples: SampleList) -> dict[str, Any]:
        """Losses of a batch."""
        if not self.bottleneck.active:
            return super().loss(x, batch_data_samples)
        instances, ignored, metas = unpack_gt_instances(batch_data_samples)
        scores, boxes = self(x)
        losses = self.loss_by_feat(scores, boxes, instances, metas, ignored)
        losses.update(self.bottleneck(x, self._keep_scores(scores, boxes, instances, metas)))
        return losses

    def _keep_scores(
        self, scores: list[Tensor], boxes: list[Tensor], instances: InstanceList, metas: list[dict[str, Any]]
    ) -> list[tuple[Tensor, int]]:
        sizes = [level.shape[-2:] for level in scores]
        anchors = torch.cat(self.prior_generator.grid_priors(sizes, dtype=torch.float32, device=boxes[0].device))
        probabilities = _by_anchor(scores, self.cls_out_channels).float().softmax(dim=-1)
        deltas = _by_anchor(boxes, 4).detach().float()
        kept = []
        for score, delta, objects, meta in zip(probabilities, deltas, instances, metas, strict=True):
            where = self.bbox_coder.decode(anchors, delta, max_shape=meta['img_shape'])
            kept += keep_scores(where, score, objects.labels, **self.suppression)
        return kept


def _by_anchor(levels: list[Tensor], values: int) -> Tensor:
    """All levels' (N, anchors * values, H, W) as one (N, all anchors, values)."""
    return torch.cat([level.permute(0, 2, 3, 1).reshape(len(level), -1, values) for level in levels], dim=1)
