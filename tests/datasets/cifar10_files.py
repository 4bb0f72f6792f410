"""A small archive in the layout of CIFAR-10."""

import pickle

import numpy as np


def write_batch(path, first, count=3):
    """Images whose first pixel holds their number in red and 7 in blue; labels are the numbers modulo ten."""
    planes = np.zeros((count, 3, 32, 32), np.uint8)
    planes[:, 0, 0, 1] = range(first, first + count)
    planes[:, 2, 31, 0] = 7
    batch = dict(data=planes.reshape(count, -1), labels=[number % 10 for number in range(first, first + count)])
    path.write_bytes(pickle.dumps(batch, protocol=2))


def write_archive(tmp_path):
    """The archive in ``cifar-10-batches-py``; gives the folder that it is in."""
    folder = tmp_path / 'cifar-10-batches-py'
    folder.mkdir()
    for number in range(5):
        write_batch(folder / f'data_batch_{number + 1}', 3 * number)
    write_batch(folder / 'test_batch', 100, 2)
    return tmp_path
