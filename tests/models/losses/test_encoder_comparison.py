"""What holds for every loss that compares two encoders; values are in each loss's own file."""

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.models.losses import EncoderComparisonLoss
from tests.models.losses.encoders import encoded, padded
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

LOSSES = [
    dict(type='PredictionLoss'),
    dict(type='DirectionMatchingLoss'),
    dict(type='HiddenStateLoss'),
    dict(type='HiddenStateLoss', form='mse'),
    dict(type='AttentionScoreLoss'),
]
WITH_PADDING = LOSSES[1:]


def gradients(output):
    leaves = [output.logits, *output.hidden_states]
    leaves += [part for record in output.attention for part in (record.query, record.key, record.value, record.scores)]
    return [leaf.grad for leaf in leaves]


def test_every_registered_loss_is_tested_here():
    registered = {
        name
        for name, cls in MODELS.module_dict.items()
        if isinstance(cls, type) and issubclass(cls, EncoderComparisonLoss) and cls.__module__.startswith('rebnn_mm.')
    }
    assert registered == {cfg['type'] for cfg in LOSSES}


@pytest.mark.parametrize('cfg', WITH_PADDING)
def test_masked_padding_changes_neither_loss_nor_gradient(cfg):
    loss = MODELS.build(dict(cfg))
    student, teacher = encoded(0), encoded(1)
    short = loss(student, teacher)
    sum(short.values()).backward()
    before = gradients(student)
    again = encoded(0)
    long = loss(padded(again, 3), padded(teacher, 3, seed=8))
    sum(long.values()).backward()
    for name, value in short.items():
        torch.testing.assert_close(long[name], value, atol=FLOAT32_ROUNDING, rtol=0)
    for ours, theirs in zip(gradients(again), before, strict=True):
        torch.testing.assert_close(ours, theirs, atol=FLOAT32_ROUNDING, rtol=0)


@pytest.mark.parametrize('cfg', WITH_PADDING)
def test_unmasked_padding_counts(cfg):
    student, teacher = padded(encoded(0), 3), padded(encoded(1), 3, seed=8)
    masked, unmasked = (MODELS.build(dict(cfg, mask_padding=on))(student, teacher) for on in (True, False))
    assert all((masked[name] - unmasked[name]).abs() > 1e-3 for name in masked)


@pytest.mark.parametrize('cfg', LOSSES)
def test_weight_scales_every_term(cfg):
    student, teacher = encoded(0), encoded(1)
    single, triple = (MODELS.build(dict(cfg, weight=weight))(student, teacher) for weight in (1.0, 3.0))
    for name in single:
        assert name.startswith('loss_') and single[name] > 0
        torch.testing.assert_close(triple[name], 3 * single[name], atol=FLOAT64_EXACT, rtol=FLOAT32_ROUNDING)


@pytest.mark.parametrize('cfg', LOSSES[1:])
def test_equal_outputs_have_no_loss_and_a_finite_gradient(cfg):
    student = encoded(0)
    terms = MODELS.build(dict(cfg))(student, encoded(0))
    sum(terms.values()).backward()
    assert all(value.item() == 0 for value in terms.values())
    assert all(grad is None or torch.equal(grad, torch.zeros_like(grad)) for grad in gradients(student))


@pytest.mark.parametrize('cfg', WITH_PADDING)
def test_another_depth_is_refused(cfg):
    with pytest.raises(
        ValueError, match='the student has [23] .*, the teacher [34]. Take a teacher of the same depth'
    ):
        MODELS.build(dict(cfg))(encoded(0), encoded(1, layers=3))


@pytest.mark.parametrize('cfg', LOSSES)
def test_other_shapes_are_refused(cfg):
    other = encoded(1, length=4, labels=2)
    with pytest.raises(ValueError, match=r'of the student have the shape \(3, .*those of the teacher \(3, '):
        MODELS.build(dict(cfg))(encoded(0), other)


@pytest.mark.parametrize('cfg', LOSSES)
def test_half_precision_is_computed_in_single(cfg):
    def cast(output, dtype):
        records = [r._replace(**{f: getattr(r, f).to(dtype) for f in r._fields[:4]}) for r in output.attention]
        states = tuple(state.to(dtype) for state in output.hidden_states)
        return output._replace(logits=output.logits.to(dtype), hidden_states=states, attention=records)

    half = MODELS.build(dict(cfg))(cast(encoded(0), torch.bfloat16), cast(encoded(1), torch.bfloat16))
    single = MODELS.build(dict(cfg))(cast(encoded(0), torch.float32), cast(encoded(1), torch.float32))
    for name in single:
        assert half[name].dtype == torch.float32
        torch.testing.assert_close(half[name], single[name], atol=0, rtol=0.02)
