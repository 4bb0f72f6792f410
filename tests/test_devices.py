"""On a GPU nothing is made on the CPU and no step waits for a value: shown on tensors that only stand for a GPU's."""

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils._python_dispatch import TorchDispatchMode

from rebnn_mm.engine import MethodDriver, ResilientGradient
from rebnn_mm.functional.sign_product import sum_signs
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.layers.attention import EncoderAttention
from rebnn_mm.quantizers import ActivationQuantizer, MissingHookWarning, WeightQuantizer
from rebnn_mm.quantizers.shared import BinaryMeanScaleWeight
from rebnn_mm.registry import BLOCKS, list_classes
from tests.fake_gpu import fake_gpu, stand_in, to_fake_gpu
from tests.fake_gpu import grad as fake_gpu_grad


def ours(base: type) -> list[str]:
    return [name for name, cls in list_classes(base).items() if cls.__module__.startswith('rebnn_mm.')]


STYLES = sorted(name for name in BLOCKS.module_dict if name.islower())
MODES = [('sums', None), ('sums', torch.bfloat16), ('recompute', torch.float16), ('plain', torch.bfloat16)]
pytestmark = pytest.mark.filterwarnings('ignore', category=MissingHookWarning)


def train(module: nn.Module, x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A forward and a backward pass on the fake card."""
    to_fake_gpu(module)
    with torch.autocast('cuda', dtype, enabled=dtype is not None):
        y = module(x)
        y.float().square().mean().backward()
    assert all(t.grad is not None and t.grad.is_cuda for t in (x, *module.parameters()))
    return y


def conv_of(name: str, **options) -> nn.Module:
    return MODELS.build(dict(type=name, in_channels=8, out_channels=6, kernel_size=3, padding=1, **options))


@pytest.mark.parametrize(('memory', 'dtype'), MODES, ids=str)
@pytest.mark.parametrize('name', ours(BinaryConv2d))
def test_a_convolution(name, memory, dtype):
    conv = conv_of(name, memory=memory)
    with fake_gpu():
        y = train(conv, stand_in(2, 8, 5, 4, requires_grad=True), dtype)
        assert y.shape == (2, 6, 5, 4) and y.dtype == (dtype or torch.float32)


@pytest.mark.parametrize('name', ours(BinaryLinear))
def test_a_linear_layer(name):
    layer = MODELS.build(dict(type=name, in_features=8, out_features=6))
    with fake_gpu():
        assert train(layer, stand_in(2, 5, 8, requires_grad=True)).shape == (2, 5, 6)


@pytest.mark.parametrize(
    'quantizers',
    [
        *(dict(weight=name) for name in ours(WeightQuantizer)),
        *(dict(activation=name) for name in ours(ActivationQuantizer)),
    ],
    ids=str,
)
def test_a_quantizer_in_training_and_in_evaluation(quantizers):
    layer = BinaryLinear(8, 6, **quantizers)
    with fake_gpu():
        y = train(layer, stand_in(2, 5, 8, requires_grad=True))
        with torch.no_grad():
            assert layer.eval()(stand_in(2, 5, 8)).shape == y.shape


@pytest.mark.parametrize('memory', ['plain', pytest.param('recompute', marks=pytest.mark.slow)])
@pytest.mark.parametrize('style', STYLES)
def test_a_block(style, memory):
    block = BLOCKS.build(
        dict(type=style, in_channels=4, out_channels=8, stride=2, conv_cfg=dict(type='ReBNNConv2d', memory=memory))
    )
    with fake_gpu():
        assert train(block, stand_in(2, 4, 6, 6, requires_grad=True), torch.bfloat16).shape == (2, 8, 3, 3)


@pytest.mark.parametrize('name', ours(EncoderAttention))
def test_an_attention(name):
    attention = MODELS.build(dict(type=name, heads=2, head_dim=4))
    with fake_gpu():
        to_fake_gpu(attention)
        query = stand_in(3, 2, 5, 4, requires_grad=True)
        parts = attention(query, query, query, stand_in(3, 1, 1, 5, dtype=torch.bool), 0.1, 0.5)
        parts.output.sum().backward()
        assert query.grad is not None and query.grad.is_cuda


@pytest.mark.parametrize(
    'options',
    [{}, dict(gamma='max', center='row'), dict(gamma=1e-4), dict(flip_window=2), dict(variant='official')],
    ids=str,
)
def test_steps_with_the_resilient_gradient(options):
    net = nn.Sequential(conv_of('ReBNNConv2d', bias=False, **options), nn.Flatten())
    with fake_gpu():
        to_fake_gpu(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        resilient = ResilientGradient(net).attach(optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            net(stand_in(2, 8, 5, 4)).square().mean().backward()
            optimizer.step()
        assert all(layer.flips.is_cuda for layer in resilient.layers)
        assert net[0].gamma.is_cuda and net[0].alpha.grad.is_cuda


@pytest.mark.parametrize('name', ours(BinaryConv2d))
def test_steps_with_a_methods_schedules_and_constraints(name):
    net = nn.Sequential(conv_of(name))
    with fake_gpu():
        to_fake_gpu(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        driver = MethodDriver(net).attach(optimizer)
        driver.set_progress(0.5)
        net(stand_in(2, 8, 5, 4)).square().mean().backward()
        optimizer.step()
        assert net[0].weight.is_cuda


class OnCpu(BinaryMeanScaleWeight):
    """Makes ones where the CPU is."""

    def forward(self, weight):
        return super().forward(weight) * torch.ones(weight.shape)


class OneNumberOnCpu(BinaryMeanScaleWeight):
    def forward(self, weight):
        return super().forward(weight) * torch.tensor(1.0)


class Waits(BinaryMeanScaleWeight):
    def forward(self, weight):
        return super().forward(weight) if weight.abs().max() > 0 else weight


@pytest.mark.parametrize(
    ('quantizer', 'error', 'message'),
    [
        (OnCpu, AssertionError, 'aten.ones.default gives a tensor on cpu'),
        (OneNumberOnCpu, AssertionError, 'gives a tensor on cpu'),
        (Waits, DataDependentOutputException, '_local_scalar_dense'),
    ],
)
def test_a_wrong_layer_is_found(quantizer, error, message):
    conv = BinaryConv2d(8, 6, 3, padding=1)
    conv.weight_quantizer = quantizer((6, 8, 3, 3))
    with fake_gpu(), pytest.raises(error, match=message):
        train(conv, stand_in(2, 8, 5, 4, requires_grad=True))


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_sums_of_integers_are_rounded_as_an_algorithm_of_a_gpu_may_miss_them():
    types = torch.float32, torch.float32
    with fake_gpu(), Operators() as seen, torch.no_grad():
        sum_signs(stand_in(2, 8, 5, 4), stand_in(6, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1, *types)
    assert 'round_' in seen.names[seen.names.index('convolution') :]


def test_the_stand_in_for_the_pass_backwards_gives_its_gradients():
    torch.manual_seed(0)
    block = BLOCKS.build(
        dict(type='react', in_channels=4, out_channels=8, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
    )
    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    leaves = [x, *block.parameters()]
    expected = torch.autograd.grad(block(x).square().sum(), leaves)
    for ours, theirs in zip(fake_gpu_grad(block(x).square().sum(), leaves), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
