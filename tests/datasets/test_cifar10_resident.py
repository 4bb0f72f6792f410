"""Whole batches are those that the pipeline makes of single images."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

pytest.importorskip('mmpretrain')

from mmpretrain.models import ClsDataPreprocessor
from mmpretrain.utils import register_all_modules

from rebnn_mm.datasets import CIFAR10Resident
from rebnn_mm.engine import BinaryHook
from tests.datasets.cifar10_files import write_archive


@pytest.fixture
def archive(tmp_path):
    return write_archive(tmp_path)


register_all_modules(init_default_scope=False)
CONFIGS = Path(__file__).parents[2] / 'configs'


def whole(root, split='train', **options):
    return CIFAR10Resident(split, data_root=str(root), device='cpu', **options)


def loader(name, root, split):
    cfg = Config.fromfile(CONFIGS / '_base_' / 'datasets' / f'{name}.py')
    options = cfg[f'{split}_dataloader']
    options.update(batch_size=6, num_workers=0, persistent_workers=False)
    options.dataset.data_root = str(root)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return cfg, Runner.build_dataloader(options, seed=0)


def test_without_augmentation_a_batch_is_its_images(archive):
    data = whole(archive)
    batch = data.__getitems__([4, 0, 14])
    assert batch['inputs'].shape == (3, 3, 32, 32) and batch['inputs'].dtype == torch.uint8
    assert batch['inputs'][:, 0, 0, 1].tolist() == [4, 0, 14]
    assert [sample.gt_label.item() for sample in batch['data_samples']] == [4, 0, 4]
    assert len(data) == 15 and len(whole(archive, indices=4)) == 4


def test_labels_lie_where_the_images_lie(archive):
    data = CIFAR10Resident('train', data_root=str(archive), device='meta')
    assert {sample.gt_label.device.type for sample in data._samples} == {data.images.device.type} == {'meta'}


def test_evaluation_gets_what_the_pipeline_of_single_images_gives(archive):
    inputs, labels = [], []
    for name in ('cifar10', 'cifar10_resident'):
        cfg, batches = loader(name, archive, 'val')
        preprocess = ClsDataPreprocessor(**cfg.data_preprocessor)
        data = preprocess(next(iter(batches)))
        inputs.append(data['inputs'])
        labels.append([sample.gt_label.item() for sample in data['data_samples']])
    assert torch.equal(*inputs) and labels[0] == labels[1] == [0, 1]


def test_training_sees_the_same_images_in_the_same_order(archive):
    orders = []
    for name in ('cifar10', 'cifar10_resident'):
        batches = loader(name, archive, 'train')[1]
        orders.append([[s.gt_label.item() for s in batch['data_samples']] for batch in batches])
    assert orders[0] == orders[1] and [len(order) for order in orders[0]] == [6, 6, 3]


def test_every_crop_and_both_flips_come_equally_often(archive):
    data = whole(archive, padding=4)
    original = torch.arange(32 * 32).reshape(32, 32)
    # Two planes hold the place of every pixel.
    data.images = (
        torch.stack([original // 256, original % 256, original * 0 + 1]).to(torch.uint8)[None].repeat(15, 1, 1, 1)
    )
    padded = torch.nn.functional.pad(data.images[0], (4,) * 4)
    known = {}
    for top in range(9):
        for left in range(9):
            crop = padded[:, top : top + 32, left : left + 32]
            known[crop.numpy().tobytes()] = (top, left, False)
            known[crop.flip(-1).contiguous().numpy().tobytes()] = (top, left, True)
    assert len(known) == 162
    torch.manual_seed(0)
    drawn = [known[image.numpy().tobytes()] for _ in range(300) for image in data.__getitems__(range(15))['inputs']]
    # 4500 draws: 500 of each offset and 2250 flips expected, with deviations of 21 and 34.
    for axis in (0, 1):
        counts = torch.bincount(torch.tensor([place[axis] for place in drawn]), minlength=9)
        assert counts.min() > 400 and counts.max() < 600
    assert 2080 < sum(flip for _, _, flip in drawn) < 2420
    assert len({place[:2] for place in drawn}) == 81


def test_a_seed_gives_the_same_batch(archive):
    data = whole(archive, padding=4)
    batches = []
    for _ in range(2):
        torch.manual_seed(3)
        batches.append(data.__getitems__(range(15))['inputs'])
    assert torch.equal(*batches)


def test_padding_below_zero(archive):
    with pytest.raises(ValueError, match='padding=-1 must be at least 0'):
        whole(archive, padding=-1)


def test_shifts_of_swapped_layers_start_from_its_batches(archive):
    runner = SimpleNamespace(train_dataloader=loader('cifar10_resident', archive, 'train')[1])
    batch = BinaryHook()._sample_batch(runner)
    assert batch['inputs'].shape == (6, 3, 32, 32) and len(batch['data_samples']) == 6
