import pytest
import torch

from rebnn_mm.models.losses.detector_comparison import DetectorOutput, Regions, Targets
from rebnn_mm.models.losses.feature_losses import (
    AttentionTransferLoss,
    MapLoss,
    ObjectFeatureLoss,
    PKDLoss,
    RegionDiscrepancyLoss,
    attention_distance,
    compare_maps,
    discrepancies,
    inside_boxes,
    standardise_maps,
)
from tests.tolerances import FLOAT64_EXACT


def test_standardised_distance_is_one_minus_the_correlation(draw):
    student, teacher = draw(3, 4, 5, 6), draw(3, 4, 5, 6)
    rows = [
        torch.stack([s.flatten(), t.flatten()])
        for s, t in zip(student.mT.swapaxes(0, 1), teacher.mT.swapaxes(0, 1), strict=True)
    ]
    expected = 1 - torch.stack([torch.corrcoef(pair)[0, 1] for pair in rows]).mean()
    torch.testing.assert_close(compare_maps(student, teacher), expected, rtol=0, atol=2e-6)


def test_standardised_distance_knows_neither_scale_nor_offset(draw, gradient):
    student, teacher = draw(2, 3, 4, 4), draw(2, 3, 4, 4)
    scale, offset = draw(1, 3, 1, 1).abs() + 0.5, draw(1, 3, 1, 1)
    same = compare_maps(student * scale + offset, 7 * teacher - 1)
    torch.testing.assert_close(same, compare_maps(student, teacher), rtol=0, atol=2e-6)
    found = gradient(lambda s: compare_maps(s, teacher), student)
    assert found.sum(dim=(0, 2, 3)).abs().max() < FLOAT64_EXACT
    assert (found * standardise_maps(student)).sum(dim=(0, 2, 3)).abs().max() < 1e-6
    step = student - 0.1 * found
    assert compare_maps(step, teacher) < compare_maps(student, teacher)


def test_a_dead_channel_has_a_finite_gradient(draw, gradient):
    student = torch.zeros(1, 2, 3, 3)
    assert gradient(lambda s: compare_maps(s, draw(1, 2, 3, 3).float()), student).isfinite().all()


def test_pkd_has_a_term_for_every_map(draw):
    ours = {'neck': (draw(2, 3, 4, 4), draw(2, 3, 2, 2)), 'roi_head.shared_head': (draw(5, 2, 2, 2),)}
    theirs = {name: tuple(-x for x in maps) for name, maps in ours.items()}
    losses = PKDLoss(list(ours), weight=0.5)(DetectorOutput(ours), DetectorOutput(theirs), Targets())
    assert losses.keys() == {'loss_pkd_neck_0', 'loss_pkd_neck_1', 'loss_pkd_roi_head.shared_head'}
    assert [round(float(value), 3) for value in losses.values()] == [1.0, 1.0, 1.0]


def test_attention_is_compared_image_by_image(draw, gradient):
    """Value and gradient against the closed form; the teacher has other channels."""
    student, teacher = draw(3, 4, 5, 6), draw(3, 2, 5, 6)
    powers = [x.square().sum(dim=1).flatten(1) for x in (student, teacher)]
    ours, theirs = (q / q.square().sum(dim=1, keepdim=True).sqrt() for q in powers)
    distances = (ours - theirs).square().sum(dim=1).sqrt()
    torch.testing.assert_close(attention_distance(student, teacher), distances.mean(), rtol=0, atol=FLOAT64_EXACT)
    found = gradient(lambda s: attention_distance(s, teacher), student)
    cosines = (ours * theirs).sum(dim=1, keepdim=True)
    pull = (cosines * ours - theirs) / (3 * distances * powers[0].norm(dim=1))[:, None]
    torch.testing.assert_close(found, 2 * student * pull.view(3, 1, 5, 6), rtol=0, atol=FLOAT64_EXACT)


def test_attention_knows_neither_scale_nor_sign_nor_order_of_channels(draw):
    student, teacher = draw(2, 3, 4, 4), draw(2, 3, 4, 4)
    scales = draw(2, 1, 1, 1).abs() + 0.5
    other = -7 * (scales * teacher)[:, [2, 0, 1]]
    torch.testing.assert_close(attention_distance(student, other), attention_distance(student, teacher))
    assert attention_distance(teacher, other) < 1e-7


def test_attention_where_maps_agree_or_are_dead_has_a_finite_gradient(draw, gradient):
    x = draw(2, 3, 4, 4)
    for student, teacher in ((x, x), (torch.zeros_like(x), x), (x, torch.zeros_like(x))):
        assert gradient(lambda s, t=teacher: attention_distance(s, t), student).isfinite().all()


def test_attention_has_a_term_for_every_map_and_wants_their_size_only(draw):
    ours = {'backbone': (draw(2, 3, 4, 4), draw(2, 6, 2, 2))}
    theirs = {'backbone': (draw(2, 5, 4, 4), draw(2, 6, 2, 2))}
    losses = AttentionTransferLoss(['backbone'], weight=0.5)(DetectorOutput(ours), DetectorOutput(theirs))
    for level, (a, b) in enumerate(zip(ours['backbone'], theirs['backbone'], strict=True)):
        torch.testing.assert_close(losses.pop(f'loss_attention_backbone_{level}'), 0.5 * attention_distance(a, b))
    assert not losses
    other = DetectorOutput({'backbone': (draw(2, 3, 4, 5), draw(2, 6, 2, 2))})
    message = (
        r'AttentionTransferLoss: maps of backbone, without .* of the student have the shape \(2, 4, 4\), those of'
    )
    with pytest.raises(ValueError, match=message):
        AttentionTransferLoss(['backbone'])(DetectorOutput(ours), other)


