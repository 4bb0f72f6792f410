"""What is written for BOLT gives PyTorch's answer under BOLT's rules."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from rebnn_mm.export.convert import pack
from rebnn_mm.export.engines.bolt import emulate_bolt, to_bolt
from rebnn_mm.export.trace import trace
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import ReBNNLinear
from rebnn_mm.models import ReBNNResNet

AGREEMENT = 1e-5
"""Largest difference over the largest output: a norm's factors are multiplied together here."""


def for_bolt(model, x):
    return to_bolt(trace(pack(model).model, {'x': x}, ['y']), tuple(x.shape[2:]))


def run(model, x):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {'x': x.numpy()})[0]


def binary_weights(model):
    tensors = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    return [tensor for tensor in tensors if tensor.ndim == 4 and np.all(np.abs(tensor) == 1) and tensor.size > 1]


@pytest.mark.parametrize('pad_value', [0, 1, -1])
@pytest.mark.parametrize('stride', [1, 2])
def test_convolution_agrees_to_the_border(pad_value, stride):
    torch.manual_seed(0)
    conv = BinaryConv2d(
        32, 16, 3, stride, padding=1, bias=False, weight='BNNWeight', activation='BinaryRSign', pad_value=pad_value
    )
    conv.activation_quantizer.shift.data.normal_()
    x = torch.randn(1, 32, 7, 6)
    model, excluded = for_bolt(nn.Sequential(conv).eval(), x)
    assert not excluded
    assert len(binary_weights(model)) == 1
    with torch.no_grad():
        assert np.array_equal(run(emulate_bolt(model), x), conv.eval()(x).numpy())


def test_without_the_correction_the_border_would_be_wrong():
    torch.manual_seed(0)
    conv = BinaryConv2d(32, 16, 3, padding=1, bias=False, weight='BNNWeight', activation='BinarySign').eval()
    x = torch.randn(1, 32, 7, 6)
    model, _ = for_bolt(nn.Sequential(conv), x)
    for tensor in model.graph.initializer:
        if tensor.name.endswith('_correction'):
            tensor.CopyFrom(numpy_helper.from_array(np.zeros_like(numpy_helper.to_array(tensor)), tensor.name))
    with torch.no_grad():
        wrong = run(emulate_bolt(model), x) != conv(x).numpy()
    assert wrong[:, :, [0, -1]].mean() > 0.5
    assert not wrong[:, :, 1:-1, 1:-1].any()


@pytest.mark.parametrize(
    ('layer', 'reason'),
    [
        (BinaryConv2d(24, 16, 3, padding=1), 'its 24 input channels are not a multiple of 32'),
        (BinaryConv2d(32, 8, 3, padding=1), 'its 8 output channels are not a multiple of 16'),
        (BinaryConv2d(32, 16, 2, keep_real=False), 'it has a 2x2 kernel'),
        (BinaryConv2d(64, 16, 3, groups=2, padding=1, pad_value=-1), 'it has 2 groups'),
        (nn.Sequential(nn.Flatten(), ReBNNLinear(32 * 4, 16)), 'it is a linear layer'),
    ],
    ids=['input', 'output', 'kernel', 'groups', 'linear'],
)
def test_excluded_layers_are_named_and_still_right(layer, reason):
    torch.manual_seed(0)
    model = nn.Sequential(layer).eval()
    channels = layer.in_channels if isinstance(layer, BinaryConv2d) else 32
    x = torch.randn(1, channels, *((2, 2) if channels == 32 and not isinstance(layer, BinaryConv2d) else (5, 5)))
    written, excluded = for_bolt(model, x)
    assert list(excluded.values()) == [reason]
    assert not binary_weights(written)
    with torch.no_grad():
        expected = model(x).numpy()
    for version in (written, emulate_bolt(written)):
        assert np.abs(run(version, x) - expected).max() <= AGREEMENT * np.abs(expected).max()


def test_network_agrees_and_is_standard_onnx():
    torch.manual_seed(0)
    backbone = ReBNNResNet(18, base_channels=32, out_indices=(3,))
    with torch.no_grad():
        for _ in range(2):
            backbone.train()(torch.randn(2, 3, 64, 64))
    model = nn.Sequential(backbone.eval())
    x = torch.randn(1, 3, 64, 64)
    traced = trace(pack(model).model, {'x': x}, ['y'])
    written, excluded = to_bolt(traced, (64, 64))
    assert not excluded
    assert len(binary_weights(written)) == 16
    assert {entry.domain for entry in written.opset_import} <= {'', 'ai.onnx'}
    onnx.checker.check_model(written, full_check=True)
    with torch.no_grad():
        expected = model(x)[0].numpy()
    assert np.abs(run(emulate_bolt(written), x) - expected).max() <= AGREEMENT * np.abs(expected).max()
