import pytest
import torch
import torchvision
from torch import nn

from rebnn_mm.models import BinaryResLayer, BinaryResNet


def test_checkpoint_of_the_whole_network_fills_it(tmp_path):
    source = torchvision.models.resnet18().state_dict()
    torch.save(source, tmp_path / 'resnet18.pth')
    head = BinaryResLayer(18, init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'resnet18.pth')))
    head.init_weights()
    state = head.state_dict()
    wanted = {k for k in source if k.startswith('layer4.')}
    assert wanted <= state.keys()
    assert all(torch.equal(state[k], source[k]) for k in wanted)


@pytest.mark.parametrize('stage', [1, 2, 3])
def test_is_the_stage_of_the_backbone(stage):
    backbone = BinaryResNet(34, base_channels=8).eval()
    head = BinaryResLayer(34, base_channels=8, stage=stage).eval()
    assert all(k.startswith(f'layer{stage + 1}.') for k in head.state_dict())
    head.load_state_dict({k: v for k, v in backbone.state_dict().items() if k.startswith(f'layer{stage + 1}.')})
    maps = backbone(torch.randn(2, 3, 64, 64))
    assert torch.equal(head(maps[stage - 1]), maps[stage])


def test_regions_of_7_become_4():
    assert BinaryResLayer(18, base_channels=8)(torch.randn(5, 32, 7, 7)).shape == (5, 64, 4, 4)


def test_only_the_shortcut_is_real():
    head = BinaryResLayer(18, base_channels=8)
    real = [name for name, m in head.named_modules() if type(m) is nn.Conv2d]
    assert real == ['layer4.0.downsample.0']


@pytest.mark.parametrize('norm_eval', [False, True])
def test_norm_eval(norm_eval):
    head = BinaryResLayer(18, base_channels=8, norm_eval=norm_eval).train()
    norm = head.layer4[0].bn1
    before = norm.running_mean.clone()
    head(torch.randn(3, 32, 7, 7))
    assert torch.equal(norm.running_mean, before) == norm_eval


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(depth=101), r'BinaryResLayer: depth=101 is not available. Use one of \[18, 20, 34\]'),
        (dict(depth=18, stage=0), 'BinaryResLayer: stage=0 is not in 1 to 3'),
        (dict(depth=20, stage=3), 'BinaryResLayer: stage=3 is not in 1 to 2'),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BinaryResLayer(**options)
