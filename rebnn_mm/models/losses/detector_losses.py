"""Losses between a student and a teacher detector: what they compare, and each of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional


class Points(NamedTuple):
    """What a dense head (that of a one-stage detector, or the proposal head) predicts, all levels behind each other.

    Attributes:
        scores: (N, P, C), before sigmoid or softmax; one of P for every anchor, or every cell where there are none.
        boxes: (N, P, D), as the head predicts them.
        sigmoid: whether probabilities are sigmoids; else they are a softmax whose last class is the background.
    """

    scores: Tensor
    boxes: Tensor
    sigmoid: bool


class Regions(NamedTuple):
    """What the head of a two-stage detector says about the regions on which the student is trained.

    Attributes:
        scores: (R, C + 1), before the softmax; the last class is the background.
        boxes: (R, D), as the head predicts them.
    """

    scores: Tensor
    boxes: Tensor


class Product(NamedTuple):
    """What a layer made of its input and its weight.

    Attributes:
        values: their product, (N, O, H, W); of a binary layer that of the signs, before the factor.
        size: norm of the input of each image, or region, times that of the weight, (N,).
        factor: what a binary layer multiplies each output channel with, (O,); None if there is nothing.
    """

    values: Tensor
    size: Tensor
    factor: Tensor | None = None


class DetectorOutput(NamedTuple):
    """One forward pass of a detector in training; what no loss asks for may be missing.

    Attributes:
        maps: outputs of modules by their dotted name, each a tuple of tensors (N, C, H, W), one per level; for what
            runs on regions (R, C, h, w).
        points: of the one-stage detector's head.
        proposals: of the region proposal head.
        regions: of the second stage.
        layers: what the student's binary layers, and the teacher's of the same name, computed, by that name.
    """

    maps: Mapping[str, tuple[Tensor, ...]]
    points: Points | None = None
    proposals: Points | None = None
    regions: Regions | None = None
    layers: Mapping[str, Product] = {}  # of a tuple, which nobody changes


class Targets(NamedTuple):
    """What the labels say about a batch.

    Attributes:
        objects: boxes of the objects of each image, x1, y1, x2, y2, (objects, 4).
        size: height and width of the batch of images.
        region_labels: class of every region, the background being the last one, (R,).
        sampled: bool (N, P), anchors on which the proposal head is trained.
    """

    objects: Sequence[Tensor] = ()
    size: tuple[int, int] = (0, 0)
    region_labels: Tensor | None = None
    sampled: Tensor | None = None


class DetectorComparisonLoss(nn.Module):
    """Base of the losses between a student and a teacher detector.

    A subclass implements :meth:`forward`, which takes the :class:`DetectorOutput` of both for the same batch and
    returns its terms by name. The teacher's tensors have no gradient.

    Args:
        weight: factor of the loss.
        modules: dotted names of modules whose outputs are compared, such as ``'backbone'``, ``'neck'`` or
            ``'roi_head.shared_head'``.
        parts: dotted names of modules whose binary layers are compared one by one.
    """

    needs: ClassVar[str | None] = None
    """The field of :class:`DetectorOutput` that is compared, beside ``maps``."""

    def __init__(self, weight: float = 1.0, modules: Sequence[str] = (), parts: Sequence[str] = ()) -> None:
        super().__init__()
        self.weight = weight
        self.compared = tuple(modules)
        self.parts = tuple(parts)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """The weighted terms, each a scalar whose name begins with ``loss_``."""
        raise NotImplementedError(f'{type(self).__name__} has to implement forward(student, teacher, targets)')

    def check_shapes(self, student: Tensor, teacher: Tensor, what: str) -> None:
        """Refuse tensors that cannot be compared.

        Raises:
            ValueError: their shapes differ.
        """
        if student.shape != teacher.shape:
            raise ValueError(
                f'{type(self).__name__}: {what} of the student have the shape {tuple(student.shape)}, those of the '
                f'teacher {tuple(teacher.shape)}. Take a teacher of the same structure and widths, or leave this loss '
                'out.'
            )

    def map_pairs(self, student: DetectorOutput, teacher: DetectorOutput) -> list[tuple[str, Tensor, Tensor]]:
        """Every compared map of both, the teacher's without history, behind a name: ``'neck_2'`` for neck's third.

        Raises:
            ValueError: they have other levels or shapes.
        """
        pairs = []
        for name in self.compared:
            ours, theirs = student.maps[name], teacher.maps[name]
            if len(ours) != len(theirs):
                raise ValueError(
                    f'{type(self).__name__}: {name} of the student gives {len(ours)} maps, that of the teacher '
                    f'{len(theirs)}. Take a teacher of the same levels, or leave this module out.'
                )
            for level, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                self.check_shapes(a, b, f'maps of {name}')
                label = f'{name}_{level}' if len(ours) > 1 else name
                pairs.append((label, at_least_float32(a), at_least_float32(b).detach()))
        return pairs

    def extra_repr(self) -> str:
        return f'weight={self.weight}' + (f', modules={list(self.compared)}' if self.compared else '')


def at_least_float32(x: Tensor) -> Tensor:
    """The same values, in single precision where they were in half."""
    return x.float() if x.element_size() < 4 else x


def decoupled_scores(
    student: Tensor, teacher: Tensor, labels: Tensor, target: float = 1.0, others: float = 0.25
) -> Tensor:
    r"""Divergence of two distributions over classes, that of the label apart from those among the other classes.

    .. math::
        L = \frac{1}{n} \sum_i \alpha \, \mathrm{KL}(b_i^T \| b_i^S) + \beta \, \mathrm{KL}(q_i^T \| q_i^S),
        \quad b = (p_y, 1 - p_y), \quad q_c = \frac{p_c}{1 - p_y} \; (c \ne y)

    p is the softmax of the scores. As :math:`\partial L / \partial s_{iy} = \frac{\alpha}{n} (p_{iy}^S - p_{iy}^T)`,
    a score grows where the teacher is surer. With two classes there are no others, and the second term is 0.

    Args:
        student: scores s before the softmax, (n, C).
        teacher: the same of the teacher; they get no gradient.
        labels: class y of each row, (n,).
        target: the factor :math:`\alpha`.
        others: the factor :math:`\beta`; the two are equal to one and :math:`1 - p_y^T` in an ordinary divergence.

    Returns:
        Tensor: scalar, in float32 at least; 0 where n is 0.

    Source: Zhao et al. 2022 (decoupled knowledge distillation) at temperature one; 0.25 as in its released detector.

    Example:
        >>> student, teacher = torch.zeros(1, 3), torch.tensor([[0.5, 0.25, 0.25]]).log()
        >>> decoupled_scores(student, teacher, torch.tensor([0]))
        tensor(0.0589)
        >>> decoupled_scores(teacher, teacher, torch.tensor([0])).abs()
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
    r"""Compares class scores on the regions on which the student is trained: :func:`decoupled_scores`.

    The teacher pools its own features there, and its own head scores them.

    Args:
        weight: factor of the loss.
        target: factor of what the scores say about the label.
        others: factor of what they say about the other classes.

    Raises:
        ValueError: in the forward pass, if the student has other classes than the teacher.

    Source: Zhao et al. 2022, released detector.

    Example:
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
            'loss_dkd': self.weight * decoupled_scores(ours, theirs, targets.region_labels, self.target, self.others)
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

    Args:
        weight: factor of the loss.

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

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_objectness``."""
        assert student.proposals is not None and teacher.proposals is not None and targets.sampled is not None
        ours, theirs = student.proposals.scores, teacher.proposals.scores
        self.check_shapes(ours, theirs, 'objectness scores')
        ours, theirs = at_least_float32(ours[targets.sampled]), at_least_float32(theirs[targets.sampled])
        loss = functional.binary_cross_entropy_with_logits(ours, theirs.detach().sigmoid(), reduction='sum')
        return {'loss_objectness': self.weight * loss / max(ours.numel(), 1)}


