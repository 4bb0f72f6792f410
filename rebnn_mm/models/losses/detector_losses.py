"""Losses between the predictions of a student and a teacher detector: scores and boxes."""

from typing import ClassVar

import torch
from mmengine.dist import all_reduce
from mmengine.registry import MODELS
from torch import Tensor
from torch.nn import functional

from ...errors import RebnnError
from .comparison import at_least_float32
from .detector_comparison import DetectorComparisonLoss, DetectorOutput, Points, Targets


def decouple_scores(
    student: Tensor, teacher: Tensor, labels: Tensor, target: float = 1.0, others: float = 0.25
) -> Tensor:
    r"""Divergence of two distributions over classes, that of the label apart from those among the other classes.

    .. math::
        L = \frac{1}{n} \sum_i \alpha \, \mathrm{KL}(b_i^T \| b_i^S) + \beta \, \mathrm{KL}(q_i^T \| q_i^S),
        \quad b = (p_y, 1 - p_y), \quad q_c = \frac{p_c}{1 - p_y} \; (c \ne y)

    p is the softmax of the scores. As :math:`\partial L / \partial s_{iy} = \frac{\alpha}{n} (p_{iy}^S - p_{iy}^T)`,
    a score grows where the teacher is surer. With two classes there are no others, and the second term is 0. Computed
    in float32 at least; 0 where n is 0.

    Args:
        student: scores s before the softmax, (n, C).
        teacher: the same of the teacher; they get no gradient.
        labels: class y of each row, (n,).
        target: the factor :math:`\alpha`.
        others: the factor :math:`\beta`; the two are equal to one and :math:`1 - p_y^T` in an ordinary divergence.

    Source: Zhao et al. 2022 (decoupled knowledge distillation) at temperature one; 0.25 as in its released detector.

    Example:
        >>> student, teacher = torch.zeros(1, 3), torch.tensor([[0.5, 0.25, 0.25]]).log()
        >>> decouple_scores(student, teacher, torch.tensor([0]))
        tensor(0.0589)
        >>> decouple_scores(teacher, teacher, torch.tensor([0])).abs()
        tensor(0.)
    """
    student, teacher = at_least_float32(student), at_least_float32(teacher).detach()
    if not len(student):
        return student.sum()
    is_label = functional.one_hot(labels, student.shape[1]).bool()

    def parts(scores: Tensor) -> tuple[Tensor, Tensor]:
        other = scores[~is_label].view(len(scores), -1)
        both = torch.stack([scores[is_label], other.logsumexp(dim=1)], dim=1)
        return both.log_softmax(dim=1), other.log_softmax(dim=1)

    terms = [
        functional.kl_div(ours, theirs, reduction='none', log_target=True).sum(dim=1).mean()
        for ours, theirs in zip(parts(student), parts(teacher), strict=True)
    ]
    return target * terms[0] + others * terms[1]


