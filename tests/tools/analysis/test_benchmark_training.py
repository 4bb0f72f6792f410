import importlib.util
import json
import statistics
from pathlib import Path

import pytest

TOOL = 'tools/analysis/benchmark_training.py'
CLASSIFIER = 'configs/resnet18_rebnn_imagenet.py'


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('benchmark_training', Path(__file__).parents[3] / TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_measures_a_variant_alone(run_tool, tmp_path):
    done = run_tool(
        TOOL, CLASSIFIER, '--image-size', 32, '--rounds', 2, '--warmup', 0, '--batches', 1, '--variants', 'plain',
        '--device', 'cpu', '--json', tmp_path / 'out' / 'cost.json',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / 'out' / 'cost.json').read_text())
    # eleven million weights, their gradients and the optimizer's momentum take 4 bytes each
    assert report['variants']['plain']['peak_mib'] - report['before_mib'] > 3 * 11e6 * 4 / 2**20
    assert report['image_size'] == '32x32'
    assert {'device', 'cpu', 'python', 'torch', 'date'} <= set(report['machine'])
    assert 'plain straight-through layers' in done.stdout


def test_measures_variants_of_a_detector_in_turns(run_tool, tmp_path):
    done = run_tool(
        TOOL, 'configs/faster_rcnn_r18_rebnn_coco.py', '--image-size', 96, '--batch-size', 1, '--batches', 1,
        '--rounds', 3, '--warmup', 1, '--no-memory', '--device', 'cpu', '--variants', 'rebnn', 'no_gamma',
        '--json', tmp_path / 'cost.json', '--cfg-options', 'model.train_cfg.rcnn.sampler.num=16',
        'model.train_cfg.rpn_proposal.max_per_img=50',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / 'cost.json').read_text())
    assert list(report['variants']) == list(report['seconds']) == ['rebnn', 'no_gamma']
    for name, row in report['variants'].items():
        seconds = report['seconds'][name]
        assert len(seconds) == 3 and min(seconds) > 0
        assert row['median_ms'] == pytest.approx(1000 * statistics.median(seconds), abs=0.01)
    ratios = [a / b for a, b in zip(report['seconds']['rebnn'], report['seconds']['no_gamma'], strict=True)]
    assert report['variants']['no_gamma']['first_over_this'] == pytest.approx(statistics.median(ratios), abs=1e-3)
    assert 'the same layers without the gamma rule' in done.stdout.replace('\n', ' ')


def test_variants_differ_in_the_layers_only(tool):
    conv = dict(type='ReBNNConv2d', gamma='max')
    model = dict(
        backbone=dict(depth=18, conv_cfg=conv, init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet18')),
        heads=[dict(conv_cfg=conv), dict(conv_cfg=dict(type='DCN'))],
    )
    plain = tool.swap_layers(model, 'BinaryConv2d')
    assert plain == dict(
        backbone=dict(depth=18, conv_cfg=dict(type='BinaryConv2d'), init_cfg=None),
        heads=[dict(conv_cfg=dict(type='BinaryConv2d')), dict(conv_cfg=dict(type='DCN'))],
    )
    assert tool.swap_layers(model, None)['heads'] == [dict(conv_cfg=None), dict(conv_cfg=dict(type='DCN'))]
    assert tool.swap_layers(model, 'ReBNNConv2d')['backbone']['conv_cfg'] == conv


def test_a_config_without_our_layers_is_one_sentence(run_tool):
    done = run_tool(TOOL, 'configs/faster_rcnn_r18_coco.py')
    assert done.returncode == 1
    assert "has no conv_cfg=dict(type='ReBNNConv2d')" in done.stderr and 'Traceback' not in done.stderr
