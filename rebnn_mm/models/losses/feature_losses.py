"""Losses between the features of a student and a teacher: maps, of classifiers too, and objects."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor
from torch.nn import functional

from rebnn_mm.functional import standardise as over_dims

from ...errors import RebnnError
from .detector_comparison import DetectorComparisonLoss, DetectorOutput, Targets


def standardise_maps(x: Tensor) -> Tensor:
    """Each channel of maps (N, C, H, W) with mean zero and variance one over images and positions."""
    return over_dims(x, (0, 2, 3), 1e-6)


def compare_maps(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Half the mean square difference of standardised maps, which is one minus their correlation by channel.

    .. math:: L = \frac{1}{2} \overline{(\hat S - \hat T)^2} = 1 - \frac{1}{C} \sum_c r_c

    r is Pearson's correlation over images and positions; neither scale nor offset of a channel counts. The gradient
    pulls each channel of the student towards that of the teacher, standardised, and neither scales nor shifts it. Maps
    are (N, C, H, W); the teacher gets no gradient.

    Source: Cao et al. 2022 (PKD).

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [4.0, 2.0]]]])
        >>> compare_maps(x, -3 * x + 5)
        tensor(2.0000)
    """
    return 0.5 * functional.mse_loss(standardise_maps(student), standardise_maps(teacher.detach()))


class MapLoss(DetectorComparisonLoss):
    """Base of the losses that compare maps and look at nothing else, so that classifiers can have them as well.

    A subclass names its :attr:`term` and implements :meth:`distance`.

    Args:
        modules: whose outputs are compared.
        weight: factor of the loss.

    Raises:
        ValueError: in the forward pass, if the teacher's maps have other levels or shapes.
    """

    term: ClassVar[str]
    """Name of its terms in the log: ``loss_<term>_<module>``."""

    def __init__(self, modules: Sequence[str], weight: float = 1.0) -> None:
        super().__init__(weight)
        self.compared = self.read_names('modules', modules)

    def distance(self, student: Tensor, teacher: Tensor) -> Tensor:
        """A scalar for two maps (N, C, H, W)."""
        raise NotImplementedError(f'{type(self).__name__} has to implement distance(student, teacher)')

    def forward(
        self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets | None = None
    ) -> dict[str, Tensor]:
        """``loss_<term>_<module>``, with the number of the level where there are several."""
        return {
            # Of no region there is no distance, and a gradient of 0.
            f'loss_{self.term}_{name}': self.weight * (self.distance(ours, theirs) if len(ours) else ours.sum())
            for name, ours, theirs in self.map_pairs(student, teacher)
        }


@MODELS.register_module()
class PKDLoss(MapLoss):
    """Compares maps by their correlation: :func:`compare_maps`, a term for each map.

    The maps have to have the same channels.

    Source: Cao et al. 2022 (PKD).

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [4.0, 2.0]]]])
        >>> PKDLoss(['backbone'])(DetectorOutput({'backbone': (x,)}), DetectorOutput({'backbone': (-x,)}), Targets())
        {'loss_pkd_backbone': tensor(2.0000)}
    """

    term = 'pkd'

    def distance(self, student: Tensor, teacher: Tensor) -> Tensor:
        return compare_maps(student, teacher)


def attention_distance(student: Tensor, teacher: Tensor) -> Tensor:
    r"""How far two maps look at different places; the mean of the images.

    .. math::
        L = \frac{1}{N} \sum_n \left\| \frac{Q_n^S}{\|Q_n^S\|} - \frac{Q_n^T}{\|Q_n^T\|} \right\|,
        \qquad Q_{np} = \sum_c A_{ncp}^2

    Q is the power of an image's map A at position p; neither the number of channels nor the scale of a map counts.
    The distance is between 0 and the root of two. With the unit vectors :math:`\hat Q` and :math:`d_n` for the norm of
    their difference,

    .. math::
        \frac{\partial L}{\partial A_{ncp}^S} = \frac{2 A_{ncp}^S}{N \, d_n \|Q_n^S\|}
        \left( (\hat Q_n^S \cdot \hat Q_n^T) \, \hat Q_{np}^S - \hat Q_{np}^T \right)

    which makes the student's values larger where the teacher's share is. The teacher gets no gradient.

    Source: Zagoruyko and Komodakis 2017, which Martinez et al. 2020 (Real-to-Binary) take up.

    Example:
        >>> student, teacher = torch.tensor([[[[2.0, 0.0]]]]), torch.tensor([[[[0.0, 1.0]], [[0.0, 3.0]]]])
        >>> attention_distance(student, teacher)
        tensor(1.4142)
    """
    ours, theirs = (functional.normalize(x.square().sum(dim=1).flatten(1), dim=1) for x in (student, teacher.detach()))
    return (ours - theirs).norm(dim=1).mean()


@MODELS.register_module()
class AttentionTransferLoss(MapLoss):
    """Compares where maps are large: :func:`attention_distance`, a term for each map.

    The maps have to be of one size, while channels may differ.

    Source: Zagoruyko and Komodakis 2017.

    Example:
        >>> x, y = torch.tensor([[[[2.0, 0.0]]]]), torch.tensor([[[[0.0, 1.0]]]])
        >>> AttentionTransferLoss(['neck'])(DetectorOutput({'neck': (x,)}), DetectorOutput({'neck': (y,)}))
        {'loss_attention_neck': tensor(1.4142)}
    """

    term = 'attention'

    def distance(self, student: Tensor, teacher: Tensor) -> Tensor:
        return attention_distance(student, teacher)

    def check_shapes(self, student: Tensor, teacher: Tensor, what: str) -> None:
        super().check_shapes(student[:, 0], teacher[:, 0], f'{what}, without their channels,')


