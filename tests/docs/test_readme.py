"""The code of the README, run as it stands."""

import re
import shutil
import warnings

import pytest

from tests.scripts import ROOT

RUN, TRAIN = re.findall(r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), flags=re.DOTALL)


def test_python_finds_cells(tmp_path, monkeypatch, capsys):
    pytest.importorskip('onnxruntime')
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / 'rebnn_mm/zoo/BloodImage_00021.jpg', 'photo.jpg')
    found = {}
    exec(compile(RUN, 'README.md', 'exec'), found)
    assert len(found['cells'].boxes) > 10 and str(found['cells'].labels) in capsys.readouterr().out


@pytest.mark.parametrize('layer', re.findall(r'`(\w+Conv2d)`', (ROOT / 'README.md').read_text()))
def test_the_layers_that_are_named_train_with_their_driver(layer):
    swapped = TRAIN.replace('ReBNNConv2d', layer).replace('ResilientGradient', 'MethodDriver')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        exec(compile(swapped, 'README.md', 'exec'), {})


def test_python_makes_a_model_binary_and_trains_it():
    done = {}
    exec(compile(TRAIN, 'README.md', 'exec'), done)
    model = done['model']
    latent = model.layer1[0].conv1.weight
    assert model.layer1[0].conv1.binary and latent.grad.abs().sum() > 0
    # What the README says keeps full precision.
    assert not any(getattr(layer, 'binary', False) for layer in (model.conv1, model.layer2[0].downsample[0], model.fc))
