"""Image files are read, and images resized, as OpenCV does it."""

import sys
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy.errors import ImageError
from rebnn_mm.deploy.image import as_image, read_image, resize_bilinear

PHOTOS = sorted((Path(__file__).parents[2] / 'demo/coco_sample').glob('*/*.jpg'))


def opencv(path):
    return cv2.imread(str(path))[..., ::-1]


def test_every_sample_photo():
    assert PHOTOS
    for path in PHOTOS:
        assert np.array_equal(read_image(path), opencv(path)), path


@pytest.mark.parametrize('progressive', [False, True])
@pytest.mark.parametrize('subsampling', [0, 1, 2])
def test_kinds_of_jpeg(tmp_path, subsampling, progressive):
    with Image.open(PHOTOS[0]) as photo:
        for size in ((1, 1), (17, 9), (64, 64), (211, 133)):
            path = tmp_path / f'{size[0]}.jpg'
            photo.crop((5, 5, 5 + size[0], 5 + size[1])).save(
                path, quality=60, subsampling=subsampling, progressive=progressive
            )
            assert np.array_equal(read_image(path), opencv(path))


@pytest.mark.parametrize('orientation', range(1, 9))
def test_a_photo_is_turned_upright(tmp_path, orientation):
    path = tmp_path / 'turned.jpg'
    exif = Image.Exif()
    exif[0x0112] = orientation
    with Image.open(PHOTOS[0]) as photo:
        photo.crop((0, 0, 40, 30)).save(path, exif=exif)
    assert np.array_equal(read_image(path), opencv(path))
    assert read_image(path).shape == ((40, 30, 3) if orientation > 4 else (30, 40, 3))


@pytest.mark.parametrize('mode', ['L', 'LA', 'P', 'RGB', 'RGBA', '1'])
def test_modes_of_png(tmp_path, mode):
    path = tmp_path / 'image.png'
    with Image.open(PHOTOS[0]) as photo:
        image = photo.crop((0, 0, 50, 40)).convert(mode)
    if mode.endswith('A'):
        alpha = np.random.default_rng(0).integers(0, 256, (40, 50)).astype(np.uint8)
        image.putalpha(Image.fromarray(alpha))
    image.save(path)
    assert np.array_equal(read_image(path), opencv(path))


@pytest.mark.parametrize('shape', [(40, 50), (40, 50, 3)])
def test_16_bits(tmp_path, shape):
    path = tmp_path / 'deep.png'
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 65536, shape).astype(np.uint16))
    assert np.array_equal(read_image(path), opencv(path))


def test_a_photo_is_turned_though_its_exif_cannot_be_written_again(tmp_path):
    path = tmp_path / 'turned.jpg'
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, 'a text'
    with Image.open(PHOTOS[0]) as photo:
        photo.crop((0, 0, 40, 30)).save(path, exif=exif)
    # a height that is a text
    data = path.read_bytes()
    assert data.count(b'\x01\x0e\x00\x02') == 1
    path.write_bytes(data.replace(b'\x01\x0e\x00\x02', b'\x01\x01\x00\x02'))
    assert np.array_equal(read_image(path), opencv(path))


@pytest.mark.parametrize('most', [65535, 4095])
def test_16_bits_of_portable_graymaps(tmp_path, most):
    """Pillow brings them to 16 bits; OpenCV does only where they are."""
    path = tmp_path / 'deep.pgm'
    values = np.random.default_rng(0).integers(0, most + 1, (40, 50))
    path.write_bytes(b'P5 50 40 %d ' % most + values.astype('>u2').tobytes())
    assert np.abs(read_image(path)[..., 0] - values * 255 / most).max() <= 1
    if most == 65535:
        assert np.array_equal(read_image(path), opencv(path))


def test_a_cut_without_pixels_is_refused():
    with pytest.raises(ImageError, match='cannot be read .it is 0 x 10 pixels large.'):
        as_image(Image.new('RGB', (30, 30)).crop((10, 10, 10, 20)))


@pytest.mark.parametrize('mode', ['I', 'F'])
def test_32_bits_have_no_white(tmp_path, mode):
    path = tmp_path / 'deep.tif'
    image = Image.new(mode, (4, 3), 40000)
    image.save(path)
    with pytest.raises(ImageError, match=f'deep.tif cannot be read as an image .*of 32 bits, mode {mode},'):
        read_image(path)
    with pytest.raises(ImageError, match=f'mode {mode}, without a white; save it with 8 or 16 bits'):
        as_image(image)


