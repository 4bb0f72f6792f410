"""Six painted pictures, in every form of annotations, and what is in them."""

from pathlib import Path

import pytest

FORMS = Path(__file__).parent / 'forms'
"""The same six pictures, 96x64, in every form."""


BOXES = {
    'p0': [('red square', 11, 8, 24, 28), ('disc', 60, 9, 20, 20)],
    'p1': [('red square', 20, 18, 24, 28), ('disc', 65, 21, 20, 20)],
    'p2': [],
    'p3': [('red square', 11, 17, 24, 28)],
    'p4': [('red square', 26, 12, 24, 28), ('disc', 60, 24, 20, 20)],
    'p5': [('red square', 6, 17, 24, 28)],
}


SPLITS = dict(train=['p0', 'p1', 'p2', 'p3'], val=['p4'], test=['p5'])


def check(data) -> None:
    """The boxes are those that the pictures were painted with, in the right splits."""
    assert data.classes == ('disc', 'red square')
    found = {split: sorted(Path(photo.file).stem for photo in photos) for split, photos in data.splits.items()}
    assert found == SPLITS
    for photo in (photo for photos in data.splits.values() for photo in photos):
        expected = BOXES[Path(photo.file).stem]
        assert [box.name for box in photo.boxes] == [name for name, *_ in expected]
        for box, (_, *sides) in zip(photo.boxes, expected, strict=True):
            assert box[1:5] == pytest.approx(sides, abs=0.02)
        assert (data.folder / photo.file).is_file()
