import pytest
import torch

from rebnn_mm.functional import ternary_codes
from rebnn_mm.layers import BinaryEmbedding, BinaryLinear, calibrate_shifts
from rebnn_mm.layers.report import layer_rows
from rebnn_mm.methods import BinaryPair, BiTWeight, BWNWeight, TWNWeight
from rebnn_mm.methods.binarybert import split_ternary
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

SHAPE = (6, 5, 2, 2)


def weight(seed=0, dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize('per', ['tensor', 'channel'])
def test_two_binarized_halves_sum_up_to_the_ternary_weight(per):
    w = weight()
    first, second = split_ternary(w, per)
    torch.testing.assert_close(first + second, w, atol=FLOAT64_EXACT, rtol=0)
    binary = BWNWeight(SHAPE, per)
    torch.testing.assert_close(binary(first) + binary(second), TWNWeight(SHAPE, per)(w), atol=FLOAT64_EXACT, rtol=0)


def test_single_precision_weights_are_split_in_double():
    w = weight(dtype=torch.float32) * 0.04
    first, second = split_ternary(w)
    assert first.dtype == torch.float32
    binary = BWNWeight(SHAPE)
    both = (binary(first) + binary(second)) / ternary_codes(w)[1]
    torch.testing.assert_close(both, ternary_codes(w)[0], atol=FLOAT32_ROUNDING, rtol=0)


def test_exact_zeros_and_a_channel_of_zeros_are_split():
    w = weight()
    w[0] = 0
    w[1, 0] = 0
    first, second = split_ternary(w, 'channel')
    binary = BWNWeight(SHAPE, 'channel')
    torch.testing.assert_close(
        binary(first) + binary(second), TWNWeight(SHAPE, 'channel')(w), atol=FLOAT64_EXACT, rtol=0
    )


def test_channel_that_cannot_be_split_is_refused():
    one_sided, balanced = [0.6] * 20 + [10.0], [0.6, -0.6] * 10 + [10.0]
    with pytest.raises(ValueError, match='1 of 2 scales have no pair of binary weights'):
        split_ternary(torch.tensor([one_sided, balanced]), 'channel')


@pytest.mark.parametrize('per', ['tensor', 'channel'])
@pytest.mark.parametrize(('kind', 'centred'), [(BWNWeight, False), (BiTWeight, True)])
def test_forward_and_backward_are_the_written_out_formula(per, kind, centred):
    generator = torch.Generator().manual_seed(0)
    w = (torch.randn(5, 7, generator=generator, dtype=torch.float64) + 0.3).requires_grad_()
    upstream = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    w_hat = kind((5, 7), per)(w)
    (w_hat * upstream).sum().backward()
    value = w.detach()
    scale = value.abs().mean() if per == 'tensor' else value.abs().mean(dim=1, keepdim=True)
    above = value >= (value.mean() if centred else 0)
    torch.testing.assert_close(w_hat, torch.where(above, scale, -scale), atol=FLOAT64_EXACT, rtol=0)
    assert torch.equal(w.grad, upstream)


def test_by_hand():
    w = torch.tensor([[0.5, -1.5], [3.0, -1.0]], requires_grad=True)
    w_hat = BWNWeight((2, 2))(w)
    (w_hat * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w_hat.tolist() == [[1.5, -1.5], [1.5, -1.5]] and w.grad.tolist() == [[1, 2], [3, 4]]
    assert BWNWeight((2, 2), per='channel')(w).tolist() == [[1, -1], [2, -2]]


def test_unknown_extent_is_refused():
    with pytest.raises(ValueError, match="BWNWeight: per='row' is unknown"):
        BWNWeight((2, 2), per='row')


SIGN = dict(type='BinarySign', shift=None)


def linear(weight='BWNWeight', activation=SIGN):
    torch.manual_seed(0)
    return BinaryLinear(32, 8, weight=weight, activation=activation)


@pytest.mark.parametrize('training', [True, False])
def test_pair_of_linear_layers_begins_as_the_ternary_one(training):
    ternary = linear('TWNWeight').train(training)
    pair = BinaryPair.split(linear()).train(training)
    x = torch.randn(5, 32)
    torch.testing.assert_close(pair(x), ternary(x), atol=10 * FLOAT32_ROUNDING, rtol=0)
    assert len(pair.first.weight_quantizer(pair.first.weight).unique()) == 2


def test_pair_of_embeddings_begins_as_the_ternary_one():
    def embedding(weight):
        torch.manual_seed(0)
        return BinaryEmbedding(20, 32, padding_idx=0, weight=dict(type=weight, per='channel'))

    ternary, pair = embedding('TWNWeight'), BinaryPair.split(embedding('BWNWeight'))
    words = torch.tensor([[1, 0, 19], [3, 3, 7]])
    torch.testing.assert_close(pair(words), ternary(words), atol=FLOAT32_ROUNDING, rtol=0)


def test_both_halves_learn_by_themselves():
    pair = BinaryPair.split(linear())
    assert pair.first.weight is not pair.second.weight and pair.first.bias is not pair.second.bias
    optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
    before = [p.detach().clone() for p in pair.parameters()]
    pair(torch.randn(5, 32)).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(p, old) for p, old in zip(pair.parameters(), before, strict=True))


def test_activation_quantizers_are_copied_with_their_state():
    layer = linear(activation=dict(type='BiTSign', shift='zero'))
    calibrate_shifts(layer, lambda: layer(torch.randn(5, 32)))
    pair = BinaryPair.split(layer)
    first, second = pair.first.activation_quantizer, pair.second.activation_quantizer
    assert first is not second and torch.equal(first.alpha, second.alpha) and not second.needs_calibration


def test_each_half_is_a_row_of_the_layer_report():
    rows = layer_rows(BinaryPair.split(linear()))
    assert [(row.name, row.weight_bits, row.why) for row in rows] == [('first', 1, ''), ('second', 1, '')]


def test_state_round_trip():
    pair, other = BinaryPair.split(linear()), BinaryPair.split(linear())
    with torch.no_grad():
        for parameter in pair.parameters():
            parameter.normal_()
    other.load_state_dict(pair.state_dict())
    x = torch.randn(5, 32)
    assert torch.equal(other.eval()(x), pair.eval()(x))


def test_another_weight_quantizer_is_refused():
    with pytest.raises(ValueError, match=r'BinaryLinear: ternary weight splitting needs weight=dict.*not BiTWeight'):
        BinaryPair.split(linear('BiTWeight'))


def test_weights_that_cannot_be_split_are_named():
    layer = linear()
    with torch.no_grad():
        layer.weight.fill_(0.6)
        layer.weight[:, ::21] = 6.0
    layer.take_name('encoder.query')
    with pytest.raises(ValueError, match="BinaryLinear 'encoder.query': split_ternary: 1 of 1 scales have no pair"):
        BinaryPair.split(layer)
