import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope

from tests.tolerances import FLOAT32_ROUNDING

pytest.importorskip('mmdet')

from rebnn_mm.methods import BiDetConv2d
from rebnn_mm.models.detection import BiDetRPNHead, BinaryRPNHead
from rebnn_mm.models.losses.bidet_loss import sparse_object_prior
from tests import two_processes
from tests.models.detection.bidet_samples import samples

ANCHORS = dict(type='AnchorGenerator', scales=[2, 4], ratios=[1.0], strides=[8])
PROPOSALS = ConfigDict(nms_pre=100, max_per_img=30, nms=dict(type='nms', iou_threshold=0.7), min_bbox_size=0)
TRAIN = dict(
    assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.3, min_pos_iou=0.3),
    sampler=dict(type='RandomSampler', num=1000, pos_fraction=0.5, add_gt_as_proposals=False),
    allowed_border=-1,
    pos_weight=-1,
)


def build(kind='rebnn_mm.BiDetRPNHead', seed=0, **options):
    torch.manual_seed(seed)
    with DefaultScope.overwrite_default_scope('mmdet'):
        cfg = dict(type=kind, in_channels=8, feat_channels=16, anchor_generator=ANCHORS, train_cfg=ConfigDict(TRAIN))
        return MODELS.build({**cfg, **options})


def features(images=2, seed=1):
    return (torch.randn(images, 8, 8, 8, generator=torch.Generator().manual_seed(seed)).requires_grad_(),)


def test_mean_in_evaluation_and_a_draw_in_training():
    head = build(sample_sigma=0.1)
    assert isinstance(head, BiDetRPNHead) and isinstance(head.rpn_conv[0].conv, BiDetConv2d)
    assert head.rpn_reg.out_channels == 2 * 2 * 4
    drawn, again = head(features())[1][0], head(features())[1][0]
    assert (drawn != again).all()
    head.eval()
    mean, same = head(features())[1][0], head(features())[1][0]
    assert torch.equal(mean, same)
    hidden = head.rpn_conv(features()[0])
    assert torch.equal(mean, head.rpn_reg(hidden)[:, :8])


@pytest.mark.parametrize('active', [False, True])
def test_without_sigma_detection_losses_and_proposals_are_those_of_the_plain_head(active):
    head, plain = build(sample_sigma=0.0), build('rebnn_mm.BinaryRPNHead', conv_cfg=dict(type='BiDetConv2d'))
    assert type(plain) is BinaryRPNHead
    state = head.state_dict()
    state['rpn_reg.weight'], state['rpn_reg.bias'] = state['rpn_reg.weight'][:8], state['rpn_reg.bias'][:8]
    plain.load_state_dict(state)
    head.bottleneck.active = active
    batch = samples([0, 0], [0])
    losses, proposals = head.loss_and_predict(features(), batch, PROPOSALS)
    expected, wanted = plain.loss_and_predict(features(), batch, PROPOSALS)
    for name, values in expected.items():
        torch.testing.assert_close(losses[name], values, atol=FLOAT32_ROUNDING, rtol=0)
    assert losses.keys() - expected.keys() == ({'loss_rpn_information', 'loss_rpn_prior'} if active else set())
    for found, reference in zip(proposals, wanted, strict=True):
        torch.testing.assert_close(found.bboxes, reference.bboxes)
        torch.testing.assert_close(found.scores, reference.scores)
        assert not found.scores.requires_grad and not found.bboxes.requires_grad


def test_losses_are_the_definitions():
    head = build(sample_sigma=0.0, bottleneck=dict(regularisation=0.25, prior=0.125))
    head.bottleneck.active = True
    losses, proposals = head.loss_and_predict(features(), samples([0, 0, 0], [0]), PROPOSALS)
    hidden = head.rpn_conv(features()[0])
    assert losses['loss_rpn_information'].item() == pytest.approx(0.25 * hidden.square().mean().item(), rel=1e-5)
    prior = sparse_object_prior([(proposals[0].scores, 3), (proposals[1].scores, 1)])
    assert losses['loss_rpn_prior'].item() == pytest.approx(0.125 * prior.item(), rel=1e-5)
    assert prior > 0


