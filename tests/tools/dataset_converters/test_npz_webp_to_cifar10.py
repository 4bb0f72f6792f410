import json

import cv2
import numpy as np
import pytest

from rebnn_mm.datasets import CIFAR10Archive
from tests.scripts import load_script, run_script

TOOL = 'tools/dataset_converters/npz_webp_to_cifar10.py'
CLASSES = list(CIFAR10Archive.METAINFO['classes'])


def write_chunk(path, images, labels, strip=4):
    """Lossless WebP strips of a few images each, as the tool's docstring describes them."""
    files = []
    for begin in range(0, len(images), strip):
        column = np.concatenate(images[begin : begin + strip])[:, :, ::-1]
        done, file = cv2.imencode('.webp', column, [cv2.IMWRITE_WEBP_QUALITY, 101])
        assert done
        files.append(file.tobytes())
    offsets = np.cumsum([0, *map(len, files)])
    np.savez(path, strips=np.frombuffer(b''.join(files), np.uint8), offsets=offsets, labels=np.array(labels))


@pytest.fixture
def chunks(tmp_path):
    """Two training chunks of 6 and 4 images and a test chunk of 5, with their pixels."""
    folder = tmp_path / 'chunks'
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (15, 32, 32, 3), dtype=np.uint8)
    parts = {'train_00': slice(0, 6), 'train_01': slice(6, 10), 'test_00': slice(10, 15)}
    for name, part in parts.items():
        write_chunk(folder / f'{name}.npz', images[part], [number % 10 for number in range(15)][part])
    (folder / 'meta.json').write_text(json.dumps(dict(classes=CLASSES)))
    return folder, images


def test_pixels_labels_and_order_survive(chunks, tmp_path, monkeypatch):
    folder, images = chunks
    done = run_script(TOOL, '--src', folder, '--dest', tmp_path / 'out')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ['train: 10 images, 10 classes', 'test: 5 images, 5 classes']
    # So few images make one batch; the archive has five.
    monkeypatch.setitem(CIFAR10Archive.BATCHES, 'train', ('data_batch_1',))
    train, test = (CIFAR10Archive(split, data_root=str(tmp_path / 'out')) for split in ('train', 'test'))
    assert np.array_equal(np.stack([item['img'] for item in train]), images[:10])
    assert np.array_equal(np.stack([item['img'] for item in test]), images[10:])
    assert [item['gt_label'] for item in train] == list(range(10))
    assert [item['gt_label'] for item in test] == list(range(5))


def wide_strips(folder, images):
    column = np.concatenate(images[:4]).reshape(64, 64, 3)
    file = cv2.imencode('.webp', column, [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()
    np.savez(
        folder / 'train_01.npz', strips=np.frombuffer(file, np.uint8), offsets=[0, len(file)], labels=np.array([0] * 4)
    )


@pytest.mark.parametrize(
    ('spoil', 'sentence'),
    [
        (
            lambda folder, images: write_chunk(folder / 'train_01.npz', images[:4], [0, 1, 2]),
            'train_01.npz holds 4 images and 3 labels; both must be as many.',
        ),
        (
            lambda folder, _: [path.unlink() for path in folder.glob('train_*')],
            '--src must be the folder',
        ),
        (wide_strips, 'train_01.npz: the strip at byte 0 is not a column of 32x32 images: (64, 64).'),
        (
            lambda folder, images: write_chunk(folder / 'train_01.npz', images[:2], [0, 12]),
            'train: labels go to 12, and meta.json has 10 classes.',
        ),
        (lambda folder, _: (folder / 'test_00.npz').write_bytes(b'PK'), 'test_00.npz is not a chunk with strips, '),
        (lambda folder, _: (folder / 'meta.json').write_text('[]'), 'meta.json has no classes'),
        (lambda folder, _: (folder / 'meta.json').unlink(), 'meta.json'),
        (lambda folder, _: (folder.parent / 'out').touch(), 'out'),
    ],
    ids=['labels', 'no chunk', 'wide strip', 'label', 'cut off', 'classes', 'no classes', 'destination'],
)
def test_what_is_no_set_is_refused(chunks, tmp_path, monkeypatch, spoil, sentence, capsys):
    folder, images = chunks
    spoil(folder, images)
    tool = load_script(TOOL)
    monkeypatch.setattr('sys.argv', [TOOL, '--src', str(folder), '--dest', str(tmp_path / 'out')])
    with pytest.raises(SystemExit):
        tool.main()
    assert sentence in capsys.readouterr().err
    assert not list((tmp_path / 'out').glob('*'))


def test_more_images_than_the_layout_has_room_for_are_refused(chunks, tmp_path):
    folder, _ = chunks
    black = np.zeros((10_001, 32, 32, 3), np.uint8)
    write_chunk(folder / 'test_00.npz', black, [0] * len(black), strip=500)
    done = run_script(TOOL, '--src', folder, '--dest', tmp_path / 'out')
    assert done.returncode == 1 and 'test: 10001 images, and the layout has room for 10000' in done.stderr
    assert not (tmp_path / 'out').exists()
