import pytest
import torch
from torch.nn import functional

from rebnn_mm.models.losses.detector_comparison import DetectorOutput, Points, Regions, Targets
from rebnn_mm.models.losses.detector_losses import (
    DenseScoreLoss,
    ObjectnessLoss,
    RegionBoxLoss,
    decouple_scores,
    find_foreground,
    point_divergence,
    weigh_box_distance,
)
from tests import two_processes
from tests.tolerances import FLOAT64_EXACT


def test_decoupled_scores_are_the_written_out_divergences(draw):
    student, teacher, labels = draw(6, 4), draw(6, 4), torch.tensor([0, 1, 2, 3, 3, 1])
    expected = 0.0
    for s, t, y in zip(student.softmax(1), teacher.softmax(1), labels, strict=True):
        target = t[y] * (t[y] / s[y]).log() + (1 - t[y]) * ((1 - t[y]) / (1 - s[y])).log()
        others = [c for c in range(4) if c != y]
        q_s, q_t = s[others] / (1 - s[y]), t[others] / (1 - t[y])
        expected = expected + (2.0 * target + 0.5 * (q_t * (q_t / q_s).log()).sum()) / 6
    found = decouple_scores(student, teacher, labels, target=2.0, others=0.5)
    torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_with_both_factors_as_in_the_divergence_are_the_divergence(draw):
    student, teacher, labels = draw(1, 5), draw(1, 5), torch.tensor([2])
    whole = functional.kl_div(student.log_softmax(1), teacher.log_softmax(1), reduction='sum', log_target=True)
    others = float(1 - teacher.softmax(1)[0, 2])
    torch.testing.assert_close(decouple_scores(student, teacher, labels, 1.0, others), whole)


