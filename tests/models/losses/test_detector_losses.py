import pytest
import torch
from mmengine.registry import MODELS
from torch.nn import functional

from rebnn_mm.models.losses.detector_comparison import (
    DetectorComparisonLoss,
    DetectorOutput,
    Points,
    Product,
    Regions,
    Targets,
)
from rebnn_mm.models.losses.detector_losses import (
    DenseBoxLoss,
    DenseScoreLoss,
    DKDLoss,
    ObjectnessLoss,
    RegionBoxLoss,
    decoupled_scores,
    foreground,
    point_divergence,
    weighted_box_distance,
)
from rebnn_mm.models.losses.feature_losses import (
    LayerwiseLoss,
    ObjectFeatureLoss,
    PKDLoss,
    amplitude_distance,
    angle_distance,
    inside_boxes,
    standardised,
    standardised_distance,
)

FLOAT64_EXACT = 1e-12


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


def gradient(loss, x):
    x = x.clone().requires_grad_()
    loss(x).backward()
    return x.grad


def test_decoupled_scores_are_the_written_out_divergences(draw):
    student, teacher, labels = draw(6, 4), draw(6, 4), torch.tensor([0, 1, 2, 3, 3, 1])
    expected = 0.0
    for s, t, y in zip(student.softmax(1), teacher.softmax(1), labels, strict=True):
        target = t[y] * (t[y] / s[y]).log() + (1 - t[y]) * ((1 - t[y]) / (1 - s[y])).log()
        others = [c for c in range(4) if c != y]
        q_s, q_t = s[others] / (1 - s[y]), t[others] / (1 - t[y])
        expected = expected + (2.0 * target + 0.5 * (q_t * (q_t / q_s).log()).sum()) / 6
    found = decoupled_scores(student, teacher, labels, target=2.0, others=0.5)
    torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_with_both_factors_as_in_the_divergence_are_the_divergence(draw):
    student, teacher, labels = draw(1, 5), draw(1, 5), torch.tensor([2])
    whole = functional.kl_div(student.log_softmax(1), teacher.log_softmax(1), reduction='sum', log_target=True)
    others = float(1 - teacher.softmax(1)[0, 2])
    torch.testing.assert_close(decoupled_scores(student, teacher, labels, 1.0, others), whole)


