"""Whatever library decodes, the pixels are Pillow's."""

import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy import ImageError, decode
from rebnn_mm.deploy.image import read_image


@pytest.fixture
def fresh():
    decode.opencv_decoder.cache_clear()
    yield
    decode.opencv_decoder.cache_clear()


def decoded(path):
    with Image.open(path) as file:
        return decode.jpeg_pixels(file)


def test_a_photo_has_the_pixels_that_pillow_gives(photo):
    found = decoded(photo)
    if found is not None:  # where OpenCV's decoder is another one than Pillow's
        assert np.array_equal(found, np.array(Image.open(photo)))
    assert np.array_equal(read_image(photo), np.array(Image.open(photo)))


def test_a_decoder_with_other_pixels_is_not_used(photo, fresh, monkeypatch):
    cv2 = pytest.importorskip('cv2')
    given = cv2.imdecode
    monkeypatch.setattr(cv2, 'imdecode', lambda *args: 255 - given(*args))
    assert decode.opencv_decoder() is None and decoded(photo) is None


def test_without_opencv(photo, fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, 'cv2', None)
    assert decode.opencv_decoder() is None and read_image(photo).shape == np.array(Image.open(photo)).shape


@pytest.mark.parametrize('kind', ['PNG', 'grey', 'CMYK', 'turned'])
def test_what_pillow_reads_itself(tmp_path, kind):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8))
    path = tmp_path / 'file'
    exif = Image.Exif()
    exif[decode.ORIENTATION] = 6
    if kind == 'PNG':
        image.save(path, 'PNG')
    elif kind == 'turned':
        image.save(path, 'JPEG', exif=exif)
    else:
        image.convert({'grey': 'L', 'CMYK': 'CMYK'}[kind]).save(path, 'JPEG')
    assert decoded(path) is None
    assert read_image(path).shape == ((7, 9, 3) if kind == 'turned' else (9, 7, 3))


def test_a_file_that_ends_too_early_is_an_error(tmp_path, photo):
    path = tmp_path / 'cut.jpg'
    path.write_bytes(photo.read_bytes()[:9000])
    with pytest.raises(ImageError, match='cannot be read as an image'):
        read_image(path)


@pytest.mark.parametrize('progressive', [False, True])
def test_a_picture_in_the_header_does_not_end_the_file(tmp_path, photo, progressive):
    thumbnail, file = BytesIO(), BytesIO()
    with Image.open(photo) as image:
        image.resize((32, 24)).save(thumbnail, 'JPEG')
        image.save(file, 'JPEG', progressive=progressive)
    inner, outer = thumbnail.getvalue(), file.getvalue()
    header = b'\xff\xe1' + (len(inner) + 2).to_bytes(2, 'big') + inner
    data = outer[:2] + header + outer[2:]
    assert Image.open(BytesIO(data)).size == Image.open(photo).size
    assert decode.is_whole(data) and decode.is_whole(data + b'what a camera adds')
    for end in (len(data) * 2 // 3, 2 + len(header), 2 + len(header) // 2, len(data) - 2, len(data) - 1):
        assert not decode.is_whole(data[:end])
    path = tmp_path / 'cut.jpg'
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(ImageError, match='cannot be read as an image'):
        read_image(path)


def test_the_sample_photos_are_whole(photo):
    assert all(decode.is_whole(path.read_bytes()) for path in photo.parent.glob('*.jpg'))
    assert not decode.is_whole(b'') and not decode.is_whole(b'\x89PNG\xff\xd9')
