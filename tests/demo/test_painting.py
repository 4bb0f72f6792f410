import runpy

import cv2
import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from tests.scripts import ROOT

paint = runpy.run_path(str(ROOT / 'demo/painting.py'))['paint']


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


def test_boxes_lie_where_the_image_was_scaled_to(white):
    painted = paint(white, objects(([20, 40, 60, 90], 0), ([120, 30, 180, 70], 1)), ('one', 'two'), width=800)
    assert painted.shape == (400, 800, 3)
    rows, columns = (painted != 255).any(axis=2).nonzero()
    for half, (left, right, bottom) in ((columns < 400, (80, 240, 360)), (columns >= 400, (480, 720, 280))):
        # The text above the box is narrower than it.
        assert (columns[half].min(), columns[half].max(), rows[half].max()) == (left, right, bottom)


def test_nothing_found_is_the_image_itself(white):
    assert (paint(white, objects(), ('one', 'two'), width=400) == 255).all()