def test_decoupled_scores_move_the_label_towards_the_teacher(draw):
    student, teacher, labels = draw(5, 3), draw(5, 3), torch.tensor([0, 1, 2, 0, 1])
    found = gradient(lambda s: decoupled_scores(s, teacher, labels, target=1.5, others=0.25), student)
    rows = torch.arange(5)
    expected = 1.5 * (student.softmax(1) - teacher.softmax(1))[rows, labels] / 5
    torch.testing.assert_close(found[rows, labels], expected, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_with_one_class_and_background_have_no_others(draw):
    student, teacher = draw(3, 2), draw(3, 2)
    labels = torch.tensor([0, 1, 0])
    for others in (0.0, 100.0):
        found = decoupled_scores(student, teacher, labels, others=others)
        whole = functional.kl_div(
            student.log_softmax(1), teacher.log_softmax(1), reduction='batchmean', log_target=True
        )
        torch.testing.assert_close(found, whole, rtol=0, atol=FLOAT64_EXACT)


def test_decoupled_scores_survive_a_sure_teacher_and_no_regions():
    teacher, labels = torch.tensor([[200.0, -200.0, 0.0]]), torch.tensor([0])
    student = torch.zeros(1, 3, dtype=torch.bfloat16, requires_grad=True)
    loss = decoupled_scores(student, teacher, labels)
    loss.backward()
    assert loss.dtype is torch.float32 and loss.isfinite() and student.grad.isfinite().all()
    empty = torch.zeros(0, 3, requires_grad=True)
    decoupled_scores(empty, torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).backward()
    assert empty.grad is not None


def test_objectness_is_the_cross_entropy_of_the_drawn_anchors(draw):
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


def test_standardised_distance_is_one_minus_the_correlation(draw):
    student, teacher = draw(3, 4, 5, 6), draw(3, 4, 5, 6)
    rows = [
        torch.stack([s.flatten(), t.flatten()])
        for s, t in zip(student.mT.swapaxes(0, 1), teacher.mT.swapaxes(0, 1), strict=True)
    ]
    expected = 1 - torch.stack([torch.corrcoef(pair)[0, 1] for pair in rows]).mean()
    torch.testing.assert_close(standardised_distance(student, teacher), expected, rtol=0, atol=2e-6)


def test_standardised_distance_knows_neither_scale_nor_offset(draw):
    student, teacher = draw(2, 3, 4, 4), draw(2, 3, 4, 4)
    scale, offset = draw(1, 3, 1, 1).abs() + 0.5, draw(1, 3, 1, 1)
    same = standardised_distance(student * scale + offset, 7 * teacher - 1)
    torch.testing.assert_close(same, standardised_distance(student, teacher), rtol=0, atol=2e-6)
    found = gradient(lambda s: standardised_distance(s, teacher), student)
    assert found.sum(dim=(0, 2, 3)).abs().max() < FLOAT64_EXACT
    assert (found * standardised(student)).sum(dim=(0, 2, 3)).abs().max() < 1e-6
    step = student - 0.1 * found
    assert standardised_distance(step, teacher) < standardised_distance(student, teacher)


def test_a_dead_channel_has_a_finite_gradient(draw):
    student = torch.zeros(1, 2, 3, 3)
    assert gradient(lambda s: standardised_distance(s, draw(1, 2, 3, 3).float()), student).isfinite().all()


def test_pkd_has_a_term_for_every_map(draw):
    ours = {'neck': (draw(2, 3, 4, 4), draw(2, 3, 2, 2)), 'roi_head.shared_head': (draw(5, 2, 2, 2),)}
    theirs = {name: tuple(-x for x in maps) for name, maps in ours.items()}
    losses = PKDLoss(list(ours), weight=0.5)(DetectorOutput(ours), DetectorOutput(theirs), Targets())
    assert losses.keys() == {'loss_pkd_neck_0', 'loss_pkd_neck_1', 'loss_pkd_roi_head.shared_head'}
    assert [round(float(value), 3) for value in losses.values()] == [1.0, 1.0, 1.0]


def test_cells_are_inside_a_box_or_hold_its_centre():
    boxes = torch.tensor([[3.0, 0.0, 13.0, 7.0], [0.0, 14.0, 1.0, 15.0]])
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0, 1:3] = expected[1, 1:3] = expected[3, 0] = True
    assert torch.equal(inside_boxes(boxes, (16, 16), (4, 4)), expected)
    assert not inside_boxes(torch.zeros(0, 4), (16, 16), (4, 4)).any()


def test_object_features_are_the_standardised_ones_inside_boxes(draw):
    student, teacher = draw(2, 3, 4, 4), draw(2, 3, 4, 4)
    objects = [torch.tensor([[0.0, 0.0, 8.0, 8.0]]), torch.zeros(0, 4)]

    def loss(maps):
        outputs = [DetectorOutput({'backbone': (x,)}) for x in (maps, teacher)]
        return ObjectFeatureLoss(['backbone'], 2.0)(*outputs, Targets(objects, (16, 16)))['loss_objects_backbone']

    squares = (standardised(student) - standardised(teacher)).square()
    torch.testing.assert_close(loss(student), squares[0, :, :2, :2].mean())
    assert loss(student - 0.5 * gradient(loss, student)) < loss(student)
    empty = DetectorOutput({'backbone': (student,)})
    nothing = ObjectFeatureLoss(['backbone'])(empty, empty, Targets([torch.zeros(0, 4)] * 2, (16, 16)))
    assert float(nothing['loss_objects_backbone']) == 0


@pytest.mark.parametrize('power', [0.0, 1.0, 2.0])
def test_divergence_of_sigmoids_is_the_quality_focal_loss(draw, power):
    student, teacher = (Points(draw(2, 9, 3), torch.zeros(2, 9, 4), True) for _ in range(2))
    p_s, p_t = student.scores.sigmoid(), teacher.scores.sigmoid()
    terms = -(p_t * p_s.log() + (1 - p_t) * (1 - p_s).log()) * (p_t - p_s).abs() ** power
    expected = terms.sum() / p_t.amax(2).sum()
    torch.testing.assert_close(point_divergence(student, teacher, power), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: point_divergence(Points(s, s, True), teacher, power), student.scores)
    assert torch.equal(found.sign(), (p_s - p_t).sign())


