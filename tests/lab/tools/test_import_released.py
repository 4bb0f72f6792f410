import os
import re
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from rebnn_mm.utils.checkpoint import check_checkpoint
from tests.refusal import refusal
from tests.scripts import ROOT, load_script

from .released_networks import NAMED, WRITTEN_OUT, ReActNetA, drawn

register_all_modules(init_default_scope=False)

TOOL = 'lab/tools/import_released.py'
tool = load_script(TOOL)

REAL_FILE = Path(os.environ.get('REBNN_ADABIN_RESNET20', ''))
"""AdaBin's published ResNet-20 for CIFAR-10, where somebody has it."""


@pytest.fixture
def run(monkeypatch, capsys):
    """``run('reactnet-a', source, out)`` gives what the command prints."""

    def run(*args, stops: bool = False) -> str:
        monkeypatch.setattr(sys, 'argv', [TOOL, *map(str, args)])
        if stops:
            with pytest.raises(SystemExit, match='1'):
                tool.main()
            return capsys.readouterr().err
        tool.main()
        return capsys.readouterr().out

    return run


def model_of(name: str, channels: int | None = None, **backbone):
    """The model of a config, narrower if options of its backbone and the channels of its last map are given."""
    path = ROOT / 'configs' / tool.RELEASED[name].config
    parts = {key: Config.fromfile(path).model[key] for key in ('backbone', 'neck', 'head')}
    parts['backbone'].update(backbone)
    if channels is not None:
        parts['head'].in_channels = channels
        if 'norm_channels' in parts['neck']:
            parts['neck'].norm_channels = channels
        if 'channels' in (parts['backbone'].get('stem_act') or {}):
            parts['backbone'].stem_act.channels = backbone['base_channels']
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return MODELS.build(dict(type='ImageClassifier', **parts)).eval()


def narrow_model(released):
    return model_of(released.name, released.channels, **released.narrow)


def published(released, seed: int = 0):
    state = drawn(released.shapes(), seed)
    for name, value in state.items():
        if name.endswith('temperature'):
            value.fill_(9.9e-8)
        if name.endswith('.scale'):
            value.uniform_(0, 1)
        if name.endswith('num_batches_tracked'):
            state[name] = torch.tensor(7)
    return state


@pytest.mark.parametrize('released', WRITTEN_OUT, ids=lambda each: each.name)
def test_network_computes_what_the_released_code_does(released):
    state, model = published(released), narrow_model(released)
    wrapped = {f'module.{name}': value for name, value in state.items()}
    ours = tool.convert(wrapped, tool.RELEASED[released.name], model.state_dict())
    model.load_state_dict(ours, strict=False)
    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        # In float64, where no rounding turns a sign.
        expected = released.forward({name: value.double() for name, value in state.items()}, images.double())
        found = model.double()(images.double(), mode='tensor')
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    assert expected.std(dim=0).mean() > 1e-2  # images tell, so an agreement says something


@pytest.mark.parametrize('released', [*NAMED, *WRITTEN_OUT], ids=lambda each: each.name)
def test_every_published_parameter_finds_its_place_and_none_is_left(released, tmp_path):
    state, model = published(released), narrow_model(released)
    ours = tool.convert(state, tool.RELEASED[released.name], model.state_dict())
    assert ours.keys() == {key for key in model.state_dict() if not key.startswith('data_preprocessor')}
    torch.save(dict(state_dict=ours), tmp_path / 'ours.pth')
    assert refusal(check_checkpoint, model, str(tmp_path / 'ours.pth')) is None
    unused = tool.RELEASED[released.name].unused
    used = {name for name in state if not unused or not re.match(unused, name)}
    two_norms = {name for name in used if name.endswith('bn2_2.num_batches_tracked')}
    values = sum(state[name].numel() for name in used - two_norms)
    added = sum(value.numel() for key, value in ours.items() if key.endswith('.sharpness'))
    assert sum(value.numel() for value in ours.values()) == values + added


def test_halves_keep_their_order():
    """One block of two convolutions, from two of one each."""
    rules = tool.RELEASED['reactnet-resnet18'].rules
    assert tool.rename('layer3.2.binary_conv.weight', rules) == 'backbone.layer3.1.conv1.weight'
    assert tool.rename('layer3.3.bn1.running_mean', rules) == 'backbone.layer3.1.bn2.running_mean'
    assert tool.rename('layer3.3.move0.bias', rules) == 'backbone.layer3.1.conv2.activation_quantizer.shift'
    assert tool.rename('layer2.0.downsample.2.bias', rules) == 'backbone.layer2.0.downsample.1.bias'
    two_stage = tool.RELEASED['recu-resnet18-two-stage'].rules
    assert tool.rename('layer1.1.conv.alpha', two_stage) == 'backbone.layer1.0.conv2.weight_quantizer.alpha'
    assert tool.rename('layer1.1.nonlinear.weight', two_stage) == 'backbone.layer1.0.act2.slope'
    assert tool.rename('conv.weight', two_stage) == 'backbone.conv1.weight'