def test_colours_that_opencv_makes_others_of_are_refused(tmp_path):
    path = tmp_path / 'lab.tif'
    Image.new('LAB', (4, 3), (100, 30, 60)).save(path)
    with pytest.raises(ImageError, match='lab.tif cannot be read as an image .its colours are LAB.*save it as RGB'):
        read_image(path)


@pytest.mark.parametrize('content', [b'', b'no image', PHOTOS[0].read_bytes()[:300]], ids=['empty', 'text', 'cut'])
def test_what_is_no_image(tmp_path, content):
    path = tmp_path / 'broken.jpg'
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r'broken.jpg cannot be read as an image \('):
        read_image(path)
    with pytest.raises(ImageError, match=r'cannot be read as an image \([^<]*\)$'):
        read_image(content)


def test_a_kind_of_file_that_pillow_does_not_know(tmp_path):
    path = tmp_path / 'texture.dds'
    Image.new('RGB', (4, 4)).save(path)
    data = bytearray(path.read_bytes())
    data[80:84] = bytes(4)  # the flags of the pixel format
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r'texture.dds cannot be read as an image \('):
        read_image(path)


def test_an_image_of_pillow_whose_file_is_cut(tmp_path):
    path = tmp_path / 'cut.jpg'
    path.write_bytes(PHOTOS[0].read_bytes()[:-4000])
    with Image.open(path) as image, pytest.raises(ImageError, match='the image of Pillow cannot be read'):
        as_image(image)


def test_no_file(tmp_path):
    with pytest.raises(ImageError, match='no image at .*nowhere.jpg'):
        read_image(tmp_path / 'nowhere.jpg')
    with pytest.raises(ImageError, match='is a folder; name the image in it'):
        read_image(tmp_path)


def test_a_decompression_bomb(tmp_path, monkeypatch):
    path = tmp_path / 'bomb.png'
    Image.new('1', (400, 400)).save(path)
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 1000)
    with pytest.raises(ImageError, match='could be decompression bomb'):
        read_image(path)


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, 'PIL', None)
    with pytest.raises(ImageError, match='needs Pillow: pip install pillow'):
        read_image(PHOTOS[0])


def test_pillow_that_another_thread_is_importing(monkeypatch):
    """Its module is known before its classes are."""
    monkeypatch.setitem(sys.modules, 'PIL.Image', ModuleType('PIL.Image'))
    assert as_image(np.zeros((2, 3), np.uint8)).shape == (2, 3, 3)


def test_an_array_is_writable():
    """A caller may paint into it."""
    assert read_image(PHOTOS[0]).flags.writeable


def assert_as_opencv(image, size):
    ours = resize_bilinear(image, size)
    theirs = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR).reshape(ours.shape)
    assert ours.dtype == np.uint8
    assert np.array_equal(ours, theirs), f'{image.shape} to {size}'


@pytest.mark.parametrize('largest', [8, 90, 400])
def test_any_sizes(largest):
    rng = np.random.default_rng(largest)
    for _ in range(150):
        width, height, new_width, new_height = map(int, rng.integers(1, largest, 4))
        image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        assert_as_opencv(image, (new_width, new_height))


@pytest.mark.parametrize('factor', [0.125, 0.25, 1 / 3, 0.5, 2, 3, 4])
def test_whole_ratios(factor):
    """Halving is another calculation, in OpenCV as here."""
    image = np.random.default_rng(0).integers(0, 256, (48, 96, 3), dtype=np.uint8)
    assert_as_opencv(image, (round(96 * factor), round(48 * factor)))
    assert_as_opencv(image, (round(96 * factor), 48))
    assert_as_opencv(image, (96, round(48 * factor)))


@pytest.mark.parametrize(
    ('size', 'new'), [((640, 480), (800, 600)), ((640, 427), (1000, 600)), ((1999, 1333), (341, 256))]
)
def test_sizes_of_detectors(size, new):
    image = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    assert_as_opencv(image, new)


@pytest.mark.parametrize('value', [0, 1, 128, 254, 255])
def test_extreme_values_and_edges(value):
    image = np.full((7, 11, 3), 255 - value, np.uint8)
    image[::2, 1::2] = value
    for size in ((1, 1), (3, 50), (50, 3), (11, 8), (300, 200)):
        assert_as_opencv(image, size)


def test_the_same_size_is_a_copy():
    image = np.zeros((4, 5, 3), np.uint8)
    copy = resize_bilinear(image, (5, 4))
    copy[:] = 1
    assert not image.any()