@MODELS.register_module()
class DKDLoss(DetectorComparisonLoss):
    r"""Compares class scores on the regions on which the student is trained: :func:`decouple_scores`.

    The teacher pools its own features there, and its own head scores them.

    Args:
        weight: factor of the loss.
        target: factor of what the scores say about the label.
        others: factor of what they say about the other classes.

    Raises:
        ValueError: in the forward pass, if the student has other classes than the teacher.

    Source: Zhao et al. 2022, released detector.

    Example:
        >>> from rebnn_mm.models.losses.detector_comparison import Regions
        >>> def output(*scores):
        ...     return DetectorOutput({}, regions=Regions(torch.tensor([scores]).log(), torch.zeros(1, 4)))
        >>> targets = Targets(region_labels=torch.tensor([0]))
        >>> DKDLoss(weight=2.0)(output(1.0, 1.0, 1.0), output(0.5, 0.25, 0.25), targets)
        {'loss_dkd': tensor(0.1178)}
    """

    needs: ClassVar[str | None] = 'regions'

    def __init__(self, weight: float = 1.0, target: float = 1.0, others: float = 0.25) -> None:
        super().__init__(weight)
        self.target = target
        self.others = others

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_dkd``."""
        assert student.regions is not None and teacher.regions is not None and targets.region_labels is not None
        ours, theirs = student.regions.scores, teacher.regions.scores
        self.check_shapes(ours, theirs, 'class scores of regions')
        return {
            'loss_dkd': self.weight * decouple_scores(ours, theirs, targets.region_labels, self.target, self.others)
        }

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, target={self.target}, others={self.others}'


@MODELS.register_module()
class ObjectnessLoss(DetectorComparisonLoss):
    r"""Compares the objectness of the anchors on which the proposal head is trained.

    .. math::
        L = -\frac{1}{n} \sum_i o_i^T \log o_i^S + (1 - o_i^T) \log(1 - o_i^S)
        \qquad
        \frac{\partial L}{\partial s_i} = \frac{1}{n} (o_i^S - o_i^T)

    :math:`o = \sigma(s)`. Where both agree, it is the teacher's entropy, which has no gradient.

    Raises:
        ValueError: in the forward pass, if the student has other anchors than the teacher.

    Example:
        >>> def output(*scores):
        ...     proposals = Points(torch.tensor([scores])[..., None], torch.zeros(1, 2, 4), sigmoid=True)
        ...     return DetectorOutput({}, proposals=proposals)
        >>> ObjectnessLoss()(output(0.0, 9.0), output(9.0, 0.0), Targets(sampled=torch.tensor([[True, False]])))
        {'loss_objectness': tensor(0.6931)}
    """

    needs: ClassVar[str | None] = 'proposals'

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_objectness``."""
        assert student.proposals is not None and teacher.proposals is not None and targets.sampled is not None
        ours, theirs = student.proposals.scores, teacher.proposals.scores
        self.check_shapes(ours, theirs, 'objectness scores')
        ours, theirs = at_least_float32(ours[targets.sampled]), at_least_float32(theirs[targets.sampled])
        loss = functional.binary_cross_entropy_with_logits(ours, theirs.detach().sigmoid(), reduction='sum')
        return {'loss_objectness': self.weight * loss / max(ours.numel(), 1)}


def point_divergence(student: Points, teacher: Points, power: float = 1.0) -> Tensor:
    r"""Distance of the class probabilities of two dense heads, over all points.

    .. math::
        L = \frac{1}{n} \sum_{i, c} |p_{ic}^T - p_{ic}^S|^{\beta} \, \mathrm{BCE}(p_{ic}^S, p_{ic}^T),
        \quad n = \max(1, \sum_i f_i)

    for sigmoids, f being the teacher's largest probability of a point; for a softmax

    .. math:: L = \frac{1}{n} \sum_i f_i \, \mathrm{KL}(p_i^T \| p_i^S)

    with f its probability that there is an object; with several processes n has the mean of their sums. A probability
    grows where the teacher's is larger. The many points that both call background count for little in either form.

    Source: the first form is the quality focal loss (Li et al. 2020), with which CrossKD (Wang et al. 2024) compares
    class scores, beta 1; n and the second form are ours.
    """
    ours, theirs = at_least_float32(student.scores), at_least_float32(teacher.scores).detach()
    objects = find_foreground(teacher)
    if student.sigmoid:
        gap = (theirs.sigmoid() - ours.sigmoid()).abs()
        terms = functional.binary_cross_entropy_with_logits(ours, theirs.sigmoid(), reduction='none')
        total = (gap**power * terms).sum()
    else:
        terms = functional.kl_div(
            ours.log_softmax(dim=-1), theirs.log_softmax(dim=-1), reduction='none', log_target=True
        )
        total = (objects * terms.sum(dim=-1)).sum()
    return total / _mean_over_processes(objects.sum()).clamp(min=1)


def _mean_over_processes(total: Tensor) -> Tensor:
    """So that the mean of the processes' gradients is that of one process with all images."""
    mean = total.detach().clone()
    all_reduce(mean, 'mean')
    return mean


def find_foreground(points: Points) -> Tensor:
    """Estimate how sure a head is that there is an object at each point, (N, P), without gradient."""
    scores = at_least_float32(points.scores).detach()
    if points.sigmoid:
        return scores.sigmoid().amax(dim=-1)
    return 1 - scores.softmax(dim=-1)[..., -1]