def standardised(x: Tensor, eps: float = 1e-6) -> Tensor:
    r"""Each channel with mean zero and variance one over images and positions.

    .. math:: \hat x = \frac{x - \bar x_c}{\sqrt{\overline{(x - \bar x_c)^2} + \epsilon}}

    Args:
        x: (N, C, H, W).
        eps: keeps a constant channel at zero.

    Example:
        >>> standardised(torch.tensor([[[[1.0, 3.0]], [[5.0, 5.0]]]])).flatten()
        tensor([-1.0000,  1.0000,  0.0000,  0.0000])
    """
    variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt()


def standardised_distance(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Half the mean square difference of standardised maps, which is one minus their correlation by channel.

    .. math:: L = \frac{1}{2} \overline{(\hat S - \hat T)^2} = 1 - \frac{1}{C} \sum_c r_c

    r is Pearson's correlation over images and positions; neither scale nor offset of a channel counts. The gradient
    pulls each channel of the student towards that of the teacher, standardised, and neither scales nor shifts it.

    Args:
        student: (N, C, H, W).
        teacher: the same shape; it gets no gradient.

    Source: Cao et al. 2022 (PKD).

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [4.0, 2.0]]]])
        >>> standardised_distance(x, -3 * x + 5)
        tensor(2.0000)
    """
    return 0.5 * functional.mse_loss(standardised(student), standardised(teacher.detach()))


@MODELS.register_module()
class PKDLoss(DetectorComparisonLoss):
    """Compares maps by their correlation: :func:`standardised_distance`, a term for each map.

    Args:
        modules: whose outputs are compared.
        weight: factor of the loss.

    Raises:
        ValueError: in the forward pass, if the teacher's maps have other channels or sizes.

    Source: Cao et al. 2022 (PKD).

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [4.0, 2.0]]]])
        >>> PKDLoss(['backbone'])(DetectorOutput({'backbone': (x,)}), DetectorOutput({'backbone': (-x,)}), Targets())
        {'loss_pkd_backbone': tensor(2.0000)}
    """

    def __init__(self, modules: Sequence[str], weight: float = 1.0) -> None:
        super().__init__(weight, modules)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_pkd_<module>``, with the number of the level where there are several."""
        return {
            f'loss_pkd_{name}': self.weight * standardised_distance(ours, theirs)
            for name, ours, theirs in self.map_pairs(student, teacher)
        }


