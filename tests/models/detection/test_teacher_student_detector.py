import pickle
from copy import deepcopy

import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.model import ExponentialMovingAverage
from torch import nn

pytest.importorskip('mmdet')

from mmdet.models.detectors import FasterRCNN, RetinaNet

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models.detection import TeacherStudentDetector
from rebnn_mm.models.detection.teacher_student_detector import points_of, product_of, watch_layers
from rebnn_mm.models.losses import compare_maps
from rebnn_mm.models.losses.feature_losses import ObjectFeatureLoss
from rebnn_mm.models.losses.layerwise_loss import angle_distance
from rebnn_mm.models.teacher import note_calls

from .taught_samples import (
    BINARY,
    CLASSES,
    LAYERWISE,
    ONE_STAGE,
    TWO_STAGE,
    built,
    c4,
    fcos,
    losses_of,
    retina,
    sample,
    save_teacher,
    ssd,
    taught,
    total,
)

# Some tests look at a loss only and never step.
pytestmark = pytest.mark.filterwarnings('ignore:.*trained without the resilient gradient')


def test_losses_of_the_detector_stay_and_those_of_the_comparison_are_added(build):
    model, plain = build(), built(c4())
    plain.load_state_dict(model.state_dict())
    own, losses = losses_of(plain.train()), losses_of(model)
    added = {'loss_dkd', 'loss_objectness', 'loss_region_boxes', 'loss_discrepancy_backbone'}
    added |= {'loss_pkd_backbone', 'loss_pkd_roi_head.shared_head'}
    assert losses.keys() == own.keys() | added
    for name, value in own.items():
        pair = (value[0], losses[name][0]) if isinstance(value, list) else (value, losses[name])
        torch.testing.assert_close(*pair, rtol=0, atol=0)
    assert all(losses[name].isfinite() and losses[name] > 0 for name in added)


def test_the_model_is_the_student(build):
    model, plain = build(), built(c4())
    assert isinstance(model, FasterRCNN) and isinstance(model, TeacherStudentDetector)
    assert type(model).__name__ == 'TeacherStudentFasterRCNN'
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert {id(p) for p in model.teacher.parameters()}.isdisjoint(id(p) for p in model.parameters())
    plain.load_state_dict(model.state_dict())
    model.load_state_dict(plain.state_dict())


def test_predictions_are_the_students_and_need_no_teacher(build):
    model, plain = build(), built(c4())
    plain.load_state_dict(model.state_dict())
    without = built(taught('not/there.pth'))
    without.load_state_dict(model.state_dict())
    found = []
    for each in (plain, model, without):
        batch = each.eval().data_preprocessor(pseudo_collate([sample()]))
        found.append(each(**batch, mode='predict')[0].pred_instances)
    assert len(found[0])
    for other in found[1:]:
        assert torch.equal(other.bboxes, found[0].bboxes) and torch.equal(other.scores, found[0].scores)


def test_scores_on_regions_are_those_of_the_teacher_alone(build, teacher_file):
    """Against the teacher as a detector of its own, on the regions that the student drew."""
    model, teacher = build(), built(c4(None))
    teacher.load_state_dict(torch.load(teacher_file)['state_dict'])
    teacher.eval()
    with note_calls(model, ['roi_head._bbox_forward', 'roi_head.bbox_head.get_targets', 'backbone']) as calls:
        losses = losses_of(model)
    batch = model.data_preprocessor(pseudo_collate([sample(0), sample(1)]), training=True)
    with torch.no_grad():
        maps = teacher.extract_feat(batch['inputs'])
        theirs = teacher.roi_head._bbox_forward(maps, calls['roi_head._bbox_forward'][0].arguments[1])
    ours = calls['roi_head._bbox_forward'][0].result['cls_score'].detach()
    labels = calls['roi_head.bbox_head.get_targets'][0].result[0]
    assert set(labels.tolist()) >= {0, CLASSES}
    p_s, p_t = (scores.softmax(1) for scores in (ours, theirs['cls_score']))
    rows = torch.arange(len(labels))
    y_s, y_t = p_s[rows, labels], p_t[rows, labels]
    of_label = y_t * (y_t / y_s).log() + (1 - y_t) * ((1 - y_t) / (1 - y_s)).log()
    others = torch.nn.functional.one_hot(labels, CLASSES + 1) == 0
    q_s, q_t = (p[others].view(len(labels), -1) / (1 - y)[:, None] for p, y in ((p_s, y_s), (p_t, y_t)))
    expected = (of_label + 0.25 * (q_t * (q_t / q_s).log()).sum(1)).mean()
    torch.testing.assert_close(losses['loss_dkd'].detach(), expected, rtol=1e-4, atol=1e-5)
    distance = compare_maps(calls['backbone'][0].result[0].detach(), maps[0])
    torch.testing.assert_close(losses['loss_pkd_backbone'].detach(), distance)


