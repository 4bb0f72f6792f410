import re
import sys
from argparse import Namespace

import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

import rebnn_mm.layers  # noqa: F401
from tests.refusal import refusal
from tests.scripts import ROOT, load_script, run_script

IMAGE = 'demo/coco_sample/val2017/000000214753.jpg'


@pytest.fixture(scope='module')
def demo():
    return load_script('demo/look_inside.py')


def conv(kind, *args, **options):
    torch.manual_seed(0)
    return MODELS.build(dict(type=kind, in_channels=args[0], out_channels=args[1], kernel_size=args[2], **options))


@pytest.mark.parametrize(
    'layer',
    [
        dict(kind='ReBNNConv2d', padding=1),
        dict(kind='ReBNNConv2d', padding=2, stride=2, dilation=2, bias=True),
        dict(kind='ReBNNConv2d', padding=(0, 1), kernel=(1, 3), stride=(2, 1), groups=2),
        dict(kind='ReBNNConv2d', padding='same', kernel=5),
        dict(kind='ReBNNConv2d', padding=1, pad_value=1, stride=3),
        dict(kind='BiDetConv2d', padding=1),  # pads with -1
        dict(kind='XNORConv2d', padding=1),
        dict(kind='BNNConv2d', padding=1),  # has no scaling factor
    ],
    ids=lambda layer: '-'.join(map(str, layer.values())),
)
@pytest.mark.parametrize('channels', [8, 20])
def test_xor_and_popcount_give_the_output_of_the_layer(demo, layer, channels):
    options = dict(dict(kernel=3, groups=1, bias=False), **layer)
    options = {**options, 'keep_real': False}
    module = conv(options.pop('kind'), channels, 6, options.pop('kernel'), **options).eval()
    x = torch.randn(2, channels, 11, 9)
    with torch.no_grad():
        y = module(x)
    for number in range(6):
        seen = demo.look(module, x, y, number)
        total = demo.binary_convolution(module, seen.signs, seen.codes)
        assert total.dtype == int
        np.testing.assert_array_equal(total.astype(np.float32) * seen.scale + seen.bias, y[0, number].numpy())


def test_bits_are_packed_channel_first_from_the_lowest_bit(demo):
    values = np.ones((10, 2, 1))
    values[[0, 3, 9], 0, 0] = -0.5
    values[1, 1, 0] = -0.0  # zero is not negative
    assert demo.pack(values).tolist() == [[[0b1001, 0b10]], [[0, 0]]]


@pytest.mark.parametrize(
    ('wanted', 'message'),
    [
        (dict(layer='1.conv'), '--layer 1.conv is not a binary convolution of this detector. Did you mean 1.conv'),
        (dict(layer='0'), '--layer 0 is not a binary convolution'),  # the first layer is real
        (dict(filter=8), '--filter 8 is not in 0 to 7, what 1.conv1 has.'),
        (dict(channel=-1), '--channel -1 is not in 0 to 15, what 1.conv1 has.'),
        (dict(layer='1.conv2'), 'padding_mode other than zeros'),
    ],
)
def test_wrong_names_and_numbers_are_one_sentence(demo, wanted, message):
    layers = dict(
        conv1=conv('ReBNNConv2d', 16, 8, 3), conv2=conv('ReBNNConv2d', 8, 8, 3, padding=1, padding_mode='reflect')
    )
    model = nn.Sequential(conv('ReBNNConv2d', 3, 16, 3), nn.ModuleDict(layers))
    error = refusal(demo.choose_layer, model, Namespace(**{'layer': None, 'filter': 0, 'channel': 0, **wanted}))
    assert message in error and '\n' not in error


def test_a_detector_without_binary_layers(demo):
    error = refusal(demo.choose_layer, nn.Conv2d(8, 8, 3), Namespace(layer=None, filter=0, channel=0))
    assert 'no layer with 1-bit weights and inputs' in error


def test_from_the_image_to_the_bits(binary_detector, tmp_path):
    import cv2

    layer, number = 'backbone.layer2.0.conv1', 5
    options = ['--layer', layer, '--filter', number, '--channel', 3, '--score-thr', 0, '--out', tmp_path / 'look.png']
    done = run_script('demo/look_inside.py', IMAGE, *binary_detector, *options)
    assert done.returncode == 0, done.stderr
    assert 'objects    100 with a score of at least 0 ' in done.stdout  # an untrained detector fills max_per_img

    weight = torch.load(binary_detector[1], weights_only=False)['state_dict'][f'{layer}.weight'][number]
    bits = (weight[:, 0, 0] < 0).tolist()
    byte = [sum(bit << place for place, bit in enumerate(bits[start : start + 8])) for start in range(0, 64, 8)]
    assert f'bytes      {bytes(byte).hex(" ")}\n' in done.stdout
    assert 'weights    576 latent ones in 2304 bytes, as bits in 72\n' in done.stdout
    # A map of 128x160 at stride 8.
    assert 'the same   320 of 320 values equal' in done.stdout
    assert cv2.imread(str(tmp_path / 'look.png')).shape == (1040, 2080, 3)
    assert [path.name for path in tmp_path.iterdir()] == ['look.png']


def test_says_so_if_the_bits_gave_something_else(demo, binary_detector, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, 'POPCOUNT', np.roll(demo.POPCOUNT, 1))
    monkeypatch.chdir(ROOT)
    out = str(tmp_path / 'look.png')
    monkeypatch.setattr(sys, 'argv', ['demo/look_inside.py', IMAGE, *map(str, binary_detector), '--out', out])
    with pytest.raises(SystemExit) as end:
        demo.main()
    assert end.value.code == 1
    captured = capsys.readouterr()
    assert re.search(r'the bits give another output than the layer, by up to \d', captured.err)