def inside_boxes(boxes: Tensor, size: tuple[int, int], cells: tuple[int, int]) -> Tensor:
    """Which cells of a map have their centre in a box; for a box without such a cell, the one that holds its centre.

    Args:
        boxes: x1, y1, x2, y2 in pixels, (objects, 4).
        size: height and width of the image.
        cells: height and width of the map.

    Returns:
        Tensor: bool, (height, width) of the map.

    Example:
        >>> inside_boxes(torch.tensor([[0.0, 0.0, 8.0, 4.0], [13.0, 13.0, 14.0, 14.0]]), (16, 16), (4, 4)).int()
        tensor([[1, 1, 0, 0],
                [0, 0, 0, 0],
                [0, 0, 0, 0],
                [0, 0, 0, 1]], dtype=torch.int32)
    """
    inside = []
    for extent, count, low, high in ((size[0], cells[0], 1, 3), (size[1], cells[1], 0, 2)):
        at = (torch.arange(count, device=boxes.device) + 0.5) * (extent / count)
        within = (at >= boxes[:, low, None]) & (at <= boxes[:, high, None])
        holder = ((boxes[:, low] + boxes[:, high]) / 2 * (count / extent)).long().clamp(0, count - 1)
        held = functional.one_hot(holder, count).bool()
        inside.append(torch.where(within.any(dim=1, keepdim=True), within, held))
    return (inside[0][:, :, None] & inside[1][:, None, :]).any(dim=0)


