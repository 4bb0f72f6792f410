"""Files of networks are made once, from what their names say, and never half."""

import onnx
import pytest

from rebnn_mm.benchmark import files
from rebnn_mm.benchmark.files import ModelFiles
from rebnn_mm.benchmark.networks import NETWORKS, Network
from rebnn_mm.benchmark.timing import noise_feeds, open_timed
from rebnn_mm.utils.config_file import get_config_dir

CONFIG = """
default_scope = 'mmpretrain'
stage = dict(num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,))
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryResNet', depth=18, block='react', base_channels=16, conv_cfg={conv_cfg}, **stage),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=16),
)
"""


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('files')


@pytest.fixture(scope='module')
def network(tmp_path_factory) -> Network:
    """One block of a ResNet, and its twin."""
    folder = tmp_path_factory.mktemp('configs')
    names = {'binary': "dict(type='ReBNNConv2d')", 'real': 'None'}
    for name, conv_cfg in names.items():
        (folder / f'{name}.py').write_text(CONFIG.format(conv_cfg=conv_cfg))
    return Network(*(str(folder / name) for name in names), (32, 32))


@pytest.fixture(scope='module')
def made(folder, network):
    steps = []
    return ModelFiles(folder, steps.append).of_network('small', network), steps


def test_five_files_of_one_network(made):
    paths, steps = made
    assert sorted(paths) == ['fast', 'fp32', 'int8', 'mixed', 'packed'] and len(steps) == 5
    sizes = {kind: path.stat().st_size for kind, path in paths.items()}
    assert sizes['packed'] < sizes['int8'] < sizes['fp32']
    operators = {node.op_type for node in onnx.load(paths['mixed']).graph.node}
    assert {'RealStem', 'QuantizeLinear'} <= operators
    for kind, path in paths.items():
        session = open_timed(path, kind in ('packed', 'fast', 'mixed'), 1)
        (scores,) = session.run(None, noise_feeds(session, (32, 32)))
        assert scores.shape == (1, 10) and abs(scores.sum() - 1) < 0.02  # the int8 network rounds them to 1/256


def test_they_are_made_once(made, folder, network):
    paths, _ = made
    steps = []
    assert ModelFiles(folder, steps.append).of_network('small', network) == paths
    assert steps == []


def test_other_contents_get_another_name(folder, monkeypatch):
    kept = ModelFiles(folder)._make_once
    first = kept('n', 'k', ['one'], lambda: b'1')
    assert kept('n', 'k', ['two'], lambda: b'2') != first
    monkeypatch.setattr(files, '_sources', lambda: 'changed')
    assert kept('n', 'k', ['one'], lambda: b'3') != first
    assert first.read_bytes() == b'1'


def test_what_is_interrupted_leaves_nothing(tmp_path):
    def stopped() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ModelFiles(tmp_path)._make_once('n', 'k', [], stopped)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('network', NETWORKS.values(), ids=NETWORKS)
def test_configs_exist(network):
    assert all((get_config_dir() / f'{name}.py').is_file() for name in (network.config, network.real))
