from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

import rebnn_mm.methods
from rebnn_mm.engine import MethodDriver, ResilientGradient
from rebnn_mm.engine.flip_recorder import negative_weights
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.methods import METHODS
from rebnn_mm.registry import list_classes

LAYERS = {**list_classes(BinaryConv2d), **list_classes(BinaryLinear)}
FILES = {path.stem for path in Path(rebnn_mm.methods.__file__).parent.glob('*.py')} - {'__init__'}


def test_every_file_is_listed():
    assert set(METHODS) == FILES


@pytest.mark.parametrize('method', METHODS)
def test_a_line_says_what_it_is_and_its_names_are_registered_and_importable(method):
    summary, names = METHODS[method]
    assert ': ' in summary and summary.endswith('.')
    assert names and all(getattr(rebnn_mm.methods, name) is MODELS.get(name) for name in names)


@pytest.mark.parametrize('name', [name for name, cls in LAYERS.items() if cls.__module__.startswith('rebnn_mm.')])
def test_every_layer_names_its_torch_layer_as_a_direct_base(name):
    """Otherwise ``init_cfg=dict(layer='Conv2d')`` would leave it out."""
    assert (nn.Conv2d if name.endswith('Conv2d') else nn.Linear) in LAYERS[name].__bases__


@pytest.mark.parametrize('name', [name for name in LAYERS if name.endswith('Conv2d')])
def test_some_steps_turn_signs_and_lower_the_loss(name):
    """Two patterns with noise on them, told apart through two binary layers, the last of which is pooled."""
    torch.manual_seed(0)
    conv = dict(kernel_size=3, padding=1, bias=False)
    layers = [MODELS.build(dict(type=name, in_channels=8, out_channels=8, **conv)) for _ in range(2)]
    net = nn.Sequential(
        layers[0],
        nn.BatchNorm2d(8),
        layers[1],
        nn.BatchNorm2d(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    )
    labels = torch.arange(32) % 2
    x = 0.5 * torch.randn(2, 8, 6, 6)[labels] + torch.randn(32, 8, 6, 6)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    ResilientGradient(net).attach(optimizer)
    driver = MethodDriver(net).attach(optimizer)
    losses, signs = [], []
    for step in range(40):
        driver.set_progress(step / 40)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        assert all(layer.weight.grad.abs().sum() > 0 for layer in layers)
        optimizer.step()
        losses.append(loss.item())
        signs.append(torch.stack([negative_weights(layer) for layer in layers]))
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    assert all((one != other).any() for one, other in zip(signs[0], signs[-1], strict=True))
