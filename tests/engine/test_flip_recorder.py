from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.engine import FlipRecorder, MethodDriver, ResilientGradient
from rebnn_mm.engine.flip_recorder import SignHistory, negative_weights
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import AdaBinWeight, BNNLinear, BNNWeight, ReBNNLinear, XNORLinear
from rebnn_mm.quantizers import Values, WeightQuantizer
from tests.engine.networks import TwoLayers

NAMES = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, WeightQuantizer) and cls.__module__.startswith('rebnn_mm.')
)


def changed(one, other):
    return [a != b for a, b in zip(one, other, strict=True)]


def there_and_back(signs):
    """Sequential flips over a list of sign vectors, the last of which is the present."""
    if len(signs) < 3:
        return 0
    return sum(a and b for a, b in zip(changed(*signs[-2:]), changed(*signs[-3:-1]), strict=True))


def test_counts_equal_a_count_in_plain_python():
    generator = torch.Generator().manual_seed(0)
    layer = BNNLinear(10, 4, bias=False)
    weights = torch.randn(3, 7, 4, 10, generator=generator)
    layer.weight.data = torch.randn(4, 10, generator=generator)
    history = SignHistory(layer)
    steps = [(layer.weight < 0).flatten().tolist()]
    epochs = list(steps)
    for epoch in weights:
        flips = sequential = 0
        for step in epoch:
            # Most weights stay, so that all four cases occur.
            layer.weight.data = torch.where(step > 0.5, -layer.weight.data, layer.weight.data)
            history.compare()
            steps.append((layer.weight < 0).flatten().tolist())
            flips += sum(changed(*steps[-2:]))
            sequential += there_and_back(steps)
        epochs.append(steps[-1])
        assert [int(count) for count in history.take_step_counts()] == [flips, sequential]
        expected = [sum(changed(*epochs[-2:])), there_and_back(epochs)]
        assert [int(count) for count in history.close_epoch()] == expected
        assert flips > sequential > 0
    assert history.weights == 40


def test_one_byte_per_weight():
    history = SignHistory(BNNLinear(10, 4))
    assert history.state.dtype == torch.uint8 and history.state.shape == (4, 10)
    assert int(history.state.max()) <= 15


def layer_with(name):
    torch.manual_seed(0)
    layer = BinaryConv2d(4, 8, 3, weight=name, activation=None)
    layer.weight_quantizer.start(layer.weight)
    with torch.no_grad():
        layer.weight[0, 0, 0] = torch.tensor([0.0, -0.0, -1e-45])
    return layer


@pytest.mark.parametrize('name', NAMES)
def test_sign_is_that_of_the_weight_the_layer_computes_with(name):
    layer = layer_with(name)
    negative = negative_weights(layer)
    computed = layer.eval().weight_quantizer(layer.weight).detach()
    if layer.weight_quantizer.values.kind == 'two':
        computed = computed - (computed.amax((1, 2, 3), keepdim=True) + computed.amin((1, 2, 3), keepdim=True)) / 2
    assert torch.equal(negative, computed < 0)
    assert 0 < int(negative.sum()) < negative.numel()


@pytest.mark.parametrize('name', NAMES)
def test_looking_draws_no_random_number_and_leaves_the_mode(name):
    layer = layer_with(name).train()
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    random = torch.get_rng_state()
    negative_weights(layer)
    assert torch.equal(torch.get_rng_state(), random)
    assert layer.training and layer.weight_quantizer.training
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


def test_noise_of_training_is_not_looked_at():
    class Noisy(AdaBinWeight):
        def forward(self, weight):
            return torch.randn_like(weight) if self.training else super().forward(weight)

    layer = layer_with('AdaBinWeight').train()
    expected = negative_weights(layer)
    layer.weight_quantizer = Noisy(tuple(layer.weight.shape))
    random = torch.get_rng_state()
    assert torch.equal(negative_weights(layer), expected)
    assert torch.equal(torch.get_rng_state(), random) and layer.weight_quantizer.training


def test_a_subclass_with_signs_of_its_own_is_asked_for_them():
    class Opposite(BNNWeight):
        values = Values('signs')

        def codes(self, weight):
            return -super().codes(weight)[0], None

    layer = BNNLinear(3, 1)
    layer.weight.data = torch.tensor([[1.0, -1.0, 2.0]])
    assert negative_weights(layer).tolist() == [[False, True, False]]
    layer.weight_quantizer = Opposite((1, 3))
    assert negative_weights(layer).tolist() == [[True, False, True]]


def test_centred_signs_of_rebnn():
    layer = ReBNNLinear(3, 1, center='row')
    layer.weight.data = torch.tensor([[1.0, 2.0, 6.0]])
    assert negative_weights(layer).tolist() == [[True, True, False]]


