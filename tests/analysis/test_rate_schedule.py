"""The learning rate over a whole schedule."""

import pytest

from rebnn_mm.analysis.rate_schedule import rate_schedule
from rebnn_mm.engine import bert_optimization  # noqa: F401  registers BERT's schedule

DOWN = dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=10, convert_to_iter_based=True)


def test_no_scheduler_is_a_constant_rate():
    assert rate_schedule(None, 0.1, 500) == (500, 1.0, 1.0, None)
    assert rate_schedule(None, 0.1, 500).full_steps == 500


def test_a_linear_decay_is_half_of_it():
    schedule = rate_schedule(DOWN, 3e-3, 790, epoch_length=79, epochs=10)
    assert schedule.highest == pytest.approx(1)
    assert schedule.full_steps == pytest.approx(395)


def test_steps_by_epoch_behind_a_warm_up_by_iteration():
    warm_up = dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500)
    decay = dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[8, 11], gamma=0.1)
    schedule = rate_schedule([warm_up, decay], 0.008, 12000, epoch_length=1000, epochs=12)
    assert schedule.full_steps == pytest.approx(8000 + 300 + 10 - 250, abs=1)


def test_a_warm_up_that_never_reaches_the_rate():
    warm_up = dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=100)
    schedule = rate_schedule([warm_up, DOWN], 5e-4, 200, epoch_length=20, epochs=10)
    assert schedule.highest < 0.6
    assert schedule.full_steps == pytest.approx(200 * schedule.mean / schedule.highest)


def test_the_end_of_a_scheduler_is_that_of_the_training():
    cosine = dict(type='CosineAnnealingLR', T_max=4, eta_min=0.05, by_epoch=True, begin=0)
    assert rate_schedule(cosine, 0.1, 400, epoch_length=100, epochs=4).mean == pytest.approx(0.8125, abs=1e-3)
    triangle = dict(type='WarmupLinearLR', warmup=0.1, by_epoch=False)
    assert rate_schedule([triangle], 1e-4, 1000).full_steps == pytest.approx(500, abs=1)


def test_where_the_rate_ends():
    cosine = dict(type='CosineAnnealingLR', T_max=4, by_epoch=True, end=4, convert_to_iter_based=True)
    assert 390 < rate_schedule(cosine, 0.1, 400, epoch_length=100, epochs=4).moving < 400
    assert 390 < rate_schedule(cosine, 0.1, 700, epoch_length=100, epochs=7).moving < 400
    floor = dict(cosine, eta_min=1e-3)
    assert rate_schedule(floor, 0.1, 700, epoch_length=100, epochs=7).moving is None
    steps = dict(type='MultiStepLR', milestones=[2], end=4)
    assert rate_schedule(steps, 0.1, 700, epoch_length=100, epochs=7).moving is None


def test_a_rate_of_zero_is_one_sentence():
    never = dict(type='ConstantLR', factor=0.0, by_epoch=False, end=1000)
    with pytest.raises(ValueError, match='the rate is 0 in all 50 iterations'):
        rate_schedule(never, 0.1, 50)