def test_a_forward_pass_that_fails_leaves_nothing_to_note_hidden_maps():
    head = build()
    head.bottleneck.active = True
    with pytest.raises(RuntimeError):
        head.loss_and_predict((torch.randn(2, 8, 8, 8), torch.randn(2, 5, 4, 4)), samples([0], [0]), PROPOSALS)
    assert head._hidden is None


@pytest.mark.parametrize('name', ['loss_rpn_information', 'loss_rpn_prior'])
def test_gradient_reaches_the_image_features(name):
    head = build()
    head.bottleneck.active = True
    x = features()
    # After a batch norm alone the mean square would be constant; here its statistics are frozen.
    head.rpn_conv[0].bn.eval()
    losses, _ = head.loss_and_predict(x, samples([0], [0, 0]), PROPOSALS)
    losses[name].backward()
    assert x[0].grad.abs().sum() > 0
    assert head.rpn_conv[0].conv.weight.grad.abs().sum() > 0
    assert (head.rpn_cls.weight.grad is not None) == (name == 'loss_rpn_prior')
    assert head.rpn_reg.weight.grad is None


def test_images_without_objects_have_no_prior():
    head = build()
    head.bottleneck.active = True
    losses, _ = head.loss_and_predict(features(), samples([], []), PROPOSALS)
    assert losses['loss_rpn_prior'].item() == 0.0
    assert all(torch.as_tensor(value).isfinite() for value in losses['loss_rpn_cls'])


def test_deviation_is_trained():
    head = build(sample_sigma=0.5)
    losses, _ = head.loss_and_predict(features(), samples([0, 0], [0]), PROPOSALS)
    sum(losses['loss_rpn_bbox']).backward()
    of_log_variance = head.rpn_reg.weight.grad[8:]
    assert of_log_variance.abs().sum() > 0


def test_half_precision_gives_finite_losses_and_gradients():
    head = build()
    head.bottleneck.active = True
    x = features()
    with torch.autocast('cpu', torch.bfloat16):
        losses, proposals = head.loss_and_predict(x, samples([0, 0], [0]), PROPOSALS)
    assert proposals[0].scores.dtype == losses['loss_rpn_prior'].dtype == torch.float32
    sum(torch.as_tensor(sum(v) if isinstance(v, list) else v) for v in losses.values()).backward()
    assert x[0].grad.isfinite().all() and head.rpn_cls.weight.grad.isfinite().all()


class LossesAndPrior(torch.nn.Module):
    """The head as DDP wants it: losses from forward, here with the batch of one process."""

    def __init__(self):
        super().__init__()
        self.head = build(sample_sigma=0.0)
        self.head.bottleneck.active = True

    def forward(self, rank):
        # The second process has no objects, hence no prior that carries a gradient.
        batch = samples([0, 0], [0]) if rank == 0 else samples([], [])
        losses, _ = self.head.loss_and_predict(features(seed=rank), batch, PROPOSALS)
        return sum(sum(value) if isinstance(value, list) else value for value in losses.values())


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def _ddp_worker(rank, folder):
    model = torch.nn.parallel.DistributedDataParallel(LossesAndPrior())
    model(rank).backward()
    torch.save(gradients(model), f'{folder}/{rank}.pt')


def test_two_processes_of_which_one_has_no_objects(tmp_path):
    two_processes.run(_ddp_worker, str(tmp_path))
    first, second = (torch.load(tmp_path / f'{rank}.pt') for rank in (0, 1))
    assert torch.equal(first, second)
    alone = []
    for rank in (0, 1):
        model = LossesAndPrior()
        model(rank).backward()
        alone.append(gradients(model))
    torch.testing.assert_close(first, sum(alone) / 2, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize('active', [False, True])
def test_who_watches_the_head_sees_its_outputs(active):
    """As a teacher's loss does, and the wrapper that computes in bfloat16."""
    head, seen = build(), []
    head.bottleneck.active = active
    head.register_forward_hook(lambda module, inputs, outputs: seen.append(outputs))
    head.loss_and_predict(features(), samples([0], [0]), PROPOSALS)
    assert len(seen) == 1 and seen[0][0][0].requires_grad