@MODELS.register_module()
class ObjectFeatureLoss(DetectorComparisonLoss):
    r"""Compares standardised maps where objects are.

    .. math:: L = \frac{1}{2 |M| C} \sum_{p \in M} \sum_c (\hat S_{cp} - \hat T_{cp})^2

    M are the cells in an object's box (:func:`inside_boxes`); maps are standardised (:func:`standardised`) over all
    cells of the batch. The gradient pulls the student's map towards the teacher's there. FGFI, after which this is
    made, takes the cells with an anchor near an object, and learns an adapter in place of standardising.

    Args:
        modules: whose outputs are compared; maps of whole images.
        weight: factor of the loss.

    Raises:
        ValueError: a module that runs on regions; in the forward pass, if the teacher's maps have other shapes.

    Source: after Wang et al. 2019 (FGFI).

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]])
        >>> targets = Targets(objects=[torch.tensor([[0.0, 0.0, 2.0, 2.0]])], size=(4, 4))
        >>> ObjectFeatureLoss(['neck'])(DetectorOutput({'neck': (x,)}), DetectorOutput({'neck': (-x,)}), targets)
        {'loss_objects_neck': tensor(2.0000)}
    """

    def __init__(self, modules: Sequence[str], weight: float = 1.0) -> None:
        super().__init__(weight, modules)
        for name in modules:
            if name.startswith('roi_head'):
                raise ValueError(
                    f'ObjectFeatureLoss: {name} runs on regions, not on images. Name backbone or neck, or use PKDLoss.'
                )

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_objects_<module>``, with the number of the level where there are several."""
        losses = {}
        for name, ours, theirs in self.map_pairs(student, teacher):
            cells = (ours.shape[2], ours.shape[3])
            mask = torch.stack([inside_boxes(boxes, targets.size, cells) for boxes in targets.objects])[:, None]
            squares = (standardised(ours) - standardised(theirs)).square() * mask
            losses[f'loss_objects_{name}'] = (
                self.weight * squares.sum() / (2 * ours.shape[1] * mask.sum().clamp(min=1))
            )
        return losses


def point_divergence(student: Points, teacher: Points, power: float = 1.0) -> Tensor:
    r"""Distance of the class probabilities of two dense heads, over all points.

    .. math::
        L = \frac{1}{n} \sum_{i, c} |p_{ic}^T - p_{ic}^S|^{\beta} \, \mathrm{BCE}(p_{ic}^S, p_{ic}^T),
        \quad n = \max(1, \sum_i f_i)

    for sigmoids, f being the teacher's largest probability of a point; for a softmax

    .. math:: L = \frac{1}{n} \sum_i f_i \, \mathrm{KL}(p_i^T \| p_i^S)

    with f its probability that there is an object. A probability grows where the teacher's is larger. The many points
    that both call background count for little in either form.

    Args:
        student: of the student.
        teacher: of the teacher; it gets no gradient.
        power: the exponent :math:`\beta`.

    Source: the first form is the quality focal loss (Li et al. 2020), with which CrossKD (Wang et al. 2024) compares
    class scores, beta 1; n and the second form are ours.

    Example:
        >>> def points(*p):
        ...     return Points(torch.tensor([[p]]).logit(), torch.zeros(1, 1, 4), sigmoid=True)
        >>> point_divergence(points(0.5, 0.5), points(0.5, 0.9))
        tensor(0.2773)
    """
    ours, theirs = at_least_float32(student.scores), at_least_float32(teacher.scores).detach()
    objects = foreground(teacher)
    if student.sigmoid:
        gap = (theirs.sigmoid() - ours.sigmoid()).abs()
        terms = functional.binary_cross_entropy_with_logits(ours, theirs.sigmoid(), reduction='none')
        total = (gap**power * terms).sum()
    else:
        terms = functional.kl_div(
            ours.log_softmax(dim=-1), theirs.log_softmax(dim=-1), reduction='none', log_target=True
        )
        total = (objects * terms.sum(dim=-1)).sum()
    return total / objects.sum().clamp(min=1)


def foreground(points: Points) -> Tensor:
    """How sure a head is that there is an object at each point, (N, P), without gradient.

    Example:
        >>> foreground(Points(torch.tensor([[[0.2, 0.1, 0.7]]]).log(), torch.zeros(1, 1, 4), sigmoid=False))
        tensor([[0.3000]])
    """
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
        ValueError: in the forward pass, if the student has other points or classes than the teacher.

    Example:
        >>> points = Points(torch.zeros(1, 6, 2), torch.zeros(1, 6, 4), sigmoid=True)
        >>> DenseScoreLoss()(DetectorOutput({}, points), DetectorOutput({}, points), Targets())
        {'loss_dense_scores': tensor(0.)}
    """

    needs: ClassVar[str | None] = 'points'

    def __init__(self, weight: float = 1.0, power: float = 1.0) -> None:
        super().__init__(weight)
        self.power = power

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_dense_scores``."""
        assert student.points is not None and teacher.points is not None
        self.check_shapes(student.points.scores, teacher.points.scores, 'class scores')
        return {'loss_dense_scores': self.weight * point_divergence(student.points, teacher.points, self.power)}

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, power={self.power}'


def weighted_box_distance(student: Tensor, teacher: Tensor, weights: Tensor) -> Tensor:
    r"""Mean distance of predicted box values, where the teacher sees objects.

    .. math:: L = \frac{1}{D \max(1, \sum_i f_i)} \sum_i f_i \| b_i^S - b_i^T \|_1

    Args:
        student: b, (..., D).
        teacher: the same of the teacher; it gets no gradient.
        weights: f, (...).

    Example:
        >>> weighted_box_distance(torch.tensor([[0.0], [5.0]]), torch.tensor([[2.0], [0.0]]), torch.tensor([1.0, 0.0]))
        tensor(2.)
    """
    ours, theirs = at_least_float32(student), at_least_float32(teacher).detach()
    distances = (ours - theirs).abs().mean(dim=-1)
    return (weights * distances).sum() / weights.sum().clamp(min=1)


@MODELS.register_module()
class DenseBoxLoss(DetectorComparisonLoss):
    """Compares box predictions of one-stage detectors: :func:`weighted_box_distance` with :func:`foreground`.

    Args:
        weight: factor of the loss.

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

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_dense_boxes``."""
        assert student.points is not None and teacher.points is not None
        ours, theirs = student.points.boxes, teacher.points.boxes
        self.check_shapes(ours, theirs, 'box predictions')
        return {'loss_dense_boxes': self.weight * weighted_box_distance(ours, theirs, foreground(teacher.points))}


@MODELS.register_module()
class RegionBoxLoss(DetectorComparisonLoss):
    """Compares box predictions on the student's regions: :func:`weighted_box_distance`.

    The weights are the teacher's probabilities: of an object, where all classes share a box, else of each class.

    Args:
        weight: factor of the loss.

    Raises:
        ValueError: in the forward pass, if the student predicts other boxes than the teacher.

    Example:
        >>> ours = Regions(torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.zeros(1, 8))
        >>> theirs = ours._replace(boxes=torch.tensor([[4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0]]))
        >>> RegionBoxLoss()(DetectorOutput({}, regions=ours), DetectorOutput({}, regions=theirs), Targets())
        {'loss_region_boxes': tensor(2.)}
    """

    needs: ClassVar[str | None] = 'regions'

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_region_boxes``."""
        assert student.regions is not None and teacher.regions is not None
        ours, theirs = student.regions.boxes, teacher.regions.boxes
        self.check_shapes(ours, theirs, 'box predictions')
        objects = at_least_float32(teacher.regions.scores).detach().softmax(dim=1)[:, :-1]
        if ours.shape[1] % objects.shape[1] == 0 and ours.shape[1] > 4:
            ours, theirs = (x.view(*objects.shape, -1) for x in (ours, theirs))
        else:
            objects = objects.sum(dim=1)
        return {'loss_region_boxes': self.weight * weighted_box_distance(ours, theirs, objects)}


