"""Compared outputs of a detector's heads: whether they exist, what they mean, in which form."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from mmdet.models.dense_heads import AnchorHead
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmdet.models.roi_heads import StandardRoIHead
from torch import Tensor

from ...errors import RebnnError
from ..losses.detector_comparison import DetectorComparisonLoss, Points

PLACES = dict(
    points='class scores of a one-stage head (bbox_head)',
    proposals='objectness of a region proposal head (an rpn_head with anchors and sigmoids)',
    regions='regions of a second stage (a StandardRoIHead)',
)
"""Describe what the losses compare."""

UNITS = ('means', 'stds', 'norm_on_bbox')
"""Attributes of coders and heads on which the numbers of a box depend."""


def places_of(loss: DetectorComparisonLoss) -> list[str]:
    """Fields of :class:`DetectorOutput` that have to be there; modules of ``roi_head`` run on its regions."""
    regions = loss.needs == 'regions' or any(
        name.partition('.')[0] == 'roi_head' for name in (*loss.compared, *loss.parts)
    )
    return [place for place in PLACES if place == loss.needs or (place == 'regions' and regions)]


def has_place(model: Any, place: str) -> bool:
    """Whether a detector has what is compared there, in a form that can be."""
    if place == 'regions':
        head = getattr(model, 'roi_head', None)
        # Others have more scores than classes and one for the background (SeesawLoss).
        own_classes = getattr(getattr(head, 'bbox_head', None), 'custom_cls_channels', False)
        return isinstance(head, StandardRoIHead) and not own_classes
    if place == 'points':
        head = getattr(model, 'bbox_head', None)
        if not isinstance(head, BaseDenseHead):
            return False
        # TOOD's head gives probabilities, where others give what a sigmoid makes them of.
        logits = not getattr(getattr(head, 'loss_cls', None), 'activated', False)
        # Where objectness is another output (YOLOX, AutoAssign), class scores of the background mean nothing.
        alone = 'objectnesses' not in inspect.signature(head.loss_by_feat).parameters
        return hasattr(head, 'cls_out_channels') and logits and alone
    head = getattr(model, 'rpn_head', None)
    # Others sample otherwise, and give something else for weights of the sampled anchors.
    plain = isinstance(head, AnchorHead) and type(head).get_targets is AnchorHead.get_targets
    return plain and getattr(head, 'use_sigmoid_cls', False)


def meaning_of(model: Any, loss: DetectorComparisonLoss) -> dict[str, Any]:
    """Settings that the compared numbers depend on, in addition to their shape."""
    head: Any = model.rpn_head if loss.needs == 'proposals' else last_head(model)
    meaning: dict[str, Any] = {}
    if loss.needs in ('points', 'proposals'):
        priors = getattr(head, 'prior_generator', None)
        meaning['strides'] = [tuple(stride) for stride in getattr(priors, 'strides', ())]
        meaning['anchors'] = [base.tolist() for base in getattr(priors, 'base_anchors', ())]
    if loss.boxes:
        coder = getattr(head, 'bbox_coder', None)
        named = {key: getattr(part, key) for key in UNITS for part in (coder, head) if hasattr(part, key)}
        # A config gives lists where a class has tuples for default.
        units = {key: tuple(value) if isinstance(value, list) else value for key, value in named.items()}
        meaning['units of boxes'] = [type(coder).__name__, units]
    return meaning


def last_head(model: Any) -> Any:
    """The head that tells classes."""
    return getattr(getattr(model, 'roi_head', model), 'bbox_head', None)


def points_of(head: Any, predictions: Sequence[Sequence[Tensor]]) -> Points:
    """Every level's (N, anchors * values, H, W) as one (N, points, values)."""
    classes = head.cls_out_channels
    scores, boxes = predictions[0], predictions[1]
    if not all(isinstance(level, Tensor) for level in (*scores, *boxes)):
        raise RebnnError(
            f'{type(head).__name__} predicts a level in several tensors, which is not compared. Leave the losses of '
            'its scores and boxes out, or compare maps.'
        )
    anchors = [level.shape[1] // classes for level in scores]
    sizes = [level.shape[1] // count for level, count in zip(boxes, anchors, strict=True)]

    def by_point(levels: Sequence[Tensor], values: Sequence[int]) -> Tensor:
        return torch.cat(
            [x.permute(0, 2, 3, 1).reshape(len(x), -1, size) for x, size in zip(levels, values, strict=True)], dim=1
        )

    return Points(by_point(scores, [classes] * len(scores)), by_point(boxes, sizes), head.use_sigmoid_cls)
