"""Boxes are painted where they are, and pictures are written whole or not at all."""

import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy import ImageError
from rebnn_mm.deploy.draw import can_be_written, save
from rebnn_mm.deploy.draw import draw as paint


def draw(image, boxes, texts=('cat 0.90', 'dog 0.50')):
    boxes = np.array(boxes, np.float32).reshape(-1, 4)
    return paint(image, boxes, range(len(boxes)), texts[: len(boxes)])


def test_a_box_is_painted_at_its_edges():
    picture = np.asarray(draw(np.zeros((200, 300, 3), np.uint8), [[50, 60, 250, 160]]))
    painted = picture.any(axis=2)
    assert picture.shape == (200, 300, 3)
    assert painted[60, 50:251].all() and painted[160, 50:251].all()
    assert painted[60:161, 50].all() and painted[60:161, 250].all()
    assert not painted[70:150, 60:240].any() and not painted[170:].any()


def test_labels_have_colours_of_their_own():
    picture = np.asarray(draw(np.zeros((200, 300, 3), np.uint8), [[10, 60, 90, 190], [110, 60, 190, 190]]))
    assert picture[190, 50].tolist() != picture[190, 150].tolist()


def test_the_best_box_is_on_top():
    one, other = [50, 60, 250, 160], [150, 100, 280, 190]
    crossing = np.asarray(draw(np.zeros((200, 300, 3), np.uint8), [one, other]))[160, 150].tolist()
    alone = np.asarray(draw(np.zeros((200, 300, 3), np.uint8), [one]))[160, 150].tolist()
    assert crossing == alone != [0, 0, 0]


def test_no_box_runs_through_a_text_and_no_text_hides_another():
    white = np.full((200, 300, 3), 255, np.uint8)
    boxes, texts = [[50, 60, 250, 160], [55, 52, 240, 150], [45, 64, 260, 170]], ('one 0.9', 'two 0.8', 'three 0.7')

    def ink(boxes, texts):
        return (np.asarray(draw(white, boxes, texts)).max(axis=2) < 150).sum()

    assert ink(boxes, texts) == sum(ink([box], [text]) for box, text in zip(boxes, texts, strict=True)) > 30


def test_the_image_is_left_alone():
    image = np.zeros((50, 60, 3), np.uint8)
    draw(image, [[5, 5, 40, 40]])
    assert not image.any()


@pytest.mark.parametrize('box', [[-1e30, -5, 1e30, 1e30], [40, 40, 5, 5], [1e9, 1e9, 2e9, 2e9], [3, 3, 3, 3]])
def test_odd_boxes(box):
    assert draw(np.zeros((50, 60, 3), np.uint8), [box]).size == (60, 50)


def test_letters_that_the_font_lacks():
    assert draw(np.zeros((50, 60, 3), np.uint8), [[5, 20, 40, 40]], ['猫']).size == (60, 50)


@pytest.mark.parametrize('name', ['out.png', 'out.JPG', 'out.jpeg', 'out.webp', 'out.bmp'])
def test_a_picture_is_written(tmp_path, name):
    path = tmp_path / name
    assert can_be_written(path) and not can_be_written(tmp_path / 'out.txt') and not can_be_written(tmp_path / 'out')
    save(Image.new('RGB', (30, 20)), path)
    with Image.open(path) as picture:
        assert picture.size == (30, 20)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_nothing_is_left_of_a_picture_that_cannot_be_written(tmp_path):
    """JPEG has no transparency, which shows only while writing."""
    path = tmp_path / 'out.jpg'
    path.write_bytes(b'before')
    with pytest.raises(ImageError, match=r'out.jpg cannot be written \('):
        save(Image.new('RGBA', (30, 20)), path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b'before']


def test_a_name_that_is_too_long(tmp_path):
    """Of which the temporary name has nothing but the ending."""
    with pytest.raises(ImageError, match=r'a.png cannot be written \('):
        save(Image.new('RGB', (30, 20)), tmp_path / f'{"a" * 252}.png')