def pushes(count, seed=0):
    """Random gradients that turn many signs, and turn some of them back: one pair per step."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [layer.weight.shape for layer in TwoLayers().layers]
    return [[torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes] for _ in range(count)]


def train(model, data, optimizer, micro=1, scaler=None):
    """One optimizer step per element of data; gives the signs after each step."""
    signs = []
    for gradients in data:
        for _ in range(micro):
            products = zip(model.layers, gradients, strict=True)
            loss = sum((layer.weight * gradient).sum() for layer, gradient in products) / micro
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
        signs.append([(layer.weight < 0).clone() for layer in model.layers])
    return signs


def set_up():
    model = TwoLayers()
    # The decay keeps weights within reach of zero.
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5)
    resilient = ResilientGradient(model).attach(optimizer)
    return model, optimizer, resilient, FlipRecorder(model).attach(optimizer)


def counted(recorder):
    return {name: (c.steps, c.flips, c.sequential_flips) for name, c in recorder.take_counts().items()}


def test_counts_are_those_of_the_signs_that_training_leaves():
    model, optimizer, _, recorder = set_up()
    start = [(layer.weight < 0).clone() for layer in model.layers]
    signs = [start, *train(model, pushes(12), optimizer)]
    counts = counted(recorder)
    for index, name in enumerate(('conv', 'linear')):
        own = [step[index] for step in signs]
        changed = [one ^ other for one, other in pairwise(own)]
        flips = sum(int(change.sum()) for change in changed)
        back = sum(int((one & other).sum()) for one, other in pairwise(changed))
        assert back > 0
        assert counts[name] == (12, flips, back)
    assert set(counted(recorder).values()) == {(0, 0, 0)}


def test_counts_equal_the_statistics_of_the_resilient_gradient():
    model, optimizer, resilient, recorder = set_up()
    train(model, pushes(8), optimizer)
    counts = recorder.take_counts().values()
    seen = sum(count.weights * count.steps for count in counts)
    statistics = resilient.statistics()
    assert statistics['sequential_flips_per_million'] > 0
    assert statistics['flips_per_million'] == 1e6 * sum(count.flips for count in counts) / seen
    assert statistics['sequential_flips_per_million'] == 1e6 * sum(count.sequential_flips for count in counts) / seen


def test_accumulated_iterations_are_one_step():
    model, optimizer, _, recorder = set_up()
    train(model, pushes(3), optimizer, micro=4)
    whole, whole_optimizer, _, whole_recorder = set_up()
    train(whole, pushes(3), whole_optimizer)
    counts = counted(recorder)
    assert counts == counted(whole_recorder)
    assert all(steps == 3 for steps, _, _ in counts.values())


def test_a_step_skipped_for_inf_is_none():
    model, optimizer, _, recorder = set_up()
    scaler = torch.amp.GradScaler('cpu', init_scale=4.0)
    first, second = pushes(8)[:4], pushes(8)[4:]
    overflow = [[torch.full_like(gradient, float('inf')) for gradient in pushes(1)[0]]]
    train(model, first, optimizer, scaler=scaler)
    train(model, overflow, optimizer, scaler=scaler)
    train(model, second, optimizer, scaler=scaler)
    plain, plain_optimizer, _, plain_recorder = set_up()
    train(plain, first + second, plain_optimizer)
    counts = counted(recorder)
    assert counts == counted(plain_recorder)
    assert all(steps == 8 and back > 0 for steps, _, back in counts.values())


def test_the_methods_constraint_belongs_to_the_step():
    """XNOR-Net centres its weights after each step, which changes signs."""
    model = XNORLinear(8, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    MethodDriver(model).attach(optimizer)
    recorder = FlipRecorder(nn.Sequential(model)).attach(optimizer)
    before = (model.weight < 0).clone()
    with torch.no_grad():
        model.weight[:, 0] += 3.0  # the mean over the input channels grows, so the others turn negative
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
    flips = int(((model.weight < 0) ^ before).sum())
    assert flips > 4 and recorder.take_counts()['0'].flips == flips


def test_a_frozen_layer_takes_no_step():
    model, optimizer, _, recorder = set_up()
    model.conv.weight.requires_grad_(False)
    train(model, pushes(2), optimizer)
    counts = recorder.take_counts()
    assert (counts['conv'].steps, counts['linear'].steps) == (0, 2)


def test_each_optimizer_counts_its_own_layers():
    model = nn.ModuleList([BNNLinear(4, 4), BNNLinear(4, 4), BNNLinear(4, 4)])
    one = torch.optim.SGD(model[0].parameters(), lr=10.0)
    other = torch.optim.SGD(model[1].parameters(), lr=10.0)
    recorder = FlipRecorder(model).attach(one).attach(other)
    assert recorder.recorded == ['0', '1'] and list(recorder.layers) == ['0', '1', '2']
    for optimizer in (one, one, other):
        sum(layer(torch.randn(8, 4)).square().mean() for layer in model).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [count.steps for count in recorder.take_counts().values()] == [2, 1]
    recorder.detach()
    model[0](torch.randn(8, 4)).square().mean().backward()
    one.step()
    assert recorder.take_counts()['0'].steps == 0


def test_goes_on_from_a_saved_state():
    model, optimizer, _, recorder = set_up()
    train(model, pushes(4), optimizer)
    recorder.take_counts()
    recorder.close_epoch()
    state = recorder.state_dict()
    other = FlipRecorder(model).attach(optimizer)
    other.load_state_dict({**state, 'gone': torch.zeros(3, dtype=torch.uint8), 'linear': torch.zeros(1)})
    without_linear = other.state_dict()['linear'].clone()
    other.load_state_dict(state)
    assert not torch.equal(without_linear, state['linear'])
    train(model, pushes(4, seed=2), optimizer)
    assert counted(other) == counted(recorder)
    closed = recorder.close_epoch()
    assert other.close_epoch() == closed
    assert any(sequential for _, sequential in closed.values())


def test_sharded_weights_are_refused(tmp_path):
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group('gloo', init_method=f'file://{tmp_path}/group', rank=0, world_size=1)
    try:
        model = TwoLayers()
        fully_shard(model, mesh=dist.init_device_mesh('cpu', (1,)))
        with pytest.raises(ValueError, match="FlipRecorder: the weight of layer 'conv' is sharded"):
            FlipRecorder(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))
    finally:
        dist.destroy_process_group()
