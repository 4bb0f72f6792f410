import importlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

TOOL = 'rebnn ops'
ROOT = Path(__file__).parents[3]
FASTER_RCNN = ROOT / 'configs' / 'coco/faster_rcnn_r18_rebnn_coco.py'
RESNET = ROOT / 'configs' / 'imagenet/resnet18_rebnn_imagenet.py'


@pytest.fixture
def get_ops(monkeypatch, capsys):
    """``get_ops('config', '--flag')`` gives what the tool prints."""
    module = importlib.import_module('rebnn_mm.cli.ops')

    def run(*args):
        monkeypatch.setattr(sys, 'argv', [TOOL, *map(str, args)])
        module.main()
        return capsys.readouterr().out

    return run


def test_a_detector_from_the_command_line(run_tool):
    done = run_tool(TOOL, FASTER_RCNN)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert lines['backbone.layer1.0.conv1'][1:4] == ['1/1', '64x152x256', '36,992']
    assert lines['roi_head.shared_head.layer4.1.conv2'][1:3] == ['1/1', '300x512x4x4']
    assert '608x1024 (test pipeline: Resize to 600x1000; padded to multiples of 32' in done.stdout
    assert 'regions:       300 per image in the second stage' in done.stdout
    assert 'OPs:           3,251.32 M, 18.65 times fewer than MACs' in done.stdout


def test_shape_regions_and_options(get_ops):
    out = get_ops(
        FASTER_RCNN, '--shape', 600, 1000, '--rois', 100, '--format', 'json',
        '--cfg-options', 'model.rpn_head.feat_channels=256',
    )  # fmt: skip
    cost = json.loads(out)
    assert cost['input'] == {'shape': [600, 1000], 'from': '--shape', 'rois': 100}
    layers = {layer['name']: layer for layer in cost['layers']}
    assert layers['rpn_head.rpn_conv.0.conv']['output'] == [1, 256, 38, 63]
    assert layers['roi_head.bbox_head.fc_cls']['output'] == [100, 81]


def test_a_file(get_ops, tmp_path):
    out = tmp_path / 'new' / 'ops.json'
    assert get_ops(RESNET, '--format', 'json', '--out', out) == f'{out}: json of 21 layers\n'
    total = json.loads(out.read_text())['total']
    assert total['ops'] == 163_985_408
    assert [path.name for path in out.parent.iterdir()] == ['ops.json']


SWAPPED = """
_base_ = '{base}'
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
binary = dict(type='ReBNNConv2d', keep_real=['stem'])
model = dict(backbone=dict(conv_cfg=binary), neck=dict(conv_cfg=binary), bbox_head=dict(conv_cfg=binary))
"""


@pytest.mark.parametrize(
    ('base', 'layers', 'calls', 'shape', 'share'),
    [
        ('mmdet::retinanet/retinanet_r18_fpn_1x_coco.py', 16 + 8 + 8, 5, [800, 1344], 0.788),
        ('mmdet::yolox/yolox_tiny_8xb8-300e_coco.py', 73, 1, [416, 416], 0.956),
    ],
)
def test_a_stock_config_with_swapped_layers(base, layers, calls, shape, share, get_ops, tmp_path):
    config = tmp_path / 'swapped.py'
    config.write_text(SWAPPED.format(base=base))
    cost = json.loads(get_ops(config, '--format', 'json'))
    binary = [layer for layer in cost['layers'] if layer['weight_bits'] == 1]
    assert len(binary) == layers
    assert cost['input']['shape'] == shape
    assert {layer['calls'] for layer in binary if layer['name'].startswith('bbox_head')} == {calls}
    assert cost['total']['binary_share_of_macs'] == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['configs/no_such_config.py'], 'no config file at configs/no_such_config.py.'),
        ([RESNET, '--rois', 5], 'ImageClassifier has no second stage, so rois=5 has no use'),
        ([RESNET, '--shape', 0, 5], 'must be a height and a width above 0'),
        ([ROOT / 'configs/coco/ssd300_vgg16_rebnn_coco.py', '--shape', 20, 20], 'the network does not run on 20x20: '),
    ],
)
def test_errors_are_one_sentence(args, message, get_ops, capsys):
    with pytest.raises(SystemExit, match='1'):
        get_ops(*args)
    error = capsys.readouterr().err
    assert message in error and 'Traceback' not in error and error.count('\n') == 1
