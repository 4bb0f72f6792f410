"""BiDet's region proposal head."""

from typing import Any

import torch
from mmdet.models.utils import multi_apply, unpack_gt_instances
from mmdet.structures import SampleList
from mmdet.utils import InstanceList
from mmengine.structures import InstanceData
from torch import Tensor, nn

from rebnn_mm.models.losses import BiDetLoss
from rebnn_mm.registry import MODELS

from .bidet_boxes import sampled_location
from .binary_rpn_head import BinaryRPNHead, Config


@MODELS.register_module()
class BiDetRPNHead(BinaryRPNHead):
    """:class:`BinaryRPNHead` that predicts distributions of box deltas and learns with BiDet's losses.

    The 1x1 layer of the boxes has 8 outputs per anchor: means, then log variances. In training the deltas are drawn
    (:func:`sampled_location`). In evaluation they are the means: the released code of Faster R-CNN draws there too, so
    that its result is another one every time; its SSD takes the means.

    The losses, while ``bottleneck.active``: the information regularisation of the hidden layer's output, behind its
    norm, and the sparse object prior of the proposals as they are handed to the second stage, all objects being one
    class. In the released code the proposals' scores are constants, so its prior trains nothing; here it does.

    Args:
        conv_cfg: the 3x3 convolutions; None makes them real.
        sample_sigma: factor on the predicted deviation.
        bottleneck: weights of the two losses, arguments of :class:`BiDetLoss`.
        **kwargs: further arguments of :class:`BinaryRPNHead`.

    Example:
        >>> import torch
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

    def _init_layers(self) -> None:
        super()._init_layers()
        self.rpn_reg = nn.Conv2d(self.feat_channels, 2 * self.rpn_reg.out_channels, 1)

    def forward_single(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness (N, anchors, H, W) and box deltas (N, 4 * anchors, H, W) of one level (N, in_channels, H, W)."""
        return self._predictions(self.rpn_conv(x))

    def loss_and_predict(
        self, x: tuple[Tensor, ...], batch_data_samples: SampleList, proposal_cfg: Config | None = None
    ) -> tuple[dict[str, Tensor], InstanceList]:
        """Losses and proposals; proposals carry no gradient."""
        if not self.bottleneck.active:
            return super().loss_and_predict(x, batch_data_samples, proposal_cfg)
        instances, ignored, metas = unpack_gt_instances(batch_data_samples)
        hidden = [self.rpn_conv(level) for level in x]
        scores, boxes = multi_apply(self._predictions, hidden)
        losses = self.loss_by_feat(scores, boxes, instances, metas, ignored)
        proposals = self._proposals(scores, boxes, metas, proposal_cfg)
        kept = [(found.scores, len(there)) for found, there in zip(proposals, instances, strict=True)]
        losses.update(self.bottleneck(hidden, kept, prefix='loss_rpn_'))
        for found in proposals:
            found.scores = found.scores.detach()
        return losses, proposals

    def _predictions(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        sigma = self.sample_sigma if self.training else 0.0
        return self.rpn_cls(hidden), sampled_location(self.rpn_reg(hidden), 1, sigma)

    def _proposals(
        self, scores: list[Tensor], boxes: list[Tensor], metas: list[dict[str, Any]], cfg: Config | None
    ) -> list[InstanceData]:
        """What ``predict_by_feat`` gives, with scores that are differentiable and in single precision.

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