def test_divergence_of_a_softmax_counts_where_the_teacher_sees_objects(draw):
    student, teacher = (Points(draw(2, 9, 3), torch.zeros(2, 9, 4), False) for _ in range(2))
    p_s, p_t = student.scores.softmax(2), teacher.scores.softmax(2)
    objects = 1 - p_t[..., 2]
    torch.testing.assert_close(foreground(teacher), objects)
    expected = (objects * (p_t * (p_t / p_s).log()).sum(2)).sum() / objects.sum()
    torch.testing.assert_close(point_divergence(student, teacher), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: point_divergence(Points(s, s, False), teacher), student.scores)
    torch.testing.assert_close(found, objects[..., None] * (p_s - p_t) / objects.sum())


def test_boxes_are_compared_where_the_teacher_sees_objects(draw):
    student, teacher, weights = draw(2, 5, 4), draw(2, 5, 4), draw(2, 5).abs()
    expected = (weights * (student - teacher).abs().mean(2)).sum() / weights.sum().clamp(min=1)
    torch.testing.assert_close(weighted_box_distance(student, teacher, weights), expected)
    found = gradient(lambda b: weighted_box_distance(b, teacher, weights), student)
    assert torch.equal(found.sign(), (student - teacher).sign())
    # Nothing is seen: the sum is not blown up.
    assert float(weighted_box_distance(student, teacher, 1e-9 * weights)) < 1e-7


@pytest.mark.parametrize('classes_share', [True, False])
def test_region_boxes_are_weighted_by_class(draw, classes_share):
    scores, boxes = draw(6, 4), (draw(6, 4 if classes_share else 12), draw(6, 4 if classes_share else 12))
    outputs = [DetectorOutput({}, regions=Regions(scores, b)) for b in boxes]
    found = RegionBoxLoss()(*outputs, Targets())['loss_region_boxes']
    p = scores.softmax(1)[:, :3]
    distance = (boxes[0] - boxes[1]).abs().view(6, -1, 4).mean(2)
    weights = p.sum(1, keepdim=True) if classes_share else p
    torch.testing.assert_close(found, (weights * distance).sum() / weights.sum().clamp(min=1))


LOSSES = [
    DKDLoss(),
    ObjectnessLoss(),
    PKDLoss(['backbone']),
    ObjectFeatureLoss(['backbone']),
    DenseScoreLoss(),
    DenseBoxLoss(),
    RegionBoxLoss(),
]


def complete(draw, channels=2, classes=2, points=6, scale=1.0):
    return DetectorOutput(
        maps={'backbone': (scale * draw(1, channels, 4, 4),)},
        points=Points(scale * draw(1, points, classes), scale * draw(1, points, 4), True),
        proposals=Points(scale * draw(1, points, 1), scale * draw(1, points, 4), True),
        regions=Regions(scale * draw(3, classes + 1), scale * draw(3, 4 * classes)),
    )


def targets():
    return Targets([torch.tensor([[0.0, 0.0, 9.0, 9.0]])], (16, 16), torch.tensor([0, 1, 2]), torch.ones(1, 6).bool())


@pytest.mark.parametrize('loss', LOSSES, ids=lambda loss: type(loss).__name__)
def test_every_loss_is_registered_weighted_and_deaf_to_the_teachers_gradient(draw, loss):
    student, teacher = complete(draw), complete(draw)
    leaves = [x.requires_grad_() for x in (teacher.maps['backbone'][0], teacher.points.scores, teacher.regions.scores)]
    options = {'modules': loss.compared} if loss.compared else {}
    double = MODELS.build(dict(type=type(loss).__name__, weight=2.0, **options))
    (name,) = loss(student, teacher, targets())
    once, twice = (each(student, teacher, targets())[name] for each in (loss, double))
    torch.testing.assert_close(twice, 2 * once)
    assert name.startswith('loss_') and once.ndim == 0 and once.requires_grad is False
    assert all(leaf.grad is None for leaf in leaves)
    assert not list(loss.parameters()) and not loss.state_dict()
    assert 'weight=2.0' in repr(double)


