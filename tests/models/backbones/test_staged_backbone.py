"""What holds for every backbone of a stem and stages."""

import pytest
import torch
from mmengine.hub import get_config
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import nn

from rebnn_mm.models import (
    BinaryBottleneckResNet,
    BinaryMobileNet,
    BinaryResNet,
    BNext,
    MeliusNet,
    OneBitBackbone,
    QuickNet,
)
from rebnn_mm.models.backbones.staged_backbone import StagedBackbone

ONE_BIT = dict(channels=(8, 8, 16, 16), depths=(1, 1, 1, 1), stem_channels=(4,), out_indices=(0, 1, 2, 3))
SMALL = {
    'resnet': (BinaryResNet, dict(depth=18, base_channels=8)),
    'one bit': (OneBitBackbone, ONE_BIT),
    'mobile': (BinaryMobileNet, dict(base_channels=8)),
    'bottleneck': (BinaryBottleneckResNet, dict(depth=50, base_channels=8, block='react')),
    'bnext': (BNext, dict(base_channels=8)),
    'quick': (QuickNet, dict(width=0.125)),
    'melius': (MeliusNet, dict(base_channels=16)),
}
pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')


def small(name: str, **options) -> StagedBackbone:
    cls, own = SMALL[name]
    return cls(**{**own, **options})


@pytest.mark.parametrize('name', SMALL)
class TestEveryBackbone:
    def test_maps_are_those_of_the_stages_asked_for(self, name):
        net = small(name, conv_cfg=None).eval()
        x = torch.randn(1, 3, 64, 96)
        every = net(x)
        assert [tuple(y.shape[2:]) for y in every] == [(64 // s, 96 // s) for s in (4, 8, 16, 32)]
        net.out_indices = net.out_indices[1::2]
        assert all(torch.equal(a, b) for a, b in zip(net(x), every[1::2], strict=True))

    def test_sizes_that_halve_badly_are_taken(self, name):
        net = small(name, conv_cfg=None).eval()
        assert len(net(torch.randn(1, 3, 75, 101))) == 4

    def test_frozen_stages_stay_as_they_are(self, name):
        net = small(name, frozen_stages=2).train()
        before = {k: v.clone() for k, v in net.state_dict().items()}
        sum(y.square().mean() for y in net(torch.randn(2, 3, 64, 64))).backward()
        trained = {name.split('.')[0] for name, _ in net.named_parameters()}
        frozen = {*net.stem_parts, 'layer1', 'layer2'} & trained
        assert {n.split('.')[0] for n, p in net.named_parameters() if p.grad is None} == frozen
        changed = {k.split('.')[0] for k, v in net.state_dict().items() if not torch.equal(v, before[k])}
        assert changed and not changed & frozen

    def test_norm_eval_keeps_statistics_but_trains_the_rest(self, name):
        net = small(name, norm_eval=True, conv_cfg=None).train()
        before = {k: v.clone() for k, v in net.state_dict().items() if 'running' in k}
        sum(y.square().mean() for y in net(torch.randn(2, 3, 64, 64))).backward()
        assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items() if 'running' in k)
        assert all(p.grad is not None for p in net.parameters())

    def test_wrong_indices_are_refused(self, name):
        for wrong in ((9,), ()):
            with pytest.raises(ValueError, match=r'must name stages from 0 to \d'):
                small(name, out_indices=wrong)
        with pytest.raises(ValueError, match=r'frozen_stages=9 is not in -1 to \d'):
            small(name, frozen_stages=9)

    def test_without_conv_cfg_the_same_structure_is_real(self, name):
        with torch.device('meta'):
            net, binary = small(name, conv_cfg=None), small(name)
        assert {type(m) for m in net.modules() if isinstance(m, nn.Conv2d)} == {nn.Conv2d}
        assert {k for k in binary.state_dict() if 'quantizer.' not in k} == set(net.state_dict())


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=() if name == 'bottleneck' else pytest.mark.slow) for name in SMALL]
)
def test_a_detector_learns_with_it(name):
    pytest.importorskip('mmdet')
    from mmdet.registry import MODELS
    from mmdet.structures import DetDataSample
    from mmdet.utils import register_all_modules

    register_all_modules(init_default_scope=False)
    cfg = get_config('mmdet::retinanet/retinanet_r18_fpn_1x_coco.py').model
    backbone = small(name)
    with torch.no_grad():
        cfg.neck.in_channels = [y.shape[1] for y in backbone.eval()(torch.randn(1, 3, 64, 64))]
    cfg.backbone = dict(type=SMALL[name][0].__name__, **SMALL[name][1])
    with DefaultScope.overwrite_default_scope('mmdet'):
        detector = MODELS.build(cfg)
    size = dict.fromkeys(('img_shape', 'ori_shape', 'pad_shape', 'batch_input_shape'), (64, 96))
    sample = DetDataSample(metainfo=dict(size, scale_factor=(1, 1)))
    sample.gt_instances = InstanceData(bboxes=torch.tensor([[8.0, 8.0, 60.0, 50.0]]), labels=torch.tensor([1]))
    losses = detector(torch.randn(1, 3, 64, 96), [sample], mode='loss')
    sum(sum(loss) for loss in losses.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in detector.parameters())
