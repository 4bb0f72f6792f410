import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.models.losses import (
    AttentionTransferLoss,
    DenseBoxLoss,
    DenseScoreLoss,
    DKDLoss,
    LayerwiseLoss,
    ObjectFeatureLoss,
    ObjectnessLoss,
    PKDLoss,
    RegionBoxLoss,
    RegionDiscrepancyLoss,
)
from rebnn_mm.models.losses.detector_comparison import (
    DetectorComparisonLoss,
    DetectorOutput,
    Points,
    Regions,
    Targets,
)

LOSSES = [
    DKDLoss(),
    ObjectnessLoss(),
    PKDLoss(['backbone']),
    ObjectFeatureLoss(['backbone']),
    DenseScoreLoss(),
    DenseBoxLoss(),
    RegionBoxLoss(),
    RegionDiscrepancyLoss(['backbone']),
]


def complete(draw, channels=2, classes=2, points=6, scale=1.0):
    return DetectorOutput(
        maps={'backbone': (scale * draw(1, channels, 4, 4),)},
        points=Points(scale * draw(1, points, classes), scale * draw(1, points, 4), True),
        proposals=Points(scale * draw(1, points, 1), scale * draw(1, points, 4), True),
        regions=Regions(scale * draw(3, classes + 1), scale * draw(3, 4 * classes)),
    )


def targets():
    return Targets(
        objects=[torch.tensor([[0.0, 0.0, 9.0, 9.0]])],
        size=(16, 16),
        regions=torch.tensor([[0, 0, 0, 9.0, 9.0]]).repeat(3, 1),
        region_labels=torch.tensor([0, 1, 2]),
        sampled=torch.ones(1, 6).bool(),
    )


@pytest.mark.parametrize('loss', [*LOSSES, AttentionTransferLoss(['backbone'])], ids=lambda loss: type(loss).__name__)
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
    for loss in (ObjectFeatureLoss, RegionDiscrepancyLoss):
        with pytest.raises(ValueError, match=f'{loss.__name__}: roi_head.shared_head runs on regions'):
            loss(['roi_head.shared_head'])
    with pytest.raises(NotImplementedError, match='has to implement forward'):
        DetectorComparisonLoss()(complete(draw), complete(draw), targets())


@pytest.mark.parametrize(
    ('loss', 'name'), [(PKDLoss, 'modules'), (RegionDiscrepancyLoss, 'modules'), (LayerwiseLoss, 'parts')]
)
def test_a_loss_of_nothing_is_refused(loss, name):
    with pytest.raises(ValueError, match=rf'{loss.__name__}: {name}=\[\] compares nothing. Name a part'):
        loss([])