def test_objectness_is_compared_on_the_drawn_anchors(build):
    model = build()
    with note_calls(model, ['rpn_head', 'rpn_head.get_targets']) as calls:
        losses = losses_of(model)
    drawn = torch.cat(calls['rpn_head.get_targets'][0].result[1], dim=1) > 0
    assert 0 < drawn.sum() < drawn.numel()
    batch = model.data_preprocessor(pseudo_collate([sample(0), sample(1)]), training=True)
    with torch.no_grad():
        theirs = model.teacher.rpn_head(model.teacher.extract_feat(batch['inputs']))
    ours, theirs = (points_of(model.rpn_head, made) for made in (calls['rpn_head'][0].result, theirs))
    expected = nn.functional.binary_cross_entropy_with_logits(ours.scores[drawn], theirs.scores[drawn].sigmoid())
    torch.testing.assert_close(losses['loss_objectness'], expected)


def test_losses_know_the_height_and_the_width_of_the_images(build, monkeypatch):
    told = []
    monkeypatch.setattr(ObjectFeatureLoss, 'forward', lambda self, ours, theirs, targets: told.append(targets) or {})
    losses_of(build(losses=[dict(type='ObjectFeatureLoss', modules=['backbone'])]), size=(64, 96))
    assert [targets.size for targets in told] == [(64, 96)]
    assert [boxes.tolist() for boxes in told[0].objects] == [[[4, 4, 36, 36], [30, 20, 50, 60]]] * 2


def test_terms_of_one_name_are_added(build):
    pkd = dict(type='PKDLoss', modules=['backbone'])
    once, twice = (losses_of(build(losses=[pkd] * count))['loss_pkd_backbone'] for count in (1, 2))
    torch.testing.assert_close(twice, 2 * once)


