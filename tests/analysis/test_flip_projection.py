"""From flips of some steps to those of a schedule, and the sentence about them."""

import pytest

from rebnn_mm.analysis.flip_projection import FlipProjection, LayerFlips, verdict
from rebnn_mm.analysis.rate_schedule import RateSchedule

WRAPPER = dict(constructor='BinaryOptimWrapperConstructor')
HALF = RateSchedule(steps=1000, highest=1.0, mean=0.5)


def projection(*flips, weights=1000, schedule=HALF):
    return FlipProjection([LayerFlips(f'conv{i}', weights, 50, n) for i, n in enumerate(flips)], schedule)


def test_flips_follow_the_sum_of_rates():
    assert projection(50).step_percent == pytest.approx(0.1)
    assert projection(50).percent == pytest.approx(50)
    # The steps are taken at the highest rate, which here is half of the optimizer's.
    assert projection(50, schedule=RateSchedule(1000, 0.5, 0.25)).percent == pytest.approx(50)


def test_layers_count_by_their_weights():
    layers = [LayerFlips('small', 100, 50, 5), LayerFlips('large', 900, 50, 0)]
    found = FlipProjection(layers, HALF)
    assert found.percent == pytest.approx(5)
    assert found.layer_percent('small') == pytest.approx(50)
    assert found.least.name == 'large'
    layers = [LayerFlips('small', 100, 50, 4), LayerFlips('large', 900, 50, 9)]
    assert FlipProjection(layers, HALF).least.name == 'large'


def test_too_few_say_how_many_times_the_rate():
    said = verdict(projection(14, 12), WRAPPER)
    assert said == (
        'signs flip 13 % of the weights over the whole schedule (least conv1, 12 %) and cannot suffice: raise the '
        'rate of latent weights about 7.7 times: '
        'optim_wrapper.paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=7.7)))'
    )


def test_the_rate_needed_goes_on_from_the_one_there_is():
    said = verdict(projection(10), dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=3)))))
    assert 'about 10 times' in said and 'lr_mult=30)' in said
    assert "optim_wrapper.constructor='BinaryOptimWrapperConstructor' and optim_wrapper.paramwise_cfg" in said


def test_enough_is_no_complaint():
    assert verdict(projection(200), WRAPPER).endswith('(least conv0, 200 %), so each can be decided by data')
    assert 'cannot suffice' in verdict(projection(200), WRAPPER, enough=300)


def test_a_layer_that_stands_still_is_named():
    said = verdict(projection(200, 0, 180), WRAPPER)
    assert said.endswith('; not one sign flipped in conv1 while the others did')
    assert projection(3, 0, 4).silent == []  # too few to tell


def test_no_flip_at_all_is_no_division():
    said = verdict(projection(0, 0), WRAPPER)
    assert said.startswith('no sign flipped in 50 steps, which cannot suffice') and 'lr_mult=N' in said
