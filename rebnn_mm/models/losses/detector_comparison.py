"""Values that losses between student and teacher detectors compare, and the base of these losses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from torch import Tensor

from ...errors import RebnnError
from .comparison import ComparisonLoss, at_least_float32


class Points(NamedTuple):
    """Predictions of a dense head (of a one-stage detector, or the proposal head), all levels concatenated."""

    scores: Tensor  # (N, P, C), before sigmoid or softmax; one of P for every anchor, or cell where there are none
    boxes: Tensor  # (N, P, D), as the head predicts them, distances d of a point to the four sides as log(1 + d)
    sigmoid: bool  # whether probabilities are sigmoids; else they are a softmax whose last class is the background


class Regions(NamedTuple):
    """Predictions of a two-stage detector's head for the regions on which the student is trained."""

    scores: Tensor  # (R, C + 1), before the softmax; the last class is the background
    boxes: Tensor  # (R, D), as the head predicts them


class Product(NamedTuple):
    """Output of a layer with its input and weight."""

    values: Tensor  # their product, (N, O, H, W); of a binary layer that of the signs, before the factor
    size: Tensor  # norm of the input of each image, or region, times that of the weight, (N,)
    factor: Tensor | None = None  # learned, of each output channel of a binary layer, (O,); None if it learns nothing


class DetectorOutput(NamedTuple):
    """One forward pass of a detector in training; what no loss asks for may be missing."""

    # outputs of modules by their dotted name, each a tuple of tensors (N, C, H, W), one per level, also where a module
    # runs on each level in turn; for what runs on regions (R, C, h, w)
    maps: Mapping[str, tuple[Tensor, ...]]
    points: Points | None = None  # of the one-stage detector's head
    proposals: Points | None = None  # of the region proposal head
    regions: Regions | None = None  # of the second stage
    # what the student's binary layers, and the teacher's of the same name, computed, by that name; a product for each
    # level that the layer runs on
    layers: Mapping[str, Sequence[Product]] = {}  # of a tuple, which nobody changes


class Targets(NamedTuple):
    """Labels of a batch."""

    objects: Sequence[Tensor] = ()  # boxes of the objects of each image, x1, y1, x2, y2, (objects, 4)
    size: tuple[int, int] = (0, 0)  # height and width of the batch of images
    regions: Tensor | None = None  # image and x1, y1, x2, y2 of every region on which the student is trained, (R, 5)
    region_labels: Tensor | None = None  # class of every region, the background being the last one, (R,)
    sampled: Tensor | None = None  # bool (N, P), anchors on which the proposal head is trained


class DetectorComparisonLoss(ComparisonLoss):
    """Base of the losses between a student and a teacher detector.

    A subclass implements :meth:`forward`, which takes the :class:`DetectorOutput` of both for the same batch and
    returns its terms by name. The teacher's tensors have no gradient.
    """

    needs: ClassVar[str | None] = None
    """The field of :class:`DetectorOutput` that is compared, in addition to ``maps``."""

    boxes: ClassVar[bool] = False
    """Whether boxes are compared, which have to be in the same units."""

    compared: tuple[str, ...] = ()
    """Dotted names of modules whose outputs are compared, such as ``'backbone'`` or ``'roi_head.shared_head'``."""

    parts: tuple[str, ...] = ()
    """Dotted names of modules whose binary layers are compared one by one."""

    def read_names(self, option: str, value: Sequence[str]) -> tuple[str, ...]:
        """Check the names that an option has; refuse a string in place of a list, and a list without a name."""
        if isinstance(value, str):
            raise RebnnError(f'{type(self).__name__}: {option}={value!r} is to be a list: {option}=[{value!r}].')
        if not value:
            raise RebnnError(
                f"{type(self).__name__}: {option}={value!r} compares nothing. Name a part, such as 'backbone', or "
                'leave this loss out.'
            )
        return tuple(value)

    def forward(self, student: DetectorOutput, teacher: DetectorOutput, targets: Targets) -> dict[str, Tensor]:
        """The weighted terms, each a scalar whose name begins with ``loss_``."""
        raise NotImplementedError(f'{type(self).__name__} has to implement forward(student, teacher, targets)')

    def map_pairs(self, student: DetectorOutput, teacher: DetectorOutput) -> list[tuple[str, Tensor, Tensor]]:
        """Every compared map of both, the teacher's without history, by name: ``'neck_2'`` for neck's third."""
        pairs = []
        for name in self.compared:
            ours, theirs = student.maps[name], teacher.maps[name]
            if len(ours) != len(theirs):
                raise RebnnError(
                    f'{type(self).__name__}: {name} of the student gives {len(ours)} maps, that of the teacher '
                    f'{len(theirs)}. Take a teacher of the same levels, or leave this module out.'
                )
            for level, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                if not isinstance(a, Tensor) or a.dim() != 4:
                    what = f'the shape {tuple(a.shape)}' if isinstance(a, Tensor) else f'a {type(a).__name__}'
                    raise RebnnError(
                        f'{type(self).__name__}: {name} gives {what}, which is not a map '
                        '(N, C, H, W). Name a module before it.'
                    )
                self.check_shapes(a, b, f'maps of {name}')
                label = f'{name}_{level}' if len(ours) > 1 else name
                pairs.append((label, at_least_float32(a), at_least_float32(b).detach()))
        return pairs

    def extra_repr(self) -> str:
        return super().extra_repr() + (f', modules={list(self.compared)}' if self.compared else '')


def is_within(name: str, parts: Iterable[str]) -> bool:
    """Whether a module is one of these parts or in one of them, by their dotted names."""
    return any(name == part or name.startswith(f'{part}.') for part in parts)