@MODELS.register_module()
class DenseScoreLoss(DetectorComparisonLoss):
    """Compares class scores of one-stage detectors at all points: :func:`point_divergence`.

    Args:
        weight: factor of the loss.
        power: exponent of the gap, for heads with sigmoids.

    Raises:
        ValueError: a power between 0 and 1, whose gradient is infinite where both agree, or below; in the forward
            pass, if the student has other points or classes than the teacher.

    Example:
        >>> points = Points(torch.zeros(1, 6, 2), torch.zeros(1, 6, 4), sigmoid=True)
        >>> DenseScoreLoss()(DetectorOutput({}, points), DetectorOutput({}, points), Targets())
        {'loss_dense_scores': tensor(0.)}
    """

    needs: ClassVar[str | None] = 'points'

    def __init__(self, weight: float = 1.0, power: float = 1.0) -> None:
        super().__init__(weight)
        if power != 0 and power < 1:
            raise RebnnError(f'DenseScoreLoss: power={power} has no gradient where both agree. Take 0, or 1 or more.')
        self.power = power

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_dense_scores``."""
        assert student.points is not None and teacher.points is not None
        self.check_shapes(student.points.scores, teacher.points.scores, 'class scores')
        return {'loss_dense_scores': self.weight * point_divergence(student.points, teacher.points, self.power)}

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, power={self.power}'


def weigh_box_distance(student: Tensor, teacher: Tensor, weights: Tensor) -> Tensor:
    r"""Mean distance of predicted box values, where the teacher sees objects.

    .. math:: L = \frac{1}{D \max(1, \sum_i f_i)} \sum_i f_i \| b_i^S - b_i^T \|_1
    """
    ours, theirs = at_least_float32(student), at_least_float32(teacher).detach()
    distances = (ours - theirs).abs().mean(dim=-1)
    return (weights * distances).sum() / _mean_over_processes(weights.sum()).clamp(min=1)


@MODELS.register_module()
class DenseBoxLoss(DetectorComparisonLoss):
    """Compares box predictions of one-stage detectors: :func:`weigh_box_distance` with :func:`find_foreground`.

    Raises:
        ValueError: in the forward pass, if the student has other points than the teacher.

    Source: CrossKD (Wang et al. 2024) weights boxes by the teacher's scores, too, but compares decoded ones.

    Example:
        >>> ours = Points(torch.zeros(1, 6, 2), torch.zeros(1, 6, 4), sigmoid=True)
        >>> theirs = ours._replace(boxes=torch.ones(1, 6, 4))
        >>> DenseBoxLoss()(DetectorOutput({}, ours), DetectorOutput({}, theirs), Targets())
        {'loss_dense_boxes': tensor(1.)}
    """

    needs: ClassVar[str | None] = 'points'
    boxes: ClassVar[bool] = True

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_dense_boxes``."""
        assert student.points is not None and teacher.points is not None
        ours, theirs = student.points.boxes, teacher.points.boxes
        self.check_shapes(ours, theirs, 'box predictions')
        return {'loss_dense_boxes': self.weight * weigh_box_distance(ours, theirs, find_foreground(teacher.points))}


@MODELS.register_module()
class RegionBoxLoss(DetectorComparisonLoss):
    """Compares box predictions on the student's regions: :func:`weigh_box_distance`.

    The weights are the teacher's probabilities: of an object, where all classes share a box, else of each class.

    Raises:
        ValueError: in the forward pass, if the student predicts other boxes than the teacher.

    Example:
        >>> from rebnn_mm.models.losses.detector_comparison import Regions
        >>> ours = Regions(torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.zeros(1, 8))
        >>> theirs = ours._replace(boxes=torch.tensor([[4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0]]))
        >>> RegionBoxLoss()(DetectorOutput({}, regions=ours), DetectorOutput({}, regions=theirs), Targets())
        {'loss_region_boxes': tensor(2.)}
    """

    needs: ClassVar[str | None] = 'regions'
    boxes: ClassVar[bool] = True

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_region_boxes``."""
        assert student.regions is not None and teacher.regions is not None
        ours, theirs = student.regions.boxes, teacher.regions.boxes
        self.check_shapes(ours, theirs, 'box predictions')
        objects = at_least_float32(teacher.regions.scores).detach().softmax(dim=1)[:, :-1]
        if ours.shape[1] % objects.shape[1] == 0 and ours.shape[1] > 4:
            numbers = ours.shape[1] // objects.shape[1]  # -1 would be open where there are no regions
            ours, theirs = (x.view(*objects.shape, numbers) for x in (ours, theirs))
        else:
            objects = objects.sum(dim=1)
        return {'loss_region_boxes': self.weight * weigh_box_distance(ours, theirs, objects)}
