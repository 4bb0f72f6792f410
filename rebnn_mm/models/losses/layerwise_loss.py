"""The loss between the products of a student's binary layers and those of a teacher's real ones."""

from collections.abc import Sequence

import torch
from mmengine.registry import MODELS
from torch import Tensor

from .comparison import at_least_float32
from .detector_comparison import DetectorComparisonLoss, DetectorOutput, Product, Targets, is_within


def angle_distance(student: Product, teacher: Product) -> Tensor:
    r"""Squared distance of two products, each over the norms of what was multiplied; the mean of the images.

    .. math::
        L = \frac{1}{N} \sum_n \left\| \frac{a_n \otimes w}{\|a_n\| \, \|w\|}
        - \frac{\hat a_n \odot \hat w}{\|\hat a_n\| \, \|\hat w\|} \right\|^2

    Each value is a cosine times the share of the norms that meets in one position, so only angles count. The gradient
    pulls the student's product towards the direction of the teacher's.

    Source: Xu et al. 2021 (LWS-Det), angular loss; here with the norms of each image.
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

    Source: Xu et al. 2021 (LWS-Det), amplitude loss; the division, which makes layers alike, is ours.
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

    The means over the layers, and over the levels that a layer runs on. It looks at the layers by hooks, so they
    cannot be in a part that is compiled.

    Args:
        parts: whose binary layers are compared; the teacher has real ones of the same names and shapes.
        weight: factor of the angles.
        amplitude: factor of the amplitudes.

    Raises:
        ValueError: in the forward pass, if a layer of the teacher gives another shape.

    Source: Xu et al. 2021 (LWS-Det), without its search for signs. Which factors it has is not known to us.

    Example:
        >>> ours = Product(torch.ones(1, 2, 1, 1), torch.ones(1), torch.ones(2))
        >>> output = DetectorOutput({}, layers={'backbone.conv': [ours]})
        >>> LayerwiseLoss(['backbone'])(output, output, Targets())
        {'loss_angle': tensor(0.), 'loss_amplitude': tensor(0.)}
    """

    def __init__(self, parts: Sequence[str], weight: float = 1.0, amplitude: float = 1.0) -> None:
        super().__init__(weight)
        self.parts = self.read_names('parts', parts)
        self.amplitude = amplitude

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """``loss_angle`` and ``loss_amplitude``."""
        pairs = [
            pair
            for name, products in student.layers.items()
            if is_within(name, self.parts)
            for pair in zip(products, teacher.layers[name], strict=True)
        ]
        for ours, theirs in pairs:
            self.check_shapes(ours.values, theirs.values, 'products of a layer')
        made = [pair for pair in pairs if len(pair[0].values)]  # of a region or an image
        if not made:
            nothing = torch.stack([ours.values.sum() for ours, _ in pairs]).sum()
            return {'loss_angle': nothing, 'loss_amplitude': nothing}
        angles = torch.stack([angle_distance(*pair) for pair in made]).mean()
        amplitudes = torch.stack([amplitude_distance(*pair) for pair in made]).mean()
        return {'loss_angle': self.weight * angles, 'loss_amplitude': self.amplitude * amplitudes}

    def extra_repr(self) -> str:
        return f'weight={self.weight}, amplitude={self.amplitude}, parts={list(self.parts)}'
