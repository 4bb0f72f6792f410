import pytest
import torch
from torch import nn

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.engine.optim_constructor import LATENT, SCALE, parameter_roles
from rebnn_mm.layers import BinaryEmbedding
from rebnn_mm.methods import BiBERTWeight
from tests.tolerances import FLOAT64_EXACT

INDICES = torch.tensor([[3, 1, 3, 0], [5, 1, 0, 0]])


def embedding(**options):
    torch.manual_seed(0)
    return BinaryEmbedding(6, 8, **options).double()


def test_rows_are_bibert_rows():
    layer = embedding(padding_idx=0)
    layer.weight.data[0] = torch.linspace(-1, 1, 8)
    expected = BiBERTWeight((6, 8))(layer.weight)[INDICES]
    assert torch.equal(layer(INDICES), expected)
    assert torch.equal(layer.eval()(INDICES), expected)
    assert all(len(row.abs().unique()) == 1 and len(row.unique()) == 2 for row in expected.flatten(0, 1))
    assert (layer.weight_bits, layer.activation_bits) == (1, 32)


@pytest.mark.parametrize('name', ['BiBERTWeight', 'BinaryMeanScaleWeight', 'ReBNNWeight'])
def test_gradient_is_that_of_the_whole_table(name):
    """Gathered first or last, a row that is used twice gets both gradients, and an unused one none."""
    layer, whole = embedding(weight=name), embedding(weight=name)
    upstream = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (layer(INDICES) * upstream).sum().backward()
    (whole.weight_quantizer(whole.weight)[INDICES] * upstream).sum().backward()
    torch.testing.assert_close(layer.weight.grad, whole.weight.grad, atol=FLOAT64_EXACT, rtol=0)
    assert layer.weight.grad[[2, 4]].abs().sum() == 0 and (layer.weight.grad[[0, 1, 3, 5]].abs().sum(1) > 0).all()


@pytest.mark.parametrize('shape', [(), (0,), (2, 3, 4)])
def test_indices_of_any_shape(shape):
    indices = torch.ones(shape, dtype=torch.long)
    assert embedding()(indices).shape == nn.Embedding(6, 8)(indices).shape == (*shape, 8)


def test_padding_row_gets_no_gradient():
    layer = embedding(padding_idx=0)
    layer(INDICES).square().sum().backward()
    layer.weight.grad = None
    upstream = torch.randn(2, 4, 8, dtype=torch.float64)
    (layer(INDICES) * upstream).sum().backward()
    assert layer.weight.grad[0].abs().sum() == 0 < layer.weight.grad[1].abs().sum()


def test_only_the_rows_of_the_batch_are_quantized(monkeypatch):
    seen = []
    forward = BiBERTWeight.forward
    monkeypatch.setattr(BiBERTWeight, 'forward', lambda self, w: seen.append(tuple(w.shape)) or forward(self, w))
    embedding()(INDICES)
    assert seen == [(8, 8)]


def test_learnable_scale_trains_with_the_resilient_gradient():
    layer = embedding(weight=dict(type='ReBNNWeight', center='row', gamma='max'))
    roles = parameter_roles(layer)
    assert roles[id(layer.weight)] == LATENT and roles[id(layer.weight_quantizer.alpha)] == SCALE
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    ResilientGradient(layer).attach(optimizer)
    alpha = layer.weight_quantizer.alpha.detach().clone()
    (layer(INDICES) - 1).square().mean().backward()
    optimizer.step()
    gamma = layer.weight_quantizer.gamma
    # Rows that the batch does not name have no gradient, so gamma stays on its lower bound.
    assert (gamma[[2, 4]] == gamma.min()).all() and (gamma[[0, 1, 3]] > gamma.min()).all()
    assert (layer.weight_quantizer.alpha[[0, 1, 3]] != alpha[[0, 1, 3]]).all()


def test_real_one_is_the_torch_layer():
    for options in (dict(weight=None), dict(keep_real=['words'])):
        parent = nn.Module()
        parent.words = embedding(**options)
        plain = nn.Embedding.from_pretrained(parent.words.weight.detach())
        assert torch.equal(parent.words(INDICES), plain(INDICES))
        assert parent.words.state_dict().keys() == plain.state_dict().keys()
        assert parent.words.weight_bits == 32


def test_state_round_trip_with_the_torch_layer():
    real = nn.Embedding(6, 8)
    layer = BinaryEmbedding(6, 8, weight='ReBNNWeight')
    layer.load_state_dict(real.state_dict(), strict=False)
    assert torch.equal(layer.weight, real.weight)
    # The factor starts from the loaded rows.
    torch.testing.assert_close(layer.weight_quantizer.alpha.detach(), real.weight.detach().abs().mean(1))


@pytest.mark.parametrize(('name', 'value'), [('max_norm', 1.0), ('sparse', True)])
def test_what_would_break_latent_weights_is_refused(name, value):
    with pytest.raises(ValueError, match=f'BinaryEmbedding: {name}={value} is not supported, because'):
        BinaryEmbedding(6, 8, **{name: value})


def test_an_unknown_option_is_named():
    with pytest.raises(ValueError, match="BinaryEmbedding: no option 'wieght'. Did you mean 'weight'"):
        BinaryEmbedding(4, 4, wieght=None)
