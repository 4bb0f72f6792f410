import json
import statistics

import pytest
from mmengine.config import Config

from lab.tools.training_variants import OURS, swap_layers
from tests.scripts import load_script

TOOL = 'lab/tools/benchmark_training.py'
CLASSIFIER = 'configs/imagenet/resnet18_rebnn_imagenet.py'


@pytest.fixture(scope='module')
def tool():
    return load_script(TOOL)


@pytest.mark.slow
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


@pytest.mark.slow
def test_measures_variants_of_a_detector_in_turns(run_tool, tmp_path):
    done = run_tool(
        TOOL, 'configs/coco/faster_rcnn_r18_rebnn_coco.py', '--image-size', 96, '--batch-size', 1, '--batches', 1,
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


def layers_of(cfg):
    """The configs of binary layers in a model's."""
    if isinstance(cfg, (list, tuple)):
        return [layer for item in cfg for layer in layers_of(item)]
    if not isinstance(cfg, dict):
        return []
    own = [cfg[key] for key in ('conv_cfg', 'linear') if cfg.get(key)]
    return own + [layer for value in cfg.values() for layer in layers_of(value)]


def test_every_line_of_the_table_has_a_real_twin_and_takes_the_memory_option(tool, monkeypatch):
    for name, row in tool.ROWS.items():
        for key, value in row.environment:
            monkeypatch.setenv(key, value)
        cfg = Config.fromfile(row.config)
        cfg.merge_from_dict(dict(option.split('=') for option in row.cfg_options))
        model = cfg.model.to_dict()
        assert layers_of(model) and not layers_of(swap_layers(model, None)), name
        layers = layers_of(swap_layers(model, OURS, 'recompute'))
        assert layers and all(layer['memory'] == 'recompute' for layer in layers), name
        assert 'teacher' not in swap_layers(model, OURS), name


def test_ratios_are_to_the_real_valued_twin(tool):
    variants = {
        'real': {'kept_mib': 100.0, 'peak_mib': 300.0},
        'rebnn': {'kept_mib': 75.0, 'peak_mib': 200.0},
        'recompute': {'kept_mib': 25.0, 'peak_mib': 150.0},
    }
    seconds = {'real': [1.0, 2.0, 4.0], 'rebnn': [2.0, 2.0, 2.0], 'recompute': [3.0, 8.0, 8.0]}
    assert tool.ratios({'variants': variants, 'before_mib': 100.0, 'seconds': seconds}) == {
        'rebnn': {'kept': 0.75, 'peak': 0.5, 'time': 1.0},
        'recompute': {'kept': 0.25, 'peak': 0.25, 'time': 3.0},
    }


@pytest.mark.slow
def test_fills_the_table(run_tool, tmp_path):
    done = run_tool(
        TOOL, '--table', 'bert_without_dropout', 'two_images', '--rounds', 2, '--warmup', 0, '--device', 'cpu',
        '--json', tmp_path / 'table.json',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / 'table.json').read_text())
    images = report['two_images']['to_real']
    # what the page of results says it keeps
    assert images['sums']['kept'] < 0.75 and images['recompute']['kept'] < 0.45 and images['rebnn']['time'] > 0
    assert report['bert_without_dropout']['image_size'] == '128 words'
    assert '224x224' in done.stdout
    assert '2 of 2, two_images; ' in done.stderr and ' min left' in done.stderr


def test_takes_a_config_or_the_table(run_tool):
    done = run_tool(TOOL)
    assert done.returncode == 1 and 'Give a config, or --table.' in done.stderr


def test_a_config_without_our_layers_is_one_sentence(run_tool):
    done = run_tool(TOOL, 'configs/coco/faster_rcnn_r18_coco.py')
    assert done.returncode == 1
    assert 'has no 1-bit layers' in done.stderr and 'Traceback' not in done.stderr