def inside_boxes(boxes: Tensor, size: tuple[int, int], cells: tuple[int, int]) -> Tensor:
    """Find the cells of a map with their centre in a box; for a box without one, the cell that holds its centre."""
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

    M are the cells in an object's box (:func:`inside_boxes`); maps are standardised (:func:`standardise_maps`) over
    all cells of the batch. The gradient pulls the student's map towards the teacher's there. FGFI, after which this is
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
        super().__init__(weight)
        self.compared = self.read_names('modules', modules)
        _check_maps_of_images(self)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_objects_<module>``, with the number of the level where there are several."""
        losses = {}
        for name, ours, theirs in self.map_pairs(student, teacher):
            cells = (ours.shape[2], ours.shape[3])
            mask = torch.stack([inside_boxes(boxes, targets.size, cells) for boxes in targets.objects])[:, None]
            squares = (standardise_maps(ours) - standardise_maps(theirs)).square() * mask
            losses[f'loss_objects_{name}'] = (
                self.weight * squares.sum() / (2 * ours.shape[1] * mask.sum().clamp(min=1))
            )
        return losses


def discrepancies(student: Tensor, teacher: Tensor, regions: Tensor, size: tuple[int, int], cells: int = 7) -> Tensor:
    r"""How much the standardised maps differ in each region.

    .. math:: \epsilon_r = \frac{1}{2 C K} \sum_c \sum_{p \in r} (\hat S_{cp} - \hat T_{cp})^2

    p runs over the K points of a grid in the region, ``cells`` in each direction. This is the Mahalanobis distance of
    the two, with the variances of the channels and no others: maps are standardised first (:func:`standardise_maps`).
    ``regions`` are (R, 5): number of the image and x1, y1, x2, y2 in pixels of the image's height and width, ``size``.

    Source: after Xu et al. 2022 (IDa-Det), whose covariance is that of a pair.
    """
    difference = standardise_maps(student) - standardise_maps(teacher.detach())
    from torchvision.ops import roi_align  # optional: nothing else of the package needs torchvision

    # One scale for height and width, as a stride has; rounding at the border changes it by less than a cell.
    scale = difference.shape[3] / size[1]
    crops = roi_align(difference, regions.to(difference.dtype), cells, scale, sampling_ratio=1, aligned=True)
    return 0.5 * crops.square().flatten(1).mean(dim=1)


@MODELS.register_module()
class RegionDiscrepancyLoss(DetectorComparisonLoss):
    r"""Compares maps in those regions of objects where student and teacher differ most.

    .. math:: L = \frac{1}{|P|} \sum_{r \in P} \epsilon_r

    P is the share of the student's regions with an object in which :math:`\epsilon` (:func:`discrepancies`) is the
    largest. The gradient pulls the student's map towards the teacher's there and nowhere else. IDa-Det takes the
    proposals of both detectors, learns an adapter in place of standardising, and has an entropy term.

    Args:
        modules: whose outputs are compared; maps of whole images.
        weight: factor of the loss.
        share: of the regions that are compared.

    Raises:
        ValueError: a module that runs on regions, or a share outside (0, 1]; in the forward pass, if the maps of the
            teacher have other shapes.

    Source: after Xu et al. 2022 (IDa-Det).

    Example:
        >>> from rebnn_mm.models.losses.detector_comparison import Regions
        >>> x = torch.tensor([[[[0.0, 0.0, 1.0, 1.0]] * 4]])
        >>> ours, theirs = (DetectorOutput({'neck': (y,)}, regions=Regions(torch.zeros(1, 2), x)) for y in (x, -x))
        >>> region = dict(regions=torch.tensor([[0, 0, 0, 6, 6.0]]), region_labels=torch.tensor([0]))
        >>> RegionDiscrepancyLoss(['neck'])(ours, theirs, Targets(size=(16, 16), **region))
        {'loss_discrepancy_neck': tensor(2.0000)}
    """

    needs = 'regions'

    def __init__(self, modules: Sequence[str], weight: float = 1.0, share: float = 0.6) -> None:
        super().__init__(weight)
        self.compared = self.read_names('modules', modules)
        _check_maps_of_images(self)
        if not 0 < share <= 1:
            raise RebnnError(f'RegionDiscrepancyLoss: share={share} of the regions; it must be above 0 and at most 1.')
        self.share = share

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_discrepancy_<module>``, with the number of the level where there are several."""
        assert student.regions is not None and targets.regions is not None and targets.region_labels is not None
        background = student.regions.scores.shape[1] - 1
        regions = targets.regions[targets.region_labels != background]
        losses = {}
        for name, ours, theirs in self.map_pairs(student, teacher):
            # Of no region, the sum is 0 and has a gradient.
            found = discrepancies(ours, theirs, regions, targets.size)
            chosen = found.topk(math.ceil(self.share * len(found))).values
            losses[f'loss_discrepancy_{name}'] = self.weight * chosen.sum() / max(len(chosen), 1)
        return losses

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, share={self.share}'


def _check_maps_of_images(loss: DetectorComparisonLoss) -> None:
    for name in loss.compared:
        if name.startswith('roi_head'):
            raise RebnnError(
                f'{type(loss).__name__}: {name} runs on regions, not on images. Name backbone or neck, or use PKDLoss.'
            )
