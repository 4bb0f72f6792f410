import pytest
import torch
from mmcv.ops import nms

pytest.importorskip('mmdet')

from rebnn_mm.models.detection.bidet import keep_scores, sample_location
from tests.tolerances import FLOAT64_EXACT


def prediction(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(('shape', 'dim'), [((3, 8), 1), ((2, 24, 4, 5), 1), ((2, 5, 8), -1)])
def test_without_sigma_it_is_the_first_half(shape, dim):
    values = prediction(*shape)
    state = torch.random.get_rng_state()
    assert torch.equal(sample_location(values, dim, 0.0), values.chunk(2, dim)[0])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_deviation_follows_the_predicted_variance():
    torch.manual_seed(0)
    log_variance = torch.tensor([0.0, 2.0, -4.0], dtype=torch.float64)
    values = torch.cat([torch.full((20000, 3), 5.0).double(), log_variance.expand(20000, 3)], dim=1)
    drawn = sample_location(values, 1, sigma=0.1)
    # 20,000 draws estimate a deviation to half a percent (one standard error).
    assert drawn.std(dim=0).tolist() == pytest.approx((0.1 * (log_variance / 2).exp()).tolist(), rel=0.03)
    assert drawn.mean(dim=0).tolist() == pytest.approx([5.0] * 3, abs=0.01)


def test_gradients_are_the_closed_form():
    torch.manual_seed(1)
    values, upstream = prediction(4, 6).requires_grad_(), prediction(4, 3)
    drawn = sample_location(values, 1, sigma=0.7)
    (drawn * upstream).sum().backward()
    of_mean, of_log_variance = values.grad.chunk(2, 1)
    mean = values.detach().chunk(2, 1)[0]
    torch.testing.assert_close(of_mean, upstream, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(of_log_variance, upstream * (drawn.detach() - mean) / 2, atol=FLOAT64_EXACT, rtol=0)


def case(boxes=60, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(boxes, 2, generator=generator) * 40
    where = torch.cat([corners, corners + 5 + torch.rand(boxes, 2, generator=generator) * 20], dim=1)
    return where, torch.rand(boxes, classes, generator=generator)


def test_overlapping_box_of_the_same_class_is_dropped():
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 9.0], [20.0, 20.0, 30.0, 30.0]])
    scores = torch.tensor([[0.6, 0.0], [0.8, 0.7], [0.3, 0.2]])
    (first, one), (second, two) = keep_scores(boxes, scores, torch.tensor([1, 0, 1]), 0.25, 0.5)
    assert first.tolist() == pytest.approx([0.8, 0.3]) and one == 1
    assert second.tolist() == pytest.approx([0.7]) and two == 2


@pytest.mark.parametrize('max_per_class', [None, 3])
def test_agrees_with_suppression_class_by_class(max_per_class):
    boxes, scores = case()
    kept = keep_scores(boxes, scores, torch.tensor([3, 1, 3]), 0.4, 0.45, max_per_class)
    assert [count for _, count in kept] == [1, 2]
    for (found, _), label in zip(kept, (1, 3), strict=True):
        above = scores[:, label] > 0.4
        expected, _ = nms(boxes[above], scores[above, label], 0.45)
        assert found.tolist() == expected[:max_per_class, 4].tolist()


def test_every_class_may_have_boxes_of_its_own():
    boxes, scores = case()
    own = torch.stack([boxes + 3 * i for i in range(5)], dim=1)
    own[:, 4] = own[:1, 4]
    (shared, _), (one_place, _) = keep_scores(own, scores, torch.tensor([0, 4]), 0.1, 0.5)
    assert len(shared) > 1
    assert one_place.tolist() == [scores[:, 4].max().item()]


def test_gradient_goes_to_the_kept_scores_only():
    boxes, scores = case()
    scores.requires_grad_()
    boxes.requires_grad_()
    kept = keep_scores(boxes, scores, torch.tensor([2]), 0.3, 0.5)
    kept[0][0].sum().backward()
    assert boxes.grad is None
    assert scores.grad.sum() == len(kept[0][0]) and set(scores.grad.unique().tolist()) == {0.0, 1.0}
    assert not scores.grad[:, [0, 1, 3, 4]].any()


@pytest.mark.parametrize(('labels', 'counts'), [([], []), ([1, 2], [1, 1])])
def test_nothing_above_the_threshold_or_no_objects(labels, counts):
    boxes, scores = case()
    kept = keep_scores(boxes, scores * 0.01, torch.tensor(labels, dtype=torch.long), 0.3, 0.5)
    assert [count for _, count in kept] == counts and all(len(found) == 0 for found, _ in kept)
