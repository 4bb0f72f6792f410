"""Boxes of BiDet's heads: drawn locations, and the scores of those that non-maximum suppression keeps."""

import torch
from mmcv.ops import batched_nms
from torch import Tensor


def sampled_location(prediction: Tensor, dim: int, sigma: float) -> Tensor:
    r"""Draw locations around the predicted means.

    .. math::
        l = \mu + s \, \sigma \epsilon, \quad \sigma = e^{v / 2}, \quad \epsilon \sim N(0, 1)
        \qquad
        \frac{\partial l}{\partial \mu} = 1, \quad \frac{\partial l}{\partial v} = \frac{l - \mu}{2}

    Args:
        prediction: means :math:`\mu` in the first half of ``dim``, log variances v in the second.
        dim: the dimension that holds both.
        sigma: the factor s on the deviation; 0 gives the mean, without drawing a random number.

    Returns:
        Tensor: the prediction's shape with ``dim`` halved.

    Source: BiDet (Wang et al., CVPR 2020); s is 0.001 in the released Faster R-CNN.

    Example:
        >>> sampled_location(torch.tensor([[1., 2., 0., 0.]]), dim=1, sigma=0.0)
        tensor([[1., 2.]])
    """
    mean, log_variance = prediction.chunk(2, dim)
    if sigma == 0:
        return mean
    return mean + sigma * (0.5 * log_variance).exp() * torch.randn_like(mean)


def kept_scores(
    boxes: Tensor,
    scores: Tensor,
    labels: Tensor,
    score_thr: float,
    iou_threshold: float,
    max_per_class: int | None = None,
) -> list[tuple[Tensor, int]]:
    """Scores that survive non-maximum suppression in one image, for the classes of its ground truth only.

    Args:
        boxes: (N, 4), or (N, classes, 4) where every class has a box of its own; no gradient goes through them.
        scores: (N, classes), differentiable; columns beyond the classes of the labels are ignored.
        labels: class of each object of the image, (objects,).
        score_thr: what does not score higher does not take part.
        iou_threshold: of the suppression, class by class.
        max_per_class: how many of the highest scores of a class are kept; None for all.

    Returns:
        list[tuple[Tensor, int]]: for each class in ``labels``, ascending, its kept scores, highest first, and its
        number of objects.

    Example:
        >>> boxes = torch.tensor([[0., 0., 10., 10.], [0., 0., 10., 9.], [20., 20., 30., 30.]])
        >>> scores = torch.tensor([[0.9, 0.0], [0.8, 0.1], [0.3, 0.2]])
        >>> kept_scores(boxes, scores, torch.tensor([0]), score_thr=0.05, iou_threshold=0.5)
        [(tensor([0.9000, 0.3000]), 1)]
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