def test_decoupled_scores_move_the_label_towards_the_teacher(draw, gradient):
    student, teacher, labels = draw(5, 3), draw(5, 3), torch.tensor([0, 1, 2, 0, 1])
    found = gradient(lambda s: decouple_scores(s, teacher, labels, target=1.5, others=0.25), student)
    rows = torch.arange(5)
    expected = 1.5 * (student.softmax(1) - teacher.softmax(1))[rows, labels] / 5
    torch.testing.assert_close(found[rows, labels], expected, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_with_one_class_and_background_have_no_others(draw):
    student, teacher = draw(3, 2), draw(3, 2)
    labels = torch.tensor([0, 1, 0])
    for others in (0.0, 100.0):
        found = decouple_scores(student, teacher, labels, others=others)
        whole = functional.kl_div(
            student.log_softmax(1), teacher.log_softmax(1), reduction='batchmean', log_target=True
        )
        torch.testing.assert_close(found, whole, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_survive_a_sure_teacher_and_no_regions():
    teacher, labels = torch.tensor([[200.0, -200.0, 0.0]]), torch.tensor([0])
    student = torch.zeros(1, 3, dtype=torch.bfloat16, requires_grad=True)
    loss = decouple_scores(student, teacher, labels)
    loss.backward()
    assert loss.dtype is torch.float32 and loss.isfinite() and student.grad.isfinite().all()
    empty = torch.zeros(0, 3, requires_grad=True)
    decouple_scores(empty, torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).backward()
    assert empty.grad is not None


def test_objectness_is_the_cross_entropy_of_the_drawn_anchors(draw, gradient):
    student, teacher = draw(2, 7, 1), draw(2, 7, 1)
    drawn = torch.rand(2, 7, generator=torch.Generator().manual_seed(3)) > 0.5

    def loss(scores):
        outputs = [DetectorOutput({}, proposals=Points(s, s, True)) for s in (scores, teacher)]
        return ObjectnessLoss(weight=3.0)(*outputs, Targets(sampled=drawn))['loss_objectness']

    o_s, o_t = student.sigmoid()[drawn], teacher.sigmoid()[drawn]
    expected = -3.0 * (o_t * o_s.log() + (1 - o_t) * (1 - o_s).log()).mean()
    torch.testing.assert_close(loss(student), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(loss, student)
    assert not found[~drawn].any()
    torch.testing.assert_close(found[drawn], 3.0 * (o_s - o_t) / drawn.sum(), rtol=0, atol=FLOAT64_EXACT)


@pytest.mark.parametrize('power', [0.0, 1.0, 2.0])
def test_divergence_of_sigmoids_is_the_quality_focal_loss(draw, power, gradient):
    student, teacher = (Points(draw(2, 9, 3), torch.zeros(2, 9, 4), True) for _ in range(2))
    p_s, p_t = student.scores.sigmoid(), teacher.scores.sigmoid()
    terms = -(p_t * p_s.log() + (1 - p_t) * (1 - p_s).log()) * (p_t - p_s).abs() ** power
    expected = terms.sum() / p_t.amax(2).sum()
    torch.testing.assert_close(point_divergence(student, teacher, power), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: point_divergence(Points(s, s, True), teacher, power), student.scores)
    assert torch.equal(found.sign(), (p_s - p_t).sign())


def test_divergence_of_a_softmax_counts_where_the_teacher_sees_objects(draw, gradient):
    student, teacher = (Points(draw(2, 9, 3), torch.zeros(2, 9, 4), False) for _ in range(2))
    p_s, p_t = student.scores.softmax(2), teacher.scores.softmax(2)
    objects = 1 - p_t[..., 2]
    torch.testing.assert_close(find_foreground(teacher), objects)
    expected = (objects * (p_t * (p_t / p_s).log()).sum(2)).sum() / objects.sum()
    torch.testing.assert_close(point_divergence(student, teacher), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: point_divergence(Points(s, s, False), teacher), student.scores)
    torch.testing.assert_close(found, objects[..., None] * (p_s - p_t) / objects.sum())


def test_boxes_are_compared_where_the_teacher_sees_objects(draw, gradient):
    student, teacher, weights = draw(2, 5, 4), draw(2, 5, 4), draw(2, 5).abs()
    expected = (weights * (student - teacher).abs().mean(2)).sum() / weights.sum().clamp(min=1)
    torch.testing.assert_close(weigh_box_distance(student, teacher, weights), expected)
    found = gradient(lambda b: weigh_box_distance(b, teacher, weights), student)
    assert torch.equal(found.sign(), (student - teacher).sign())
    # Nothing is seen: the sum is not blown up.
    assert float(weigh_box_distance(student, teacher, 1e-9 * weights)) < 1e-7


@pytest.mark.parametrize('classes_share', [True, False])
def test_region_boxes_are_weighted_by_the_teachers_classes(draw, classes_share):
    size = 4 if classes_share else 12
    ours, theirs = (Regions(draw(6, 4).requires_grad_(), draw(6, size).requires_grad_()) for _ in 'st')
    found = RegionBoxLoss()(DetectorOutput({}, regions=ours), DetectorOutput({}, regions=theirs), Targets())
    p = theirs.scores.detach().softmax(1)[:, :3]
    distance = (ours.boxes - theirs.boxes).abs().view(6, -1, 4).mean(2)
    weights = p.sum(1, keepdim=True) if classes_share else p
    expected = (weights * distance).sum() / weights.sum().clamp(min=1)
    torch.testing.assert_close(found['loss_region_boxes'], expected)
    found['loss_region_boxes'].backward()
    assert ours.boxes.grad.any()
    assert ours.scores.grad is theirs.scores.grad is theirs.boxes.grad is None


def test_region_boxes_without_regions_are_nothing(draw):
    none = DetectorOutput({}, regions=Regions(draw(0, 4), draw(0, 12)))
    assert RegionBoxLoss()(none, none, Targets())['loss_region_boxes'] == 0


def dense_points(images):
    generator = torch.Generator().manual_seed(3)
    ours, theirs = (
        Points(torch.randn(2, 50, 3, generator=generator), torch.randn(2, 50, 4, generator=generator), True)
        for _ in 'st'
    )
    # Ten sure points in the first image, none in the second.
    scores = torch.full_like(theirs.scores, -9.0)
    scores[0, :10] = 9.0
    return [Points(x.scores[images], x.boxes[images], True) for x in (ours, theirs._replace(scores=scores))]


def dense_losses(images):
    ours, theirs = dense_points(images)
    return [point_divergence(ours, theirs), weigh_box_distance(ours.boxes, theirs.boxes, find_foreground(theirs))]


def _losses_of_a_process(rank, folder):
    torch.save(dense_losses([rank]), f'{folder}/{rank}')


def test_two_processes_weight_points_as_one_with_all_images(tmp_path):
    two_processes.run(_losses_of_a_process, str(tmp_path))
    # One process has twice the images for its mean over objects, DDP takes the mean of the gradients.
    both = [(a + b) / 2 for a, b in zip(*(torch.load(tmp_path / str(rank)) for rank in (0, 1)), strict=True)]
    torch.testing.assert_close(both, dense_losses([0, 1]))


def test_a_power_of_choice_is_that_of_the_loss():
    outputs = [DetectorOutput({}, points=points) for points in dense_points([0, 1])]
    found = DenseScoreLoss(3.0, power=2.0)(*outputs, Targets())['loss_dense_scores']
    torch.testing.assert_close(found, 3 * point_divergence(*dense_points([0, 1]), 2.0))


def test_a_power_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match=r'power=0\.5 has no gradient where both agree'):
        DenseScoreLoss(power=0.5)
