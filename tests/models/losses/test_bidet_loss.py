import math

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.models.losses import BiDetLoss
from rebnn_mm.models.losses.bidet_loss import information_regularisation, object_entropy, sparse_object_prior
from tests.tolerances import FLOAT64_EXACT


def scores(count, seed=0):
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def features(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_regularisation_and_its_gradient_are_the_closed_form():
    levels = [features(2, 3, 4, 4).requires_grad_(), features(5, 7, seed=1).requires_grad_()]
    value = information_regularisation(levels)
    squares = [(level.detach() ** 2).sum() / level.numel() for level in levels]
    torch.testing.assert_close(value.detach(), (squares[0] + squares[1]) / 2, atol=FLOAT64_EXACT, rtol=0)
    value.backward()
    for level in levels:
        expected = 2 * level.detach() / (2 * level.numel())
        torch.testing.assert_close(level.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_regularisation_of_half_precision_does_not_overflow():
    assert information_regularisation([torch.full((4,), 300.0, dtype=torch.float16)]).item() == 90000.0


def test_regularisation_without_regions_is_zero():
    assert information_regularisation([torch.zeros(0, 512)]).item() == 0.0


@pytest.mark.parametrize('objects', [1, 3])
def test_entropy_and_its_gradient_are_the_closed_form(objects):
    p = scores(6).requires_grad_()
    value = object_entropy(p, objects)
    total = sum(p.tolist())
    share = [score / total for score in p.tolist()]
    assert value.item() == pytest.approx(-sum(s * math.log(s) for s in share) / objects, abs=FLOAT64_EXACT)
    value.backward()
    expected = torch.tensor([-(1 + math.log(s)) / (objects * total) for s in share], dtype=torch.float64)
    torch.testing.assert_close(p.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_descent_raises_the_leading_score_and_lowers_the_rest():
    p = torch.tensor([0.9, 0.2, 0.1], requires_grad=True)
    object_entropy(p, 1).backward()
    assert (p.grad.sign() == torch.tensor([-1.0, 1.0, 1.0])).all()


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
@pytest.mark.parametrize('logits', [[-1e4, -1e4], [-80.0, -90.0], [1e4, -1e4], [0.0, -1e4]])
def test_vanishing_scores_give_finite_values_and_gradients(logits, dtype):
    logits = torch.tensor(logits, dtype=dtype, requires_grad=True)
    value = object_entropy(logits.sigmoid(), 1)
    value.backward()
    assert value.isfinite() and logits.grad.isfinite().all()


def test_half_precision_is_summed_in_single_precision():
    p = scores(2000).half()
    assert torch.equal(object_entropy(p, 1), object_entropy(p.float(), 1))


def test_prior_averages_over_classes_that_claim_too_much():
    many, few, equal, none = scores(5), scores(2, 1), scores(4, 2), scores(3, 3)
    prior = sparse_object_prior([(many, 2), (few, 1), (equal, 4), (scores(1), 3), (none, 0)])
    expected = (object_entropy(many, 2) + object_entropy(few, 1)) / 2
    torch.testing.assert_close(prior, expected, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('kept', [[], [(torch.ones(2), 2)], [(torch.zeros(0), 1)], [(torch.ones(3), 0)]])
def test_prior_without_a_class_that_counts_is_zero(kept):
    assert sparse_object_prior(kept).item() == 0.0


def test_weights_and_names():
    loss = MODELS.build(dict(type='BiDetLoss', regularisation=0.5, prior=0.01))
    scores = torch.tensor([0.9, 0.3, 0.2])
    values = loss([torch.ones(2, 3), torch.full((4,), 3.0)], [(scores, 1), (scores, 3)], prefix='loss_rpn_')
    assert list(values) == ['loss_rpn_information', 'loss_rpn_prior']
    assert values['loss_rpn_information'].item() == pytest.approx(0.5 * (1 + 9) / 2)
    assert values['loss_rpn_prior'].item() == pytest.approx(0.01 * object_entropy(scores, 1).item())


def test_starts_switched_off_and_is_no_part_of_the_state():
    loss = BiDetLoss(0.1, 0.2)
    assert loss.active is False
    loss.active = True
    assert dict(loss.state_dict()) == {} and 'active=True' in repr(loss)
