"""The page on training without OpenMMLab, its code run as it stands."""

import re
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from rebnn_mm.deploy import load
from rebnn_mm.engine import ResilientGradient
from rebnn_mm.layers import BinaryLayer
from tests.tolerances import FLOAT32_ROUNDING

pytest.importorskip('torchvision')

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / 'docs' / 'plain_pytorch.md').read_text()
BLOCKS = re.findall(r'```python\n(.*?)```', PAGE, flags=re.DOTALL)
DETECTOR, IMAGES, LOOP, LIGHTNING, EXPORT, RUN = BLOCKS


def run(blocks, names, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in blocks:
            exec(compile(block, 'docs/plain_pytorch.md', 'exec'), names)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp('clone')
    (made / 'demo').symlink_to(ROOT / 'demo')
    return made


@pytest.fixture(scope='module')
def trained(folder):
    """What the code of the page defines, up to the trained detector."""
    names = {'__name__': 'page'}
    run([DETECTOR, IMAGES, LOOP], names, folder)
    return names


@pytest.fixture(scope='module')
def exported(trained, folder):
    """The same with its packed file."""
    run([EXPORT, RUN], trained, folder)
    return trained


def test_the_plan_of_the_page_holds(trained):
    detector = trained['build']()
    real = [name for name, layer in detector.named_modules() if isinstance(layer, BinaryLayer) and not layer.binary]
    assert [name for name in real if 'fpn' not in name and 'downsample' not in name] == [
        'backbone.body.conv1',
        'head.classification_head.cls_logits',
        'head.regression_head.bbox_reg',
        'head.regression_head.bbox_ctrness',
    ]
    assert len(ResilientGradient(detector)) == 24


def test_the_loop_trains_with_the_rule(trained):
    losses, layers = trained['losses'], trained['resilient'].layers
    assert len(losses) == 8 and sum(losses[4:]) < 0.9 * sum(losses[:4])
    assert all(layer.all_steps == 8 for layer in layers)
    assert sum(int(layer.all_flips) for layer in layers) > 0


def test_lightning_ends_with_the_same_weights(trained, folder):
    pytest.importorskip('lightning')
    torch.manual_seed(0)
    run([LIGHTNING], trained, folder)
    found = trained['task'].detector.state_dict()
    for name, value in trained['detector'].state_dict().items():
        torch.testing.assert_close(found[name], value, atol=0, rtol=0, msg=lambda m, name=name: f'{name}: {m}')
    shares = trained['task'].resilient.statistics()
    assert shares['flips_per_million'] > 0 and shares['term_share_max_percent'] > 0


class FromFile(torch.nn.Module):
    """Stands for the head of a detector: the outputs of its file."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = outputs

    def forward(self, features):
        keys = ('cls_logits', 'bbox_regression', 'bbox_ctrness')
        return {key: torch.from_numpy(values) for key, values in zip(keys, self.outputs.values(), strict=True)}


@pytest.mark.slow
def test_the_file_and_torchvision_give_the_boxes_of_the_detector(exported, folder):
    detector = exported['detector'].eval()
    image = exported['cells'][0][0].mul(255).byte()[:, ::5, ::5].contiguous()  # of the network's size, none is resized
    with torch.no_grad():
        (expected,) = detector([image / 255])
        outputs = load(folder / 'cells.onnx')(image.permute(1, 2, 0).numpy())
        other = deepcopy(detector)
        other.head = FromFile(outputs)
        (found,) = other([image / 255])
    assert len(expected['boxes']) > 0 and torch.equal(found['labels'], expected['labels'])
    torch.testing.assert_close(found['scores'], expected['scores'], atol=FLOAT32_ROUNDING, rtol=0)
    torch.testing.assert_close(found['boxes'], expected['boxes'], atol=100 * FLOAT32_ROUNDING, rtol=0)


@pytest.mark.slow
def test_the_file_holds_bits(exported, folder):
    size = (folder / 'cells.onnx').stat().st_size
    real = sum(4 * value.numel() for value in exported['detector'].state_dict().values())
    assert size == len(exported['result'].data) < real / 8
    assert {name: values.shape for name, values in exported['outputs'].items()} == {
        'output_0': (1, 257, 4),
        'output_1': (1, 257, 4),
        'output_2': (1, 257, 1),
    }