def is_within(name: str, parts: Iterable[str]) -> bool:
    """Whether a module is one of these parts or in one of them, by their dotted names.

    Example:
        >>> is_within('roi_head.shared_head.conv1', ['backbone', 'roi_head']), is_within('neck', ['ne'])
        (True, False)
    """
    return any(name == part or name.startswith(f'{part}.') for part in parts)


def angle_distance(student: Product, teacher: Product) -> Tensor:
    r"""Squared distance of two products, each over the norms of what was multiplied; the mean of the images.

    .. math::
        L = \frac{1}{N} \sum_n \left\| \frac{a_n \otimes w}{\|a_n\| \, \|w\|}
        - \frac{\hat a_n \odot \hat w}{\|\hat a_n\| \, \|\hat w\|} \right\|^2

    Each value is a cosine times the share of the norms that meets in one position, so only angles count. The gradient
    pulls the student's product towards the direction of the teacher's.

    Args:
        student: of signs.
        teacher: of real values; it gets no gradient.

    Source: Xu et al. 2021 (LWS-Det), angular loss; here with the norms of each image.

    Example:
        >>> ours, theirs = (Product(torch.tensor([[[[x]]]]), torch.tensor([2.0])) for x in (1.0, -1.0))
        >>> angle_distance(ours, theirs)
        tensor(1.)
    """

    def directed(product: Product) -> Tensor:
        size = at_least_float32(product.size).view(-1, 1, 1, 1)
        return at_least_float32(product.values) / size.clamp(min=torch.finfo(torch.float32).tiny)

    difference = directed(student) - directed(teacher).detach()
    return difference.square().sum(dim=(1, 2, 3)).mean()


