"""Whole classifiers in larq compute engine agree with PyTorch."""

import numpy as np
import pytest
import torch
from mmcv.cnn.bricks import Conv2dAdaptivePadding
from torch import nn

from rebnn_mm.export.convert import pack
from rebnn_mm.export.engines.lce.operators import Translator
from rebnn_mm.export.trace import trace, trace_images
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.models import BinaryResNet, BinaryVGGSmall

AGREEMENT = 1e-5
"""Largest difference over the largest output: rounding of full-precision layers in another order."""


class Classifier(nn.Module):
    """A backbone, the mean over the image and a linear layer."""

    def __init__(self, backbone, channels, flatten=False):
        super().__init__()
        self.backbone, self.flatten = backbone, flatten
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.backbone(x)[-1]
        x = x.flatten(1) if self.flatten else x.mean((2, 3))
        return self.fc(x).softmax(1)


class Dense(nn.Module):
    """The last channels are seen again, as in MeliusNet."""

    def forward(self, x):
        return torch.cat([x[:, :5, 1:], torch.relu(x[:, -3:, 1:])], 1)


class Steps(nn.Module):
    def forward(self, x):
        return x[:, ::2]


def used(model, *shape):
    """The model after some batches, so that its norms hold statistics, with shifts and slopes of its own."""
    model.train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if 'shift' in name:
                parameter.normal_(0, 0.1)
        for _ in range(3):
            model(torch.randn(8, *shape))
    return model.eval()


OTHERS = [('react', 32), ('hardtanh', 16), ('relu', 16), ('single', 16)]


@pytest.mark.parametrize(
    ('block', 'size'),
    [
        ('react', 30),
        ('preact', 16),
        ('real_to_binary', 16),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS),
    ],
)
def test_resnet(block, size, run_lce):
    torch.manual_seed(0)
    backbone = BinaryResNet(
        18,
        block=block,
        stem='cifar',
        base_channels=16,
        num_stages=2,
        strides=(1, 2),
        dilations=(1, 1),
        out_indices=(1,),
    )
    model = used(Classifier(backbone, 32), 3, size, size)
    x = torch.randn(1, 3, size, size)
    file = Translator(trace(pack(model).model, {'x': x}, ['y']), (size, size)).translate('test')
    with torch.no_grad():
        expected = model(x).numpy()
    assert np.abs(run_lce([(file, x.numpy())])[0] - expected).max() <= AGREEMENT * np.abs(expected).max()


def test_vgg_small_is_flattened_in_pytorch_order(run_lce):
    torch.manual_seed(0)
    model = used(Classifier(BinaryVGGSmall(conv_cfg=dict(type='ReBNNConv2d')), 512 * 16, flatten=True), 3, 32, 32)
    x = torch.randn(1, 3, 32, 32)
    file = Translator(trace(pack(model).model, {'x': x}, ['y']), (32, 32)).translate('test')
    with torch.no_grad():
        expected = model(x).numpy()
    assert np.abs(run_lce([(file, x.numpy())])[0] - expected).max() <= AGREEMENT * np.abs(expected).max()


@pytest.mark.parametrize(
    'model',
    [
        nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(8, 8, 3)),
        nn.Sequential(nn.ConstantPad2d((1, 0, 0, 2), -0.5), nn.Conv2d(8, 8, 3)),
        nn.Conv2d(8, 24, (3, 5), (2, 1), (1, 2), groups=8),
        nn.Conv2d(8, 12, 3, groups=4, dilation=2),
        Conv2dAdaptivePadding(8, 8, 3, 2),
        Dense(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.MaxPool2d(2, 2, 1, ceil_mode=True),
    ],
    ids=[
        *('border', 'border of a value', 'depthwise', 'groups', 'border by size', 'parts'),
        *('pooling over the end', 'pooling without a window behind the end'),
    ],
)
def test_what_released_networks_have(model, run_lce):
    torch.manual_seed(0)
    x = torch.randn(1, 8, 9, 8)
    with torch.no_grad():
        expected = model(x)
    graph = trace_images(model, torch.zeros(2, 8, 12, 13), ['y'])
    file = Translator(graph, (9, 8)).translate('test')
    assert run_lce([(file, x.numpy())])[0] == pytest.approx(expected.numpy(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ('model', 'message'),
    [
        (nn.Sequential(ReBNNConv2d(8, 8, 3, groups=2)), "BinaryConv '0': .* with groups. Use --format onnx."),
        (nn.Sequential(nn.Upsample(scale_factor=2)), 'Resize .*: Resize is not translated .* Use --format onnx.'),
        (nn.Sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), 'whose border is not counted'),
        (Steps(), 'Slice .*: a slice in steps is not translated'),
        (nn.Sequential(nn.ReflectionPad2d(1)), 'Pad .*: only a border of a constant around height and width'),
        (nn.Sequential(nn.ZeroPad2d((0, -1, 0, 0))), 'Pad .*: only a border of a constant around height and width'),
    ],
    ids=['groups', 'operator', 'pooling', 'steps', 'reflection', 'crop'],
)
def test_what_is_not_translated_is_named(model, message):
    x = torch.randn(1, 8, 8, 8)
    traced = trace(pack(model.eval()).model, {'x': x}, ['y'])
    with pytest.raises(ValueError, match=message):
        Translator(traced, (8, 8)).translate('test')