@pytest.mark.parametrize('loss', [PKDLoss, AttentionTransferLoss])
def test_what_is_no_map_is_refused(loss, draw):
    pooled = DetectorOutput({'neck': (draw(2, 8),)})
    with pytest.raises(ValueError, match=rf'{loss.__name__}: neck gives the shape \(2, 8\), which is not a map'):
        loss(['neck'])(pooled, pooled)
    with pytest.raises(NotImplementedError, match='MapLoss has to implement distance'):
        MapLoss(['neck']).distance(draw(1), draw(1))


def test_cells_are_inside_a_box_or_hold_its_centre():
    boxes = torch.tensor([[3.0, 0.0, 13.0, 7.0], [0.0, 14.0, 1.0, 15.0]])
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0, 1:3] = expected[1, 1:3] = expected[3, 0] = True
    assert torch.equal(inside_boxes(boxes, (16, 16), (4, 4)), expected)
    assert not inside_boxes(torch.zeros(0, 4), (16, 16), (4, 4)).any()


def test_object_features_are_the_standardised_ones_inside_boxes(draw, gradient):
    student, teacher = draw(2, 3, 4, 4), draw(2, 3, 4, 4)
    objects = [torch.tensor([[0.0, 0.0, 8.0, 8.0]]), torch.zeros(0, 4)]

    def loss(maps):
        outputs = [DetectorOutput({'backbone': (x,)}) for x in (maps, teacher)]
        return ObjectFeatureLoss(['backbone'], 2.0)(*outputs, Targets(objects, (16, 16)))['loss_objects_backbone']

    squares = (standardise_maps(student) - standardise_maps(teacher)).square()
    torch.testing.assert_close(loss(student), squares[0, :, :2, :2].mean())
    assert loss(student - 0.5 * gradient(loss, student)) < loss(student)
    empty = DetectorOutput({'backbone': (student,)})
    nothing = ObjectFeatureLoss(['backbone'])(empty, empty, Targets([torch.zeros(0, 4)] * 2, (16, 16)))
    assert float(nothing['loss_objects_backbone']) == 0


def test_discrepancies_are_mean_squares_of_what_lies_in_a_region(draw):
    student, teacher = draw(2, 3, 8, 8), draw(2, 3, 8, 8)
    # Each of 4x4 points of the grid is the centre of a cell.
    regions = torch.tensor([[0, 0, 0, 32, 32], [1, 32, 0, 64, 32.0]])
    squares = (standardise_maps(student) - standardise_maps(teacher)).square()
    expected = torch.stack([squares[0, :, :4, :4].mean(), squares[1, :, :4, 4:].mean()]) / 2
    torch.testing.assert_close(discrepancies(student, teacher, regions, (64, 64), 4), expected)
    # A height that does not divide: the scale is that of the widths.
    student, teacher = draw(1, 3, 8, 9), draw(1, 3, 8, 9)
    squares = (standardise_maps(student) - standardise_maps(teacher)).square()
    found = discrepancies(student, teacher, torch.tensor([[0, 0, 0, 32, 32.0]]), (60, 72), 4)
    torch.testing.assert_close(found, squares[0, :, :4, :4].mean()[None] / 2)


def test_only_the_regions_of_objects_that_differ_most_are_compared(draw, gradient):
    student, teacher = draw(1, 2, 16, 16), draw(1, 2, 16, 16)
    corners = torch.tensor([[0, 0], [64, 0], [0, 64], [64, 64.0]])
    targets = Targets(
        size=(128, 128),
        regions=torch.cat([torch.zeros(4, 1), corners, corners + 60], dim=1),
        region_labels=torch.tensor([0, 2, 1, 0]),  # of two classes, so the second is the background
    )
    found = discrepancies(student, teacher, targets.regions, targets.size)
    objects = found[[0, 2, 3]]

    def loss(maps, share=0.6, labels=targets.region_labels):
        ours, theirs = (DetectorOutput({'neck': (x,)}, regions=Regions(draw(4, 3), x)) for x in (maps, teacher))
        told = targets._replace(region_labels=labels)
        return RegionDiscrepancyLoss(['neck'], 2.0, share)(ours, theirs, told)['loss_discrepancy_neck']

    torch.testing.assert_close(loss(student), 2 * objects.sort().values[1:].mean())
    torch.testing.assert_close(loss(student, 0.1), 2 * objects.max())
    assert loss(student - 0.5 * gradient(loss, student)) < loss(student)
    assert not gradient(lambda x: loss(x, labels=torch.full((4,), 2)), student).any()
    with pytest.raises(ValueError, match='share=1.5 of the regions'):
        RegionDiscrepancyLoss(['neck'], share=1.5)
