import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope

pytest.importorskip('mmdet')

from rebnn_mm.models.detection import BiDetSSDHead
from rebnn_mm.models.detection.bidet import keep_scores
from rebnn_mm.models.losses.bidet_loss import sparse_object_prior
from tests.models.detection.bidet_samples import samples

ANCHORS = dict(
    type='SSDAnchorGenerator',
    scale_major=False,
    strides=[8, 16],
    ratios=[[2], [2]],
    min_sizes=[10, 24],
    max_sizes=[24, 40],
    input_size=64,
)
SUPPRESSION = dict(score_thr=0.03, iou_threshold=0.45, max_per_class=50)
TRAIN = dict(
    assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0.0, gt_max_assign_all=False),
    sampler=dict(type='PseudoSampler'),
    smoothl1_beta=1.0,
    allowed_border=-1,
    pos_weight=-1,
    neg_pos_ratio=3,
)


def build(kind='rebnn_mm.BiDetSSDHead', **options):
    torch.manual_seed(0)
    cfg = dict(type=kind, num_classes=3, in_channels=(8, 12), anchor_generator=ANCHORS, train_cfg=ConfigDict(TRAIN))
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build({**cfg, **options})


def features():
    generator = torch.Generator().manual_seed(1)
    sizes = [(2, 8, 8, 8), (2, 12, 4, 4)]
    return tuple(torch.randn(size, generator=generator).requires_grad_() for size in sizes)


def test_twice_the_box_outputs_and_the_mean_in_evaluation():
    head = build(sample_sigma=0.1)
    assert isinstance(head, BiDetSSDHead)
    assert [branch[-1].out_channels for branch in head.reg_convs] == [2 * 4 * 4] * 2
    assert all((one != other).all() for one, other in zip(head(features())[1], head(features())[1], strict=True))
    head.eval()
    for level, branch, x in zip(head(features())[1], head.reg_convs, features(), strict=True):
        assert torch.equal(level, branch(x)[:, :16])


@pytest.mark.parametrize('active', [False, True])
def test_without_sigma_detection_losses_are_those_of_mmdet(active):
    head, plain = build(), build('SSDHead')
    state = head.state_dict()
    for name in state:
        if name.startswith('reg_convs'):
            state[name] = state[name].chunk(2)[0]
    plain.load_state_dict(state)
    head.bottleneck.active = active
    batch = samples([0, 2, 2], [1])
    losses, expected = head.loss(features(), batch), plain.loss(features(), batch)
    for name, values in expected.items():
        torch.testing.assert_close(losses[name], values)
    assert losses.keys() - expected.keys() == ({'loss_information', 'loss_prior'} if active else set())


def test_losses_are_the_definitions():
    head = build(bottleneck=dict(regularisation=0.25, prior=0.125), suppression=SUPPRESSION)
    head.bottleneck.active = True
    x, batch = features(), samples([0, 2, 2], [1])
    scores, boxes = head(x)
    kept = []
    anchors = torch.cat(head.prior_generator.grid_priors([(8, 8), (4, 4)], device='cpu'))
    for i, sample in enumerate(batch):
        score = torch.cat([level[i].permute(1, 2, 0).reshape(-1, 4) for level in scores]).softmax(dim=1)
        delta = torch.cat([level[i].permute(1, 2, 0).reshape(-1, 4) for level in boxes])
        where = head.bbox_coder.decode(anchors, delta, max_shape=(64, 64))
        kept += keep_scores(where, score, sample.gt_instances.labels, **SUPPRESSION)
    assert sum(len(found) > count for found, count in kept) == 3
    losses = head.loss(x, batch)
    squares = [level.square().mean() for level in x]
    assert losses['loss_information'].item() == pytest.approx(0.25 * (sum(squares) / 2).item(), rel=1e-5)
    assert losses['loss_prior'].item() == pytest.approx(0.125 * sparse_object_prior(kept).item(), rel=1e-5)


@pytest.mark.parametrize('name', ['loss_information', 'loss_prior'])
def test_gradient_reaches_every_feature_map(name):
    head = build()
    head.bottleneck.active = True
    x = features()
    head.loss(x, samples([0, 1], [2]))[name].backward()
    assert all(level.grad.abs().sum() > 0 for level in x)
    assert all((branch[-1].weight.grad is not None) == (name == 'loss_prior') for branch in head.cls_convs)
    assert all(branch[-1].weight.grad is None for branch in head.reg_convs)


def test_images_without_objects_have_no_prior():
    head = build()
    head.bottleneck.active = True
    losses = head.loss(features(), samples([], [1]))
    assert losses['loss_prior'].isfinite()
    assert head.loss(features(), samples([], []))['loss_prior'].item() == 0.0


def test_prediction_is_repeatable_and_mmdets():
    cfg = ConfigDict(nms_pre=100, nms=dict(type='nms', iou_threshold=0.45), min_bbox_size=0, score_thr=0.1)
    head = build(test_cfg=ConfigDict(cfg, max_per_img=20), sample_sigma=0.5).eval()
    one, other = head.predict(features(), samples([0], [1])), head.predict(features(), samples([0], [1]))
    assert all(len(found.bboxes) == 20 for found in one)
    assert all(torch.equal(a.bboxes, b.bboxes) for a, b in zip(one, other, strict=True))


def test_half_precision_gives_finite_losses_and_gradients():
    head = build()
    head.bottleneck.active = True
    x = features()
    with torch.autocast('cpu', torch.bfloat16):
        losses = head.loss(x, samples([0], [1, 2]))
    assert losses['loss_prior'].dtype == torch.float32
    (losses['loss_prior'] + losses['loss_information'] + sum(losses['loss_cls'])).backward()
    assert all(level.grad.isfinite().all() for level in x)
