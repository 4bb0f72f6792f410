"""Which images int8 layers are calibrated on."""

import os
import pickle
import shutil

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import init_default_scope

pytest.importorskip('mmpretrain')

from rebnn_mm.export.calibration import MOST, CalibrationImages, image_files, training_images
from rebnn_mm.export.examples import prepare_example

STEPS = {'channels': 'rgb', 'mean': [120, 110, 100], 'std': [60, 55, 50]}


@pytest.fixture
def pictures(tmp_path):
    """A folder of two images, one of them in a folder of its own, and a note; a list of one of them."""
    (tmp_path / 'images' / 'cells').mkdir(parents=True)
    for name, value in (('images/b.PNG', 10), ('images/cells/a.png', 200)):
        cv2.imwrite(str(tmp_path / name), np.full((4, 6, 3), value, np.uint8))
    (tmp_path / 'images' / 'notes.md').write_text('no image')
    (tmp_path / 'list.txt').write_text('images/b.PNG\n\n')
    return tmp_path


def test_folders_lists_and_files(pictures):
    both = [pictures / 'images/b.PNG', pictures / 'images/cells/a.png']
    assert image_files([str(pictures / 'images')]) == both
    assert image_files([str(pictures / 'list.txt')]) == both[:1]
    assert image_files([str(both[1]), str(both[0])]) == both[::-1]
    (pictures / 'list.txt').write_bytes(b'\xef\xbb\xbfimages/b.PNG\r\n')  # as Windows writes it
    assert image_files([str(pictures / 'list.txt')]) == both[:1]
    there = pictures / os.fsdecode(b'caf\xe9.png')  # of a system that does not write UTF-8
    shutil.copy(both[0], there)
    (pictures / 'latin.txt').write_bytes(b'caf\xe9.png\n')
    assert image_files([str(pictures / 'latin.txt')]) == [there]
    (pictures / 'images/cells').rename(pictures / 'elsewhere')
    (pictures / 'images/cells').symlink_to(pictures / 'elsewhere')
    (pictures / 'images/._b.PNG').write_text('of macOS')
    assert image_files([str(pictures / 'images')]) == both


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        ('gone.png', 'no image at .*gone.png'),
        ('images/cells/../empty', 'there is no image in .*empty'),
        ('none.txt', 'there is no image in .*none.txt'),
        ('wrong.txt', 'no image at .*images/gone.png'),
    ],
)
def test_what_is_not_there_is_named(pictures, given, words):
    (pictures / 'images' / 'empty').mkdir()
    (pictures / 'none.txt').write_text('\n')
    (pictures / 'wrong.txt').write_text('images/gone.png\n')
    with pytest.raises(ValueError, match=words):
        image_files([str(pictures / given)])


def test_of_many_images_some_are_taken_and_read_one_by_one(pictures):
    (pictures / 'many.txt').write_text('images/b.PNG\nimages/cells/a.png\n' * MOST)
    files = image_files([str(pictures / 'many.txt')])
    assert len(files) == MOST and {file.name for file in files} == {'b.PNG'}  # every second one
    images = CalibrationImages(STEPS, files)
    assert len(images) == len(list(images)) == MOST
    np.testing.assert_array_equal(images[3].values, prepare_example(STEPS, np.full((4, 6, 3), 10, np.uint8)).values)


def test_what_is_no_image_is_named_when_it_is_read(pictures):
    with pytest.raises(ValueError, match=r'notes.md cannot be read as an image'):
        list(CalibrationImages(STEPS, image_files([str(pictures / 'images/notes.md')])))


def test_the_training_set_gives_files_or_arrays(pictures):
    init_default_scope('mmpretrain')
    folder = dict(type='CustomDataset', data_prefix=str(pictures / 'images'), with_label=False, pipeline=[])
    cfg = Config(dict(train_dataloader=dict(dataset=dict(type='RepeatDataset', times=3, dataset=folder))))
    assert sorted(path.name for path in training_images(cfg)) == ['a.png', 'b.PNG']

    root = pictures / 'cifar-10-batches-py'
    root.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3072), np.uint8)
    for number in range(1, 6):
        (root / f'data_batch_{number}').write_bytes(pickle.dumps(dict(data=pixels, labels=[0, 1])))
    archive = dict(type='rebnn_mm.CIFAR10Archive', split='train', data_prefix=dict(root=str(root)), pipeline=[])
    found = training_images(Config(dict(train_dataloader=dict(dataset=archive))))
    assert len(found) == 10 and np.array_equal(found[1], pixels[1].reshape(3, 32, 32).transpose(1, 2, 0))


@pytest.mark.parametrize(
    ('entries', 'words'),
    [
        ({}, 'the config has no train_dataloader to take images from; name images to calibrate on'),
        (
            dict(train_dataloader=dict(dataset=dict(type='CocoDataset', data_root='gone/', ann_file='a.json'))),
            'no annotations at gone/a.json .* Or name images to calibrate on',
        ),
    ],
)
def test_a_config_without_training_images_is_told(entries, words):
    with pytest.raises(ValueError, match=words):
        training_images(Config(entries))