def test_teacher_neither_learns_nor_changes(build):
    model = build()
    before = deepcopy(model.teacher.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    ResilientGradient(model).attach(optimizer)
    model.requires_grad_(True)
    model.teacher.train()  # even if somebody switches its mode
    student = model.roi_head.bbox_head.fc_cls.weight.detach().clone()
    for _ in range(2):
        total(model).backward()
        optimizer.step()
    assert not torch.equal(model.roi_head.bbox_head.fc_cls.weight, student)
    after = model.teacher.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(p.grad is None and not p.requires_grad for p in model.teacher.parameters())
    assert not any(module.training for module in model.teacher.modules())


@pytest.mark.parametrize('memory', ['sums', 'plain'])
def test_every_parameter_of_the_student_gets_its_gradient(build, memory):
    """What DDP needs, in both forms of memory; and they agree, although both networks' maps are looked at."""
    found = []
    for form in ('plain', memory):
        model = build(student=c4(dict(BINARY, memory=form)))
        ResilientGradient(model)
        total(model).backward()
        assert all(p.grad is not None for p in model.parameters())
        found.append([p.grad for p in model.parameters()])
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(plain, other, rtol=1e-5, atol=1e-7)


def test_comparison_alone_reaches_what_is_compared(build):
    model = build(losses=[dict(type='PKDLoss', modules=['backbone'])])
    losses_of(model)['loss_pkd_backbone'].backward()
    reached = {name.partition('.')[0] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert reached == {'backbone'}


def test_mixed_precision(tmp_path):
    """With one stage: mmcv's suppression, which two stages need in training, has no half precision on the CPU."""
    path = save_teacher(retina(None), tmp_path / 'teacher.pth')
    model = built(taught(path, retina(), retina(None), losses=[*ONE_STAGE, dict(type='PKDLoss', modules=['neck'])]))
    model.init_weights()
    model.train()
    with torch.autocast('cpu', torch.bfloat16):
        losses = losses_of(model)
        loss = model.parse_losses(losses)[0]
    loss.backward()
    compared = [name for name in losses if name.split('_')[1] in ('dense', 'objects', 'pkd')]
    assert len(compared) == 6 and all(losses[name].dtype is torch.float32 for name in compared)
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    exact = losses_of(model)
    torch.testing.assert_close(losses['loss_dense_boxes'], exact['loss_dense_boxes'], rtol=0.1, atol=0)


def test_copy_for_ema_shares_the_teacher(build):
    model = build().eval()
    average = ExponentialMovingAverage(model).module
    assert average.teacher is model.teacher and type(average) is type(model)
    assert torch.equal(total(average), total(model))


def test_student_starts_from_the_teacher(build, teacher_file):
    model = build(start_from_teacher=True)
    saved = torch.load(teacher_file)['state_dict']
    state = model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in saved.items())
    conv = model.backbone.layer1[0].conv1
    assert isinstance(conv, BinaryConv2d) and conv.binary
    torch.testing.assert_close(conv.weight_quantizer.alpha.flatten(), conv.weight.abs().mean((1, 2, 3)))
    # It is a copy.
    with torch.no_grad():
        model.backbone.conv1.weight.zero_()
    assert model.teacher.backbone.conv1.weight.any()


def test_nothing_but_the_start_can_be_taken_from_the_teacher(build):
    model = build(start_from_teacher=True, losses=[])
    assert not [name for name in losses_of(model) if name in ('loss_dkd', 'loss_objectness')]


@pytest.mark.parametrize('detector', [retina, fcos, ssd])
def test_one_stage_students(detector, tmp_path):
    path = save_teacher(detector(None), tmp_path / 'teacher.pth')
    torch.manual_seed(0)
    model = built(taught(path, detector(), detector(None), losses=ONE_STAGE, start_from_teacher=detector is not ssd))
    model.init_weights()
    model.train()
    losses = losses_of(model)
    compared = {name: value for name, value in losses.items() if name.split('_')[1] in ('dense', 'objects')}
    assert {'loss_dense_scores', 'loss_dense_boxes'} < compared.keys()
    assert all(value.isfinite() and value > 0 for value in compared.values())
    sum(compared.values()).backward()
    assert all(p.grad is not None for p in model.backbone.parameters() if p.ndim == 4)
    # A student that is the teacher, in eval mode, has nothing to learn.
    same = built(taught(path, detector(None), detector(None), losses=ONE_STAGE, start_from_teacher=True))
    same.init_weights()
    same.eval()
    same.bbox_head.training = True
    losses = losses_of(same)
    assert all(float(losses[name]) == pytest.approx(0, abs=1e-5) for name in compared)


def test_started_once(build):
    model = build(start_from_teacher=True)
    with torch.no_grad():
        model.backbone.conv1.weight.fill_(5)
    model.init_weights()
    assert (model.backbone.conv1.weight == 5).all()


@pytest.mark.slow
def test_a_compiled_part_is_compared_as_well(build):
    model = build()
    expected = losses_of(model)
    for part in (model.backbone, model.roi_head.shared_head):
        part.compile(backend='eager')
    found = losses_of(model)
    assert model.backbone._compiled_call_impl is not None
    for name in ('loss_pkd_backbone', 'loss_pkd_roi_head.shared_head', 'loss_dkd'):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
    found['loss_pkd_backbone'].backward()
    assert model.backbone.conv1.weight.grad.any()


def test_what_is_in_a_head_is_compared_without_its_predictions(build):
    losses = [
        dict(type='LayerwiseLoss', parts=['rpn_head']),
        dict(type='PKDLoss', modules=['rpn_head.rpn_conv', 'backbone']),
    ]
    found = losses_of(build(losses=losses))
    assert found['loss_angle'] > 0 and found['loss_pkd_rpn_head.rpn_conv'] > 0
    with pytest.raises(ValueError, match='PKDLoss: rpn_head gives a list, which is not a map'):
        losses_of(build(losses=[dict(type='PKDLoss', modules=['rpn_head'])]))


def test_every_level_that_a_tower_runs_on_is_compared(tmp_path):
    losses = [
        dict(type='LayerwiseLoss', parts=['bbox_head.cls_convs']),
        dict(type='PKDLoss', modules=['bbox_head.cls_convs.0']),
    ]
    path = save_teacher(retina(None), tmp_path / 'teacher.pth')
    model = built(taught(path, retina(), retina(None), losses=losses))
    model.init_weights()
    model.train()
    layers = ['bbox_head.cls_convs.0.conv']
    with watch_layers(model, layers) as calls, watch_layers(model.teacher, layers) as passes:
        found = losses_of(model)
    ours, theirs = (
        [product_of(net.get_submodule(layers[0]), call) for call in made[layers[0]]]
        for net, made in ((model, calls), (model.teacher, passes))
    )
    assert [x.values.shape[2] for x in ours] == [8, 4]
    expected = sum(angle_distance(*pair) for pair in zip(ours, theirs, strict=True)) / 2
    torch.testing.assert_close(found['loss_angle'], expected)
    assert {'loss_pkd_bbox_head.cls_convs.0_0', 'loss_pkd_bbox_head.cls_convs.0_1'} < found.keys()


def test_regions_are_those_that_are_trained_on_where_a_sampler_tries_the_head_before(build):
    student = c4()
    student['train_cfg']['rcnn']['sampler'] = dict(
        type='OHEMSampler', num=8, pos_fraction=0.25, neg_pos_ub=-1, add_gt_as_proposals=True
    )
    losses = [
        dict(type='DKDLoss'),
        dict(type='RegionBoxLoss'),
        dict(type='PKDLoss', modules=['roi_head.shared_head']),
    ]
    model = build(student=student, losses=losses)
    with note_calls(model, ['roi_head._bbox_forward', 'roi_head.bbox_head.get_targets']) as calls:
        found = losses_of(model)
    (made,) = calls['roi_head._bbox_forward']
    assert len(made.arguments[1]) == len(calls['roi_head.bbox_head.get_targets'][0].result[0]) == 16
    for name in ('loss_dkd', 'loss_region_boxes', 'loss_pkd_roi_head.shared_head'):
        assert found[name].requires_grad and found[name] > 0


def test_noted_calls_leave_no_trace():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    before = [dict(module.__dict__) for module in model.modules()]
    calls = {}

    def fail():
        with note_calls(model, ['0', '1.extra_repr']) as noted:
            model(torch.ones(1, 2))
            model[1].extra_repr()
            calls.update(noted)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert calls.keys() == {'0', '1.extra_repr'} and torch.equal(calls['0'][0].arguments[0], torch.ones(1, 2))
    assert [dict(module.__dict__) for module in model.modules()] == before


def test_teacher_from_a_config_file(teacher_file, tmp_path):
    config = tmp_path / 'teacher.py'
    config.write_text(f'model = {c4(None)!r}\n')
    model = built(taught(teacher_file, teacher=str(config)))
    model.prepare_teacher()
    saved = torch.load(teacher_file)['state_dict']
    assert torch.equal(model.teacher.rpn_head.rpn_cls.weight, saved['rpn_head.rpn_cls.weight'])


def test_a_shipped_config_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    losses = [dict(type='PKDLoss', modules=['backbone'])]
    student = {**c4(), 'data_preprocessor': None}
    model = built(taught('not/there.pth', student, 'configs/bccd/faster_rcnn_r18_bccd.py', losses=losses))
    assert model.teacher.backbone.depth == 18


@pytest.mark.parametrize(('detector', 'losses'), [(retina, ONE_STAGE), (c4, TWO_STAGE), (c4, LAYERWISE)])
def test_a_student_that_is_made_binary_as_a_whole(detector, losses, tmp_path):
    path = save_teacher(detector(None), tmp_path / 'teacher.pth')
    cfg = taught(path, detector(None), detector(None), losses=losses, start_from_teacher=True)
    whole = dict(type='rebnn_mm.Binarized', real='rebnn_mm.TeacherStudentDetector', conv=BINARY)
    model = built({**cfg, **whole})
    model.init_weights()
    binary = [sum(isinstance(layer, BinaryConv2d) for layer in net.modules()) for net in (model, model.teacher)]
    assert binary[0] > 8 and binary[1] == 0
    assert torch.equal(model.backbone.layer2[0].conv1.weight, model.teacher.backbone.layer2[0].conv1.weight)
    found = losses_of(model.train())
    compared = [
        value for name, value in found.items() if name.startswith(('loss_dkd', 'loss_dense', 'loss_pkd', 'loss_a'))
    ]
    assert len(compared) > 1 and all(value > 0 for value in compared)


def test_it_tests_where_its_teacher_is_not_and_does_not_train():
    model = built({**taught('gone.pth', losses=TWO_STAGE), 'teacher': 'moved/teacher.py'})
    assert model.teacher is None and not any('teacher' in key for key in model.state_dict())
    batch = model.data_preprocessor(pseudo_collate([sample(0)]))
    with torch.no_grad():
        (found,) = model.eval()(**batch, mode='predict')
    assert 'pred_instances' in found
    with pytest.raises(ValueError, match='FasterRCNN: .*no config file at moved/teacher.py'):
        model.init_weights()
    with pytest.raises(ValueError, match='no config file at moved/teacher.py'):
        losses_of(model.train())


def test_it_is_pickled_with_its_teacher(build):
    model = build()
    model.prepare_teacher()
    other = pickle.loads(pickle.dumps(model))
    assert type(other) is type(model)
    for ours, theirs in ((model, other), (model.teacher, other.teacher)):
        assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())
    assert losses_of(other.train()).keys() == losses_of(model.train()).keys()


def test_student_class_is_made_once():
    assert type(built(taught('a.pth'))) is type(built(taught('b.pth')))
    assert issubclass(type(built(taught('a.pth', retina(), retina(None), losses=ONE_STAGE))), RetinaNet)
