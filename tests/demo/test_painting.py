import runpy

import cv2
import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from tests.scripts import ROOT

paint = runpy.run_path(str(ROOT / 'demo/painting.py'))['paint']
CRIMSON, BLUE = (220, 20, 60), (0, 0, 142)
META = dict(classes=('one', 'two'), palette=[CRIMSON, BLUE])


@pytest.fixture
def white(tmp_path):
    path = tmp_path / 'white.png'
    cv2.imwrite(str(path), np.full((100, 200, 3), 255, np.uint8))
    return path


def objects(*boxes):
    return InstanceData(
        bboxes=torch.tensor([box for box, _ in boxes]).reshape(-1, 4).float(),
        labels=torch.tensor([label for _, label in boxes]).long(),
        scores=torch.full((len(boxes),), 0.5),
    )


def near(painted, colour):
    """Columns and rows of the pixels of about this colour."""
    rows, columns = (abs(painted.astype(int) - colour).sum(axis=2) < 60).nonzero()
    return columns, rows


def test_boxes_lie_where_the_image_was_scaled_to(white):
    pytest.importorskip('mmdet')
    painted = paint(white, objects(([20, 40, 60, 90], 0), ([120, 30, 180, 70], 1)), META, width=800)
    assert painted.shape == (400, 800, 3)
    for colour, (left, top, right, bottom) in ((CRIMSON, (80, 160, 240, 360)), (BLUE, (480, 120, 720, 280))):
        columns, rows = near(painted, colour)
        found = (columns.min(), rows.min(), columns.max(), rows.max())
        np.testing.assert_allclose(found, (left, top, right, bottom), atol=3)  # half a line, antialiased


def test_nothing_found_is_the_image_itself(white):
    pytest.importorskip('mmdet')
    assert (paint(white, objects(), META, width=400) == 255).all()
