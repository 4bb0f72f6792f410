import pytest
import torch

from rebnn_mm.models.losses.detector_comparison import DetectorOutput, Product, Targets
from rebnn_mm.models.losses.feature_losses import AttentionTransferLoss, PKDLoss
from rebnn_mm.models.losses.layerwise_loss import LayerwiseLoss, amplitude_distance, angle_distance
from tests.tolerances import FLOAT64_EXACT


def test_angles_are_compared_and_sizes_are_not(draw, gradient):
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


def test_angle_and_amplitude_have_a_factor_each(draw):
    ours = [Product(draw(2, 3, 4, 4), torch.ones(2), draw(3).abs())]
    theirs = [Product(draw(2, 3, 4, 4), torch.ones(2))]
    outputs = [DetectorOutput({}, layers={'a.x': products}) for products in (ours, theirs)]
    plain, found = (loss(*outputs, Targets()) for loss in (LayerwiseLoss(['a']), LayerwiseLoss(['a'], 3.0, 5.0)))
    torch.testing.assert_close(found['loss_angle'], 3 * plain['loss_angle'])
    torch.testing.assert_close(found['loss_amplitude'], 5 * plain['loss_amplitude'])


def test_of_no_region_there_is_no_distance(draw):
    empty = torch.zeros(0, 2, 3, 3, requires_grad=True)
    maps = DetectorOutput({'roi_head.shared_head': (empty,)})
    layers = DetectorOutput({}, layers={'roi_head.x': [Product(empty, torch.zeros(0), torch.ones(2))]})
    for loss, output in (
        (PKDLoss(['roi_head.shared_head']), maps),
        (AttentionTransferLoss(['roi_head.shared_head']), maps),
        (LayerwiseLoss(['roi_head']), layers),
    ):
        for value in loss(output, output, Targets()).values():
            assert value.requires_grad and float(value.detach()) == 0


def test_layers_of_the_named_parts_count_alike(draw):
    ours, theirs = (
        {name: [Product(draw(2, 3, 2, 2), torch.ones(2))] for name in ('a.x', 'a.y', 'ab.z')} for _ in 'st'
    )
    losses = LayerwiseLoss(['a'], weight=3.0)(
        DetectorOutput({}, layers=ours), DetectorOutput({}, layers=theirs), Targets()
    )
    expected = 3 * sum(angle_distance(ours[name][0], theirs[name][0]) for name in ('a.x', 'a.y')) / 2
    torch.testing.assert_close(losses['loss_angle'], expected)
    theirs['a.x'] = [Product(draw(2, 4, 2, 2), torch.ones(2))]
    with pytest.raises(ValueError, match='LayerwiseLoss: products of a layer of the student have the shape'):
        LayerwiseLoss(['a'])(DetectorOutput({}, layers=ours), DetectorOutput({}, layers=theirs), Targets())