def amplitude_distance(student: Product, teacher: Product) -> Tensor:
    r"""Distance of the scaled product to the teacher's, in shares of the latter's power; only the factor learns.

    .. math::
        L = \frac{\| a \otimes w - \alpha \circ (\hat a \odot \hat w) \|^2}{\| a \otimes w \|^2}

    Args:
        student: of signs, with the factor :math:`\alpha`; without one there is nothing to learn, and L is 0.
        teacher: of real values; it gets no gradient.

    Source: Xu et al. 2021 (LWS-Det), amplitude loss; the division, which makes layers alike, is ours.

    Example:
        >>> ours = Product(torch.ones(1, 2, 1, 1), torch.ones(1), torch.tensor([1.0, 3.0]))
        >>> amplitude_distance(ours, Product(2 * torch.ones(1, 2, 1, 1), torch.ones(1)))
        tensor(0.2500)
    """
    if student.factor is None:
        return at_least_float32(student.values).sum() * 0
    theirs = at_least_float32(teacher.values).detach()
    scaled = at_least_float32(student.factor).view(1, -1, 1, 1) * at_least_float32(student.values).detach()
    power = theirs.square().sum().clamp(min=torch.finfo(torch.float32).tiny)
    return (theirs - scaled).square().sum() / power


@MODELS.register_module()
class LayerwiseLoss(DetectorComparisonLoss):
    """Compares every binary layer with the teacher's real one: :func:`angle_distance`, :func:`amplitude_distance`.

    The means over the layers. It looks at the layers by hooks, so for the backward pass they keep what PyTorch keeps
    (``memory='plain'``), and they cannot be in a part that is compiled.

    Args:
        parts: whose binary layers are compared; the teacher has real ones of the same names and shapes.
        weight: factor of the angles.
        amplitude: factor of the amplitudes.

    Raises:
        ValueError: in the forward pass, if a layer of the teacher gives another shape.

    Source: Xu et al. 2021 (LWS-Det), without its search for signs. Which factors it has is not known to us.

    Example:
        >>> ours = Product(torch.ones(1, 2, 1, 1), torch.ones(1), torch.ones(2))
        >>> output = DetectorOutput({}, layers={'backbone.conv': ours})
        >>> LayerwiseLoss(['backbone'])(output, output, Targets())
        {'loss_angle': tensor(0.), 'loss_amplitude': tensor(0.)}
    """

    def __init__(self, parts: Sequence[str], weight: float = 1.0, amplitude: float = 1.0) -> None:
        super().__init__(weight, parts=parts)
        self.amplitude = amplitude

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_angle`` and ``loss_amplitude``."""
        pairs = [(x, teacher.layers[name]) for name, x in student.layers.items() if is_within(name, self.parts)]
        for ours, theirs in pairs:
            self.check_shapes(ours.values, theirs.values, 'products of a layer')
        angles = torch.stack([angle_distance(*pair) for pair in pairs]).mean()
        amplitudes = torch.stack([amplitude_distance(*pair) for pair in pairs]).mean()
        return {'loss_angle': self.weight * angles, 'loss_amplitude': self.amplitude * amplitudes}

    def extra_repr(self) -> str:
        return f'weight={self.weight}, amplitude={self.amplitude}, parts={list(self.parts)}'
