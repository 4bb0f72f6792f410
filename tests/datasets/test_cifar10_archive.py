import numpy as np
import pytest

from rebnn_mm.datasets import CIFAR10Archive
from tests.datasets.cifar10_files import write_archive


@pytest.fixture
def archive(tmp_path):
    return write_archive(tmp_path)


def test_batches_in_order_as_rgb_images(archive):
    dataset = CIFAR10Archive('train', data_root=str(archive))
    assert len(dataset) == 15
    assert [int(item['img'][0, 1, 0]) for item in dataset] == list(range(15))
    assert [item['gt_label'] for item in dataset] == [number % 10 for number in range(15)]
    image = dataset[4]['img']
    assert image.shape == (32, 32, 3) and image.dtype == np.uint8
    assert image[31, 0].tolist() == [0, 0, 7]
    assert image.sum() == 4 + 7


def test_test_split_and_the_first_images(archive):
    assert [item['gt_label'] for item in CIFAR10Archive('test', data_root=str(archive))] == [0, 1]
    first = CIFAR10Archive('train', data_root=str(archive), indices=4)
    assert [item['gt_label'] for item in first] == [0, 1, 2, 3]


def test_missing_batch_says_where_to_get_it(archive):
    (archive / 'cifar-10-batches-py' / 'data_batch_3').unlink()
    message = (
        r'no .*data_batch_3\. Download https://www\.cs\.toronto\.edu/.*\.tar\.gz and unpack it to .*, or set data_root'
    )
    with pytest.raises(FileNotFoundError, match=message):
        CIFAR10Archive('train', data_root=str(archive))


def test_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='val' is unknown. Use 'train' or 'test'"):
        CIFAR10Archive('val')
