import pytest
import torch

pytest.importorskip('mmdet')

from rebnn_mm.models.detection.teacher_student_detector import has_place, points_of

from .taught_samples import CLASSES, built, c4, fcos, retina, taught


def test_levels_and_anchors_lie_behind_each_other_as_in_the_head():
    model = built(retina(None))
    torch.manual_seed(0)
    scores = [torch.randn(2, CLASSES, 8, 8), torch.randn(2, CLASSES, 4, 4)]
    boxes = [torch.randn(2, 4, 8, 8), torch.randn(2, 4, 4, 4)]
    points = points_of(model.bbox_head, (scores, boxes))
    assert points.scores.shape == (2, 80, CLASSES) and points.boxes.shape == (2, 80, 4) and points.sigmoid
    assert torch.equal(points.scores[1, 64 + 4 * 2 + 3], scores[1][1, :, 2, 3])
    assert torch.equal(points.boxes[0, 8 * 5 + 7], boxes[0][0, :, 5, 7])


def test_distances_to_the_sides_count_as_much_in_large_boxes_as_in_small_ones():
    """In pixels, a box of 200 pixels had 20 times the gradient of one of 10, and trainings on photographs diverged."""
    model = built(fcos(None))
    raw = torch.full((2, 4, 1, 1), 0.1, requires_grad=True)
    size = torch.tensor([10.0, 200.0]).view(2, 1, 1, 1)
    level = torch.zeros(2, CLASSES, 1, 1)
    points_of(model.bbox_head, ([level], [size * raw.exp()])).boxes.sum().backward()
    assert torch.allclose(raw.grad[0], raw.grad[1], rtol=0.1)
    # Some heads predict distances below 0 at first.
    distances = torch.tensor([-3.0, 3.0]).view(2, 1, 1, 1).expand(2, 4, 1, 1)
    boxes = points_of(model.bbox_head, ([level], [distances])).boxes
    assert torch.allclose(boxes[:, 0, 0], torch.tensor([-1.0, 1.0]) * torch.tensor(4.0).log())


def test_boxes_in_other_units_are_refused():
    other = fcos(None)
    other['bbox_head']['norm_on_bbox'] = False
    with pytest.raises(ValueError, match=r"DenseBoxLoss compares .* units of boxes .*'norm_on_bbox': False"):
        built(taught('not/there.pth', fcos(), other, losses=[dict(type='DenseBoxLoss')]))
    # Scores of the same places can be.
    built(taught('not/there.pth', fcos(), other, losses=[dict(type='DenseScoreLoss')]))


def test_points_of_other_strides_are_refused():
    other = fcos(None)
    other['bbox_head']['strides'] = [16, 32]
    with pytest.raises(ValueError, match='DenseScoreLoss compares .* strides of the student are'):
        built(taught('not/there.pth', fcos(), other, losses=[dict(type='DenseScoreLoss')]))


def test_probabilities_are_not_taken_for_what_becomes_them():
    from mmdet.models import TOODHead

    anchors = dict(type='AnchorGenerator', ratios=[1.0], octave_base_scale=8, scales_per_octave=1, strides=[8, 16])
    loss = dict(type='QualityFocalLoss', use_sigmoid=True, activated=True)
    head = TOODHead(
        2,
        8,
        feat_channels=8,
        stacked_convs=1,
        num_dcn=0,
        norm_cfg=dict(type='BN'),
        anchor_generator=anchors,
        loss_cls=loss,
    )
    model = built(retina(None))
    assert has_place(model, 'points')
    model.bbox_head = head
    assert not has_place(model, 'points')


def test_heads_whose_scores_mean_something_else_are_not_compared():
    from mmdet.models import YOLOXHead

    model = built(retina(None))
    model.bbox_head = YOLOXHead(2, 8, feat_channels=8, stacked_convs=1)
    assert not has_place(model, 'points')
    two_stage = built(c4(None))
    assert has_place(two_stage, 'regions')
    two_stage.roi_head.bbox_head.loss_cls.custom_cls_channels = True
    assert not has_place(two_stage, 'regions')


def test_a_level_in_several_tensors_is_refused():
    head = built(retina(None)).bbox_head
    level = torch.zeros(1, CLASSES, 4, 4)
    with pytest.raises(ValueError, match='RetinaHead predicts a level in several tensors'):
        points_of(head, ([level], [(level, level)]))


def test_lists_of_a_config_are_the_tuples_of_a_default():
    teacher = retina(None)
    teacher['bbox_head']['bbox_coder'] = dict(
        type='DeltaXYWHBBoxCoder', target_means=[0, 0, 0, 0], target_stds=[1.0, 1.0, 1.0, 1.0]
    )
    built(taught('not/there.pth', retina(), teacher, losses=[dict(type='DenseBoxLoss')]))
    teacher['bbox_head']['bbox_coder']['target_stds'] = [0.5] * 4
    with pytest.raises(ValueError, match='units of boxes of the student are'):
        built(taught('not/there.pth', retina(), teacher, losses=[dict(type='DenseBoxLoss')]))
