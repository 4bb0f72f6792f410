"""Losses between the features of a student and a teacher detector: maps, objects, layers."""

from collections.abc import Sequence

import torch
from mmengine.registry import MODELS
from torch import Tensor
from torch.nn import functional

from .comparison import at_least_float32
from .detector_comparison import DetectorComparisonLoss, DetectorOutput, Product, Targets, is_within


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
