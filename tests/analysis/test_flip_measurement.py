"""Counting the flips of real steps of a config."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DATASETS, HOOKS
from torch.utils.data import DataLoader, Dataset

pytest.importorskip('mmpretrain')

from mmpretrain.datasets import PackInputs

from rebnn_mm.analysis.flip_measurement import NothingToMeasure, OfLength, Options, measure_flips
from rebnn_mm.datasets.cifar10 import whole_batch

ROOT = Path(__file__).parents[2]


@HOOKS.register_module()
class SpyOnFlipMeasurement(Hook):
    """What a run was like; of the class, because the config is copied."""

    seen: ClassVar[list] = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        (rate,) = {round(group['lr'], 9) for group in runner.optim_wrapper.optimizer.param_groups}
        self.seen.append((rate, runner.max_iters, len(runner.train_dataloader), outputs['loss']))


@DATASETS.register_module()
class NoiseLikeCIFAR10(Dataset):
    """As many images as CIFAR-10 has."""

    def __len__(self):
        return 50_000

    def __getitem__(self, index):
        image = np.random.RandomState(index).randint(0, 256, (32, 32, 3), np.uint8)
        return PackInputs()(dict(img=image, gt_label=index % 10))


def small_config(name='resnet20.py', **options):
    """A config of CIFAR-10 with a quarter of the channels and one rate for all weights."""
    cfg = Config.fromfile(ROOT / 'configs/cifar10' / name)
    cfg.merge_from_dict({'model.backbone.base_channels': 4, 'model.head.in_channels': 16})
    cfg.train_dataloader.dataset = dict(type='NoiseLikeCIFAR10')
    cfg.merge_from_dict(options)
    cfg.optim_wrapper.paramwise_cfg = dict(roles=dict(latent_weight=dict(relative=False)))
    cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), dict(type='SpyOnFlipMeasurement')]
    return cfg


def measure(cfg, steps=8, **options):
    SpyOnFlipMeasurement.seen.clear()
    return measure_flips(cfg, Options(steps=steps, batch_size=4, **options))


def test_takes_real_steps_at_the_highest_rate_of_a_whole_training():
    cfg = small_config()
    before = cfg.to_dict()
    done = []
    SpyOnFlipMeasurement.seen.clear()
    found = measure_flips(cfg, Options(steps=8, batch_size=4), done.append)
    assert done == list(range(1, 9))
    assert [rate for rate, *_ in SpyOnFlipMeasurement.seen] == pytest.approx([0.05, *[0.1] * 7])
    # 391 steps of 128, whatever the batch of the measurement is: schedules of methods follow it.
    assert {seen[1:3] for seen in SpyOnFlipMeasurement.seen} == {(200 * 391, 391)}
    assert found.projection.schedule.steps == 200 * 391
    assert found.projection.schedule.mean == pytest.approx(0.5, abs=0.01)
    assert found.notes == ['batch 4 in place of 128']
    assert {layer.steps for layer in found.projection.layers} == {4}
    assert len(found.projection.layers) == 18
    assert found.projection.step_percent > 0
    assert cfg.to_dict() == before


def test_the_same_seed_gives_the_same_flips():
    first, again, other = (measure(small_config(), seed=seed).projection.layers for seed in (0, 0, 1))
    assert first == again != other


def test_a_lower_rate_flips_fewer_signs():
    lots = measure(small_config()).projection.step_percent
    few = measure(small_config(**{'optim_wrapper.optimizer.lr': 0.02})).projection.step_percent
    assert 0 < few < lots / 2


def test_iterations_instead_of_epochs():
    cfg = small_config(train_cfg=dict(_delete_=True, by_epoch=False, max_iters=1000), param_scheduler=None)
    schedule = measure(cfg).projection.schedule
    assert schedule == (1000, 1.0, 1.0, None)


def test_weights_that_are_not_here_are_one_sentence():
    with pytest.raises(ValueError, match='no checkpoint at nowhere.pth'):
        measure(small_config(), checkpoint='nowhere.pth')


def test_weights_of_another_network_are_one_sentence(tmp_path):
    torch.save({'state_dict': {'foo.weight': torch.zeros(3)}}, tmp_path / 'other.pth')
    with pytest.raises(ValueError, match='other.pth'):
        measure(small_config(), checkpoint=str(tmp_path / 'other.pth'))


def test_data_that_are_not_here_are_one_sentence():
    cfg = Config.fromfile(ROOT / 'configs/cifar10/resnet20.py')
    cfg.train_dataloader.dataset.data_root = 'nowhere'
    with pytest.raises(ValueError, match='no data at nowhere|no .* at nowhere'):
        measure(cfg, steps=4)


def test_another_length_repeats_or_cuts():
    assert [OfLength('abc', 5)[index] for index in range(5)] == list('abcab')
    assert len(OfLength('abc', 2)) == 2


def test_another_length_of_what_makes_whole_batches():
    class Batches:
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return ''.join('abc'[index] for index in indices)

    loader = DataLoader(OfLength(Batches(), 5), batch_size=2, collate_fn=whole_batch)
    assert list(loader) == ['ab', 'ca', 'b']


def test_a_loss_that_is_no_number_is_one_sentence():
    with pytest.raises(ValueError, match=r'the loss is (nan|inf) after \d steps; lower optim_wrapper'):
        measure(small_config(**{'optim_wrapper.optimizer.lr': 1e30}))


def test_real_layers_only():
    with pytest.raises(NothingToMeasure, match='no binary weight is trained'):
        measure(small_config('resnet20_real.py'))
