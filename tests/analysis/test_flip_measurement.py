"""Counting the flips of real steps of a config."""

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

pytest.importorskip('mmpretrain')

from rebnn_mm.analysis.flip_measurement import NothingToMeasure, measure_flips
from rebnn_mm.analysis.flip_setup import Options

ROOT = Path(__file__).parents[2]


@HOOKS.register_module()
class SpyOnFlipMeasurement(Hook):
    """What a run was like; of the class, because the config is copied."""

    seen: ClassVar[list] = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        (rate,) = {round(group['lr'], 9) for group in runner.optim_wrapper.optimizer.param_groups}
        self.seen.append((rate, runner.max_iters, len(runner.train_dataloader), outputs['loss']))


def small_config(name='resnet20.py', **options):
    """A config of CIFAR-10 with a quarter of the channels and one rate for all weights."""
    cfg = Config.fromfile(ROOT / 'configs/cifar10' / name)
    cfg.merge_from_dict({'model.backbone.base_channels': 4, 'model.head.in_channels': 16, **options})
    cfg.optim_wrapper.paramwise_cfg = dict(roles=dict(latent_weight=dict(relative=False)))
    cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), dict(type='SpyOnFlipMeasurement')]
    return cfg


def measure(cfg, steps=8, **options):
    SpyOnFlipMeasurement.seen.clear()
    given = dict(data='sample', sample=ROOT / 'demo/coco_sample', batch_size=4, **options)
    return measure_flips(cfg, Options(steps=steps, **given))


def test_takes_real_steps_at_the_highest_rate_of_a_whole_training():
    cfg = small_config()
    before = cfg.to_dict()
    done = []
    SpyOnFlipMeasurement.seen.clear()
    options = Options(steps=8, data='sample', sample=ROOT / 'demo/coco_sample', batch_size=4)
    found = measure_flips(cfg, options, done.append)
    assert done == list(range(1, 9))
    assert [rate for rate, *_ in SpyOnFlipMeasurement.seen] == pytest.approx([0.05, *[0.1] * 7])
    # 391 steps of 128, whatever the batch of the measurement is: schedules of methods follow it.
    assert {seen[1:3] for seen in SpyOnFlipMeasurement.seen} == {(200 * 391, 391)}
    assert found.projection.schedule.steps == 200 * 391
    assert found.projection.schedule.mean == pytest.approx(0.5, abs=0.01)
    assert found.notes == ['batch 4 in place of 128'] and '50,000' in found.data
    assert {layer.steps for layer in found.projection.layers} == {4}
    assert len(found.projection.layers) == 18
    assert found.projection.step_percent > 0
    assert cfg.to_dict() == before


def test_items_stand_in_for_a_data_set_of_whole_batches():
    cfg = small_config('own/resnet20_rebnn_100e_cifar10.py')
    found = measure(cfg)
    assert found.projection.schedule.steps == 100 * 391 and 'objects cut out' in found.data
    assert found.projection.percent > 100


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


def test_a_teacher_that_is_not_here_is_a_random_one():
    found = measure(small_config('resnet20_two_stage.py'), steps=4)
    assert found.notes[:2] == [
        'random start, because work_dirs/resnet20_react_stage1_cifar10/epoch_200.pth is not here',
        'random teacher, because work_dirs/resnet20_plain.pth is not here',
    ]


def test_weights_that_are_not_here_are_one_sentence():
    with pytest.raises(ValueError, match='no checkpoint can be read from nowhere.pth'):
        measure(small_config(), checkpoint='nowhere.pth')


def test_weights_of_another_network_are_one_sentence(tmp_path):
    torch.save({'state_dict': {'foo.weight': torch.zeros(3)}}, tmp_path / 'other.pth')
    with pytest.raises(ValueError, match='other.pth'):
        measure(small_config(), checkpoint=str(tmp_path / 'other.pth'))


def test_data_that_are_not_here_are_one_sentence():
    cfg = small_config(**{'train_dataloader.dataset.data_root': 'nowhere'})
    with pytest.raises(ValueError, match='no data at nowhere|no .* at nowhere'):
        measure_flips(cfg, Options(steps=4, data='config'))


def test_a_loss_that_is_no_number_is_one_sentence():
    with pytest.raises(ValueError, match=r'the loss is (nan|inf) after \d steps; lower optim_wrapper'):
        measure(small_config(**{'optim_wrapper.optimizer.lr': 1e30}))


def test_real_layers_only():
    with pytest.raises(NothingToMeasure, match='no binary weight is trained'):
        measure(small_config('resnet20_real.py'))
