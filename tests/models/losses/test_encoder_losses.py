"""The losses between two encoders: what holds for all of them, then the values of each."""

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.models.losses import (
    AttentionScoreLoss,
    DirectionMatchingLoss,
    EncoderComparisonLoss,
    HiddenStateLoss,
    PredictionLoss,
)
from rebnn_mm.models.losses.encoder_losses import AttentionRecord, EncoderOutput
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

LAYERS, BATCH, HEADS, LENGTH, DIM = 2, 3, 2, 5, 4

LOSSES = [
    dict(type='PredictionLoss'),
    dict(type='DirectionMatchingLoss'),
    dict(type='HiddenStateLoss'),
    dict(type='HiddenStateLoss', form='mse'),
    dict(type='AttentionScoreLoss'),
]
WITH_PADDING = LOSSES[1:]

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
"""Five, three and one tokens."""


def encoded(seed, *, length=LENGTH, layers=LAYERS, labels=3, mask=None):
    """An output in float64 whose tensors are leaves with gradients."""
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    records = []
    for _ in range(layers):
        query, key, value = (leaf(BATCH, HEADS, length, DIM) for _ in range(3))
        records.append(AttentionRecord(query, key, value, leaf(BATCH, HEADS, length, length), None, DIM**-0.5))
    states = tuple(leaf(BATCH, length, HEADS * DIM) for _ in range(layers + 1))
    mask = torch.ones(BATCH, length, dtype=torch.bool) if mask is None else mask
    return EncoderOutput(leaf(BATCH, labels), states, records, mask)


def padded(output, extra, seed=9):
    """The same with padding of random content after it."""
    generator = torch.Generator().manual_seed(seed)

    def wider(x, dims):
        for dim in dims:
            shape = list(x.shape)
            shape[dim] = extra
            x = torch.cat([x, 3 * torch.randn(shape, generator=generator, dtype=x.dtype)], dim=dim)
        return x

    records = [
        record._replace(
            query=wider(record.query, [2]),
            key=wider(record.key, [2]),
            value=wider(record.value, [2]),
            scores=wider(record.scores, [2, 3]),
        )
        for record in output.attention
    ]
    mask = torch.cat([output.mask, torch.zeros(BATCH, extra, dtype=torch.bool)], dim=1)
    return EncoderOutput(output.logits, tuple(wider(state, [1]) for state in output.hidden_states), records, mask)


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


@pytest.mark.parametrize('cfg', LOSSES)
def test_double_precision_stays(cfg):
    assert all(loss.dtype == torch.float64 for loss in MODELS.build(dict(cfg))(encoded(0), encoded(1)).values())


def test_predictions_of_classes():
    student, teacher = encoded(0), encoded(1)
    p, log_q = teacher.logits.softmax(1), student.logits.log_softmax(1)
    expected = -sum(float(p[b, c] * log_q[b, c]) for b in range(3) for c in range(3)) / 9
    got = PredictionLoss()(student, teacher)['loss_pred'].item()
    assert got == pytest.approx(expected, rel=FLOAT32_ROUNDING)


def test_gradient_by_predictions_vanishes_where_both_agree():
    student = encoded(0)
    PredictionLoss()(student, encoded(0))['loss_pred'].backward()
    assert student.logits.grad.abs().max() < FLOAT32_ROUNDING


def test_predictions_of_a_regression():
    student, teacher = encoded(0, labels=1), encoded(1, labels=1)
    expected = (student.logits - teacher.logits).square().mean()
    torch.testing.assert_close(PredictionLoss()(student, teacher)['loss_pred'], expected)


def test_direction_of_hidden_states():
    student, teacher = encoded(0, mask=MASK), encoded(1, mask=MASK)
    expected = 0
    for ours, theirs in zip(student.hidden_states, teacher.hidden_states, strict=True):
        s, t = ours[MASK], theirs[MASK]
        expected = expected + (s / s.norm() - t / t.norm()).norm()
    got = HiddenStateLoss()(student, teacher)['loss_hidden']
    torch.testing.assert_close(got, expected, atol=FLOAT64_EXACT, rtol=0)


def test_squared_error_of_hidden_states():
    student, teacher = encoded(0, mask=MASK), encoded(1, mask=MASK)
    pairs = zip(student.hidden_states, teacher.hidden_states, strict=True)
    expected = sum((ours[MASK] - theirs[MASK]).square().mean() for ours, theirs in pairs)
    got = HiddenStateLoss('mse')(student, teacher)['loss_hidden']
    torch.testing.assert_close(got.double(), expected, atol=0, rtol=FLOAT32_ROUNDING)


def test_unknown_form_of_hidden_states_is_refused():
    with pytest.raises(ValueError, match="form='cosine' is unknown; use 'direction' or 'mse'"):
        HiddenStateLoss('cosine')


def test_scores_are_a_mean_over_pairs_of_real_tokens_or_over_all_pairs():
    student, teacher = encoded(0, mask=MASK), encoded(1, mask=MASK)
    masked = everything = 0
    for ours, theirs in zip(student.attention, teacher.attention, strict=True):
        squares = (ours.scores - theirs.scores).square()
        masked += torch.cat([squares[b][:, MASK[b]][:, :, MASK[b]].flatten() for b in range(3)]).mean()
        for b in range(3):
            squares[b, :, :, ~MASK[b]] = 0
        everything += squares.mean()
    for on, expected in ((True, masked), (False, everything)):
        got = AttentionScoreLoss(mask_padding=on)(student, teacher)['loss_scores']
        torch.testing.assert_close(got.double(), expected, atol=0, rtol=FLOAT32_ROUNDING)


def test_direction_matching_and_its_gradient_are_the_written_out_formula():
    student, teacher = encoded(0, mask=MASK), encoded(1, mask=MASK)
    terms = DirectionMatchingLoss()(student, teacher)
    assert list(terms) == ['loss_q', 'loss_k', 'loss_v']
    ours = torch.autograd.grad(terms['loss_k'], student.attention[0].key)[0]

    def pattern(key):
        total = torch.einsum('bhid,bhjd->bhij', key, key) / 2  # the root of d = 4
        return torch.stack([total[b] * MASK[b][:, None] * MASK[b] for b in range(3)])

    expected = 0
    for i in range(2):
        s, t = pattern(student.attention[i].key), pattern(teacher.attention[i].key)
        expected = expected + (s / s.square().sum().sqrt() - t / t.square().sum().sqrt()).square().sum().sqrt()
    torch.testing.assert_close(terms['loss_k'], expected, atol=FLOAT64_EXACT, rtol=0)
    theirs = torch.autograd.grad(expected, student.attention[0].key)[0]
    torch.testing.assert_close(ours, theirs, atol=FLOAT64_EXACT, rtol=0)


def test_direction_matching_ignores_magnitudes():
    student, teacher = encoded(0), encoded(0)
    larger = [record._replace(query=record.query * 5) for record in student.attention]
    terms = DirectionMatchingLoss()(student._replace(attention=larger), teacher)
    assert terms['loss_q'] < 1e-12


def test_direction_matching_lets_heads_have_other_widths():
    student, teacher = encoded(0), encoded(1)
    narrow = [
        r._replace(query=r.query[..., :2], key=r.key[..., :2], value=r.value[..., :2]) for r in student.attention
    ]
    assert all(value > 0 for value in DirectionMatchingLoss()(student._replace(attention=narrow), teacher).values())
