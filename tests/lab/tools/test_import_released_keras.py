"""Larq Zoo's networks: what they compute is what our configs compute, and their files' layers all find a place."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from lab.tools import larq_zoo
from tests.scripts import ROOT, load_script

from .larq_networks import NETWORKS, Keras

register_all_modules(init_default_scope=False)

TOOL = 'lab/tools/import_released.py'
tool = load_script(TOOL)

FLOAT32_VARIANCE = dict(atol=1e-4, rtol=1e-5)
"""Of maps in float64, where the sum of a variance and an epsilon was rounded to float32."""


def model_of(name: str, channels: int = 512, device: str = 'cpu', **backbone):
    model = Config.fromfile(ROOT / 'configs' / tool.RELEASED[name].config).model
    model.backbone.update(backbone)
    model.head.in_channels = channels
    with DefaultScope.overwrite_default_scope('mmpretrain'), torch.device(device):
        return MODELS.build(model).eval()


LAYERS: dict[str, list[str]] = {}
"""Of the real library's files, by the name that the tool takes."""
for line in (Path(__file__).parent / 'larq_zoo.txt').read_text().splitlines()[1:]:
    if line.startswith('['):
        layers = LAYERS[line.strip('[]')] = []
    else:
        layers.append(line)


def listed(name: str) -> list[larq_zoo.Stored]:
    """What a file of the real library holds, with one value everywhere."""
    stored = []
    for layer, *tensors in map(str.split, LAYERS[name]):
        for tensor in tensors:
            key, _, shape = tensor.partition(':')
            value = np.full([int(length) for length in shape.split('x')], 0.5, np.float32)
            if layer.startswith('depthwise'):
                value[..., 0] = np.outer([1, 2, 1], [1, 2, 1])[..., None] / 16
            stored.append((layer, f'{layer}/{key}:0', value))
    return stored


@pytest.fixture(scope='module', params=NETWORKS)
def computed(request):
    """Name, what the file would hold, images, and the scores of the network written out."""
    network, channels, narrow = NETWORKS[request.param]
    images = torch.randn(3, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    keras = Keras()
    return request.param, channels, narrow, keras.stored, images, network(keras, images)


def test_network_computes_what_larq_zoo_does(computed):
    name, channels, narrow, stored, images, expected = computed
    model = model_of(name, channels, **narrow)
    state = tool.convert(larq_zoo.as_pytorch(stored), tool.RELEASED[name], model.state_dict())
    model.load_state_dict(state, strict=False)
    with torch.no_grad():
        found = model.double()(images, mode='tensor')
    torch.testing.assert_close(found, expected, **FLOAT32_VARIANCE)
    assert expected.std(dim=0).mean() > 0.1  # images tell, so an agreement says something


def test_padding_on_both_sides_is_another_network(computed):
    """What Keras' padding is for: with PyTorch's the scores are others."""
    name, channels, narrow, stored, images, expected = computed
    stem = dict(stem_cfg=None) if name.startswith('quicknet') or 'melius' in name else dict(stem='imagenet')
    model = model_of(name, channels, **narrow, **stem)
    model.load_state_dict(
        tool.convert(larq_zoo.as_pytorch(stored), tool.RELEASED[name], model.state_dict()), strict=False
    )
    with torch.no_grad():
        found = model.double()(images, mode='tensor')
    assert (found - expected).abs().mean() > 0.1


@pytest.mark.parametrize('name', LAYERS)
def test_every_layer_of_the_real_file_finds_its_place(name):
    wanted = model_of(name, device='meta').state_dict()
    found = tool.convert(larq_zoo.as_pytorch(listed(name)), tool.RELEASED[name], wanted)
    assert found.keys() == {key for key in wanted if not key.endswith('num_batches_tracked')}


def test_the_networks_written_out_have_the_layers_of_the_real_files(computed):
    name, stored = computed[0], computed[3]
    assert set(larq_zoo.as_pytorch(stored)) == set(larq_zoo.as_pytorch(listed(name)))


class TestRefused:
    """Each in one sentence."""

    @pytest.fixture
    def refused(self, monkeypatch, capsys, tmp_path):
        def refused(name: str, content: bytes) -> str:
            (tmp_path / 'x.h5').write_bytes(content)
            monkeypatch.setattr(sys, 'argv', [TOOL, name, str(tmp_path / 'x.h5'), str(tmp_path / 'ours.pth')])
            with pytest.raises(SystemExit, match='1'):
                tool.main()
            assert not (tmp_path / 'ours.pth').exists()
            (line,) = capsys.readouterr().err.splitlines()
            return line

        return refused

    def test_without_h5py(self, refused, monkeypatch):
        monkeypatch.setitem(sys.modules, 'h5py', None)
        assert refused('quicknet', larq_zoo.HDF5).endswith('x.h5 is a Keras file, which h5py reads: pip install h5py.')

    @pytest.mark.parametrize('content', [b'', b'hello\n', b'<html>Not found</html>'], ids=['empty', 'text', 'page'])
    def test_no_file_of_weights(self, content, refused):
        assert 'x.h5 is not a file of quicknet: cannot be read: ' in refused('quicknet', content)

    @pytest.mark.parametrize(
        ('name', 'of', 'message'),
        [
            (
                'quicknet-small',
                'quicknet-large',
                r"^'quant_conv2d.21.weight' is not a parameter of this network, nor are",
            ),
            ('quicknet-large', 'quicknet', r"^what becomes 'backbone.layer3.4.conv.weight', and 79 more are missing"),
            ('quicknet', 'quicknet-small', r"^'quant_conv2d.0.weight' has the shape \(8, 3, 3, 3\) where \(16, 3, 3"),
            (
                'larq-meliusnet22',
                'larq-real-to-binary',
                r"^'r2b_bnn_block_1_conv2d.weight' is not a parameter of this",
            ),
        ],
    )
    def test_another_network(self, name, of, message):
        with pytest.raises(ValueError, match=message):
            tool.convert(
                larq_zoo.as_pytorch(listed(of)), tool.RELEASED[name], model_of(name, device='meta').state_dict()
            )

    def test_another_blur(self):
        stored = [(layer, path, value + layer.startswith('depth')) for layer, path, value in listed('quicknet')]
        with pytest.raises(ValueError, match=r"^the blurring filter that would become 'backbone.layer2.0.2.weight'"):
            tool.convert(
                larq_zoo.as_pytorch(stored),
                tool.RELEASED['quicknet'],
                model_of('quicknet', device='meta').state_dict(),
            )
