"""Flips against a count written out in plain Python, and the signs of every method."""

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.engine.sign_history import SignHistory, negative_weights
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import AdaBinWeight, BNNLinear, BNNWeight, ReBNNLinear
from rebnn_mm.quantizers import WeightQuantizer

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
            history.step()
            steps.append((layer.weight < 0).flatten().tolist())
            flips += sum(changed(*steps[-2:]))
            sequential += there_and_back(steps)
        epochs.append(steps[-1])
        assert [int(count) for count in history.take_step_counts()] == [flips, sequential]
        expected = [sum(changed(*epochs[-2:])), there_and_back(epochs)]
        assert [int(count) for count in history.close_epoch()] == expected
        assert flips > sequential > 0
    assert history.steps == 21 and history.weights == 40


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
    if not layer.weight_quantizer.has_codes:
        computed = computed - layer.weight.detach().mean(dim=(1, 2, 3), keepdim=True)
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