@pytest.mark.parametrize('loss', LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_teacher_of_other_sizes_is_refused(draw, loss):
    with pytest.raises(ValueError, match=rf'{type(loss).__name__}: .* of the student have the shape .*Take a teacher'):
        loss(complete(draw), complete(draw, channels=3, classes=3, points=7), targets())


def test_other_levels_and_maps_of_regions_are_refused(draw):
    x = draw(1, 2, 3, 3)
    with pytest.raises(ValueError, match='neck of the student gives 2 maps, that of the teacher 1'):
        PKDLoss(['neck'])(DetectorOutput({'neck': (x, x)}), DetectorOutput({'neck': (x,)}), Targets())
    with pytest.raises(ValueError, match='roi_head.shared_head runs on regions'):
        ObjectFeatureLoss(['roi_head.shared_head'])
    with pytest.raises(NotImplementedError, match='has to implement forward'):
        DetectorComparisonLoss()(complete(draw), complete(draw), targets())


def test_angles_are_compared_and_sizes_are_not(draw):
    student, teacher = draw(3, 2, 4, 4), draw(3, 2, 4, 4)
    sizes = draw(2, 3).abs() + 1
    expected = torch.stack(
        [(student[n] / sizes[0, n] - teacher[n] / sizes[1, n]).norm() ** 2 for n in range(3)]
    ).mean()
    pair = Product(student, sizes[0]), Product(teacher, sizes[1])
    torch.testing.assert_close(angle_distance(*pair), expected, rtol=0, atol=FLOAT64_EXACT)
    scaled = Product(5 * student, 5 * sizes[0]), Product(0.1 * teacher, 0.1 * sizes[1])
    torch.testing.assert_close(angle_distance(*scaled), expected, rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: angle_distance(Product(s, sizes[0]), pair[1]), student)
    size = sizes[:, :, None, None, None]
    torch.testing.assert_close(found, 2 / 3 / size[0] * (student / size[0] - teacher / size[1]))


def test_amplitude_moves_the_factor_and_nothing_else(draw):
    student, teacher, factor = draw(3, 2, 4, 4), draw(3, 2, 4, 4), draw(2).abs()
    size = torch.ones(3)
    values = student.clone().requires_grad_()
    alpha = factor.clone().requires_grad_()
    loss = amplitude_distance(Product(values, size, alpha), Product(teacher, size))
    expected = (teacher - factor[:, None, None] * student).norm() ** 2 / teacher.norm() ** 2
    torch.testing.assert_close(loss.detach(), expected, rtol=0, atol=FLOAT64_EXACT)
    loss.backward()
    assert values.grad is None
    # Zero at the least squares solution.
    best = ((student * teacher).sum((0, 2, 3)) / student.square().sum((0, 2, 3))).requires_grad_()
    amplitude_distance(Product(student, size, best), Product(teacher, size)).backward()
    assert best.grad.abs().max() < FLOAT64_EXACT
    assert float(amplitude_distance(Product(student, size), Product(teacher, size))) == 0


def test_layers_of_the_named_parts_count_alike(draw):
    ours, theirs = ({name: Product(draw(2, 3, 2, 2), torch.ones(2)) for name in ('a.x', 'a.y', 'ab.z')} for _ in 'st')
    losses = LayerwiseLoss(['a'], weight=3.0)(
        DetectorOutput({}, layers=ours), DetectorOutput({}, layers=theirs), Targets()
    )
    expected = 3 * sum(angle_distance(ours[name], theirs[name]) for name in ('a.x', 'a.y')) / 2
    torch.testing.assert_close(losses['loss_angle'], expected)
    theirs['a.x'] = Product(draw(2, 4, 2, 2), torch.ones(2))
    with pytest.raises(ValueError, match='LayerwiseLoss: products of a layer of the student have the shape'):
        LayerwiseLoss(['a'])(DetectorOutput({}, layers=ours), DetectorOutput({}, layers=theirs), Targets())
