"""Binary convolutions in larq compute engine give PyTorch's integers."""

import itertools
import os

import numpy as np
import torch
from torch import nn

from rebnn_mm.export.convert import pack
from rebnn_mm.export.engines.lce.binary import binary_convolution
from rebnn_mm.export.engines.lce.builder import TFLiteBuilder
from rebnn_mm.export.engines.lce.operators import Translator
from rebnn_mm.export.trace import trace
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import ReBNNLinear

SIZE = (9, 6)


def written(layer, x):
    """A file of the layer's sums alone, and PyTorch's sums."""
    builder = TFLiteBuilder()
    image = builder.tensor((1, *x.shape[2:], x.shape[1]), np.float32)
    left, right, top, bottom = layer._reversed_padding_repeated_twice
    with torch.no_grad():
        codes, _ = layer.weight_quantizer.codes(layer.weight)
        y, _ = binary_convolution(
            builder,
            image,
            tuple(x.shape),
            codes.numpy(),
            np.zeros(x.shape[1], np.float32),
            strides=layer.stride,
            pads=(top, left, bottom, right),
            dilations=layer.dilation,
            pad_value=layer.pad_value,
        )
        return builder.finish([image], [y], 'sums'), layer(x).numpy()


def conv(channels, kernel, **kwargs):
    layer = BinaryConv2d(
        channels, 5, kernel, bias=False, weight='BNNWeight', activation='BinarySign', keep_real=False, **kwargs
    )
    return layer.eval()


def test_sums_equal_pytorch_over_the_grid(run_lce):
    torch.manual_seed(0)
    cases = []
    for channels, kernel, stride, dilation, value in itertools.product(
        (5, 33, 64), (1, 3, 5), (1, 2), (1, 2), (0, 1, -1)
    ):
        padding = dilation * (kernel // 2)
        layer = conv(channels, kernel, stride=stride, dilation=dilation, padding=padding, pad_value=value)
        cases.append((layer, torch.randn(1, channels, *SIZE)))
    cases.append((conv(32, 3, padding=(2, 0)), torch.randn(1, 32, 4, 7)))
    cases.append((conv(32, 3, padding=1, stride=(2, 1)), torch.randn(1, 32, 1, 1)))
    files = [written(layer, x) for layer, x in cases]
    results = run_lce([(file, x.numpy()) for (file, _), (_, x) in zip(files, cases, strict=True)])
    for (layer, _), (_, expected), result in zip(cases, files, results, strict=True):
        assert np.array_equal(result, expected), layer


def test_zero_is_plus_one(run_lce):
    layer = conv(32, 1)
    x = torch.zeros(1, 32, 2, 2)
    x[0, ::2] = -0.0
    file, expected = written(layer, x)
    assert np.array_equal(run_lce([(file, x.numpy())])[0], expected)


def file_of(model, x):
    return Translator(trace(pack(model).model, {'x': x}, ['y']), tuple(x.shape[2:])).translate('test')


def test_shift_scale_and_bias(run_lce):
    torch.manual_seed(0)
    model = nn.Sequential(BinaryConv2d(32, 8, 3, padding=1, activation='BinaryRSign')).eval()
    model[0].activation_quantizer.shift.data.normal_()
    x = torch.randn(1, 32, 5, 5)
    with torch.no_grad():
        assert np.array_equal(run_lce([(file_of(model, x), x.numpy())])[0], model(x).numpy())


def test_linear(run_lce):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), ReBNNLinear(70, 6)).eval()
    x = torch.randn(1, 70, 1, 1)
    with torch.no_grad():
        assert np.array_equal(run_lce([(file_of(model, x), x.numpy())])[0], model(x).numpy())


def test_a_description_that_is_no_unicode():
    """It has the name of a config's file."""
    assert b'L?we.py' in TFLiteBuilder().finish([], [], os.fsdecode(b'L\xf6we.py'))
