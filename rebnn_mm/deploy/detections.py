"""Objects that a detector finds in an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from ..errors import RebnnError
from .draw import draw
from .image import Image, as_image

if TYPE_CHECKING:
    import PIL.Image


class Detection(NamedTuple):
    """One object.

    Attributes:
        name: of its class.
        label: the number of its class.
        score: from 0 to 1.
        box: x1, y1, x2, y2 in pixels of the original image.
    """

    name: str
    label: int
    score: float
    box: tuple[float, ...]


@dataclass(frozen=True)
class Detections:
    """The objects found in one image, the highest score first.

    It goes through a ``for``, gives one object by its number, and some by a slice, a mask or numbers.

    Attributes:
        boxes: float32 [K, 4], x1, y1, x2, y2 in pixels of the original image.
        scores: float32 [K].
        labels: int64 [K].
        classes: names of all classes, by label; empty if the file does not know them.

    Example:
        >>> boxes = np.array([[0, 0, 9, 9], [5, 5, 8, 8]], np.float32)
        >>> found = Detections(boxes, np.array([0.75, 0.25], np.float32), np.array([1, 0]), ('cat', 'dog'))
        >>> found.at_least(0.5).names, found[found.labels == 0].names, found[1].name
        (['dog'], ['cat'], 'cat')
        >>> for one in found[:1]:
        ...     print(one)
        Detection(name='dog', label=1, score=0.75, box=(0.0, 0.0, 9.0, 9.0))
        >>> found.to_coco(7, category_ids=[17, 18])[0]
        {'image_id': 7, 'category_id': 18, 'bbox': [0.0, 0.0, 9.0, 9.0], 'score': 0.75}
    """

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Detection]:
        rows = zip(self.names, self.labels.tolist(), self.scores.tolist(), self.boxes.tolist(), strict=True)
        return (Detection(name, label, score, tuple(box)) for name, label, score, box in rows)

    @overload
    def __getitem__(self, which: int) -> Detection: ...
    @overload
    def __getitem__(self, which: slice | np.ndarray | Sequence[int]) -> Detections: ...
    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, int | np.integer):
            return next(iter(self[[int(which)]]))
        if not isinstance(which, slice):
            which = np.asarray(which) if len(which) else np.zeros(0, np.int64)
        return Detections(self.boxes[which], self.scores[which], self.labels[which], self.classes)

    @property
    def names(self) -> list[str]:
        """The class name of each object."""
        return [self.classes[label] if self.classes else str(label) for label in self.labels.tolist()]

    def at_least(self, score: float) -> Detections:
        """Select those with this score or a higher one."""
        return self[self.scores >= score]

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict of each object, as JSON takes it: ``name``, ``label``, ``score`` and ``box``."""
        return [{**one._asdict(), 'box': list(one.box)} for one in self]

    def to_numpy(self) -> np.ndarray:
        """One row of each object, float32 [K, 6]: x1, y1, x2, y2, score, label."""
        return np.column_stack([self.boxes, self.scores, self.labels]).astype(np.float32)

    def to_coco(self, image_id: int | str, category_ids: Sequence[int]) -> list[dict[str, Any]]:
        """Entries of a file of COCO results.

        Args:
            image_id: of the image, in the file of annotations.
            category_ids: of each class in that file, by label.

        Raises:
            RebnnError: an object's class has none.
        """
        last = int(self.labels.max(initial=-1))
        if last >= len(category_ids):
            raise RebnnError(f'class {last} has none of the {len(category_ids)} category_ids; give one for each.')
        return [
            {
                'image_id': image_id,
                'category_id': category_ids[one.label],
                'bbox': [one.box[0], one.box[1], one.box[2] - one.box[0], one.box[3] - one.box[1]],
                'score': one.score,
            }
            for one in self
        ]

    def to_supervision(self) -> Any:
        """Convert to ``supervision.Detections``, for its annotators, trackers and zones; needs that package."""
        import supervision

        names = np.array(self.names, str)
        return supervision.Detections(
            xyxy=self.boxes, confidence=self.scores, class_id=self.labels, data={'class_name': names}
        )

    def draw(self, image: Image) -> PIL.Image.Image:
        """The image with a box, a name and a score for each object.

        Args:
            image: in which they were found, in any form of :func:`rebnn_mm.deploy.image.as_image`.

        Returns:
            An image of Pillow of the same size; its ``save`` writes it.
        """
        texts = [f'{one.name} {one.score:.2f}' for one in self]
        return draw(as_image(image), self.boxes, self.labels.tolist(), texts)