def test_every_name_has_its_config():
    named = {ROOT / 'configs' / each.config for each in tool.RELEASED.values()}
    assert all(path.is_file() for path in named)
    assert set((ROOT / 'configs' / 'released').glob('*.py')) <= named


class TestRefused:
    """Each in one sentence."""

    @pytest.fixture
    def case(self):
        released = ReActNetA()
        return published(released), tool.RELEASED['reactnet-a'], narrow_model(released).state_dict()

    def test_a_missing_parameter(self, case):
        state, released, wanted = case
        without = {key: value for key, value in state.items() if key != 'feature.4.move12.bias'}
        with pytest.raises(ValueError, match=r"what becomes 'backbone.layer3.0.act1.shift_in' is missing\.$"):
            tool.convert(without, released, wanted)

    def test_half_of_a_widening_convolution(self, case):
        state, released, wanted = case
        without = {key: value for key, value in state.items() if key != 'feature.4.binary_pw_down2.weights'}
        with pytest.raises(
            ValueError, match=r"^'feature.4.binary_pw_down1.weights' is not a parameter of this network"
        ):
            tool.convert(without, released, wanted)

    def test_unexpected_parameters(self, case):
        state, released, wanted = case
        more = {**state, 'feature.14.bn1.weight': torch.ones(4), 'extra': torch.ones(4)}
        with pytest.raises(
            ValueError, match=r"^'feature.14.bn1.weight' is not a parameter of this network, nor are 1 m"
        ):
            tool.convert(more, released, wanted)

    def test_another_shape(self, case):
        state, released, wanted = case
        with pytest.raises(
            ValueError, match=r"^'fc.weight' has the shape \(10, 128\) where \(1000, 128\) is expected"
        ):
            tool.convert({**state, 'fc.weight': torch.ones(10, 128)}, released, wanted)

    def test_weights_that_are_not_yet_signs(self):
        (released,) = (each for each in WRITTEN_OUT if each.name == 'bnext-tiny')
        state = published(released)
        state['feature.3.FFN.binary_conv.temperature'].fill_(0.02)
        with pytest.raises(ValueError, match=r"'feature.3.FFN.binary_conv.temperature' is 0.02: its weights have not"):
            tool.convert(state, tool.RELEASED['bnext-tiny'], narrow_model(released).state_dict())

    @pytest.mark.parametrize(
        ('content', 'message'),
        [
            ({'features.0.weight': torch.zeros(1)}, "'features.0.weight' is not a parameter of this network"),
            ({'epoch': 3}, 'holds no state dict.'),
            (b'not a checkpoint', 'cannot be read:'),
        ],
    )
    def test_by_the_command(self, content, message, tmp_path, run):
        if isinstance(content, bytes):
            (tmp_path / 'x.th').write_bytes(content)
        else:
            torch.save(content, tmp_path / 'x.th')
        error = run('plain-resnet20', tmp_path / 'x.th', tmp_path / 'ours.pth', stops=True)
        assert f'x.th is not a file of plain-resnet20: {message}' in error and error.count('\n') == 1
        assert not (tmp_path / 'ours.pth').exists()

    def test_no_file(self, tmp_path, run):
        error = run('plain-resnet20', tmp_path / 'nothing.th', tmp_path / 'ours.pth', stops=True)
        assert 'nothing.th. Give the published file.' in error


def test_command_writes_what_our_tools_read(tmp_path, run):
    """The real-valued ResNet-20, whole: its names and shapes are those of the published file."""
    model = model_of('plain-resnet20')
    state = {}
    for key, value in model.state_dict().items():
        name = key.removeprefix('backbone.').replace('head.fc.', 'linear.')
        state[f'module.{name}'] = value
    torch.save(dict(best_prec1=91.73, state_dict=state), tmp_path / 'published.th')
    said = run('plain-resnet20', tmp_path / 'published.th', tmp_path / 'ours.pth')
    assert 'its config is configs/cifar10/reference/resnet20_plain_cifar10.py' in said
    assert refusal(check_checkpoint, model, str(tmp_path / 'ours.pth')) is None


@pytest.mark.skipif(not REAL_FILE.is_file(), reason="REBNN_ADABIN_RESNET20 does not name AdaBin's published file")
def test_adabins_published_file():
    model = model_of('adabin-resnet20')
    state = tool.read_published(REAL_FILE)
    ours = tool.convert(state, tool.RELEASED['adabin-resnet20'], model.state_dict())
    assert ours.keys() == model.state_dict().keys()
    assert torch.equal(
        ours['backbone.layer2.1.conv1.activation_quantizer.beta'], state['module.layer2.1.conv1.binary_a.beta_a']
    )
    model.load_state_dict(ours)
    with torch.no_grad():
        confidence = model(torch.randn(8, 3, 32, 32), mode='tensor').softmax(1).amax(1)
    assert confidence.mean() > 0.2  # of ten classes: a trained network
