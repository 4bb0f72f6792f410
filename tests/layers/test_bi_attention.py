import math

import pytest
import torch

from rebnn_mm.layers import BinaryAttention
from tests.tolerances import FLOAT64_EXACT


def tensors(length=6, dim=8):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 2, 4, length, dim, generator=generator, dtype=torch.float64).unbind()


def padding(length=6, kept=4):
    mask = torch.ones(2, 1, 1, length, dtype=torch.bool)
    mask[1, ..., kept:] = False
    return mask


@pytest.mark.parametrize('tie', [True, False])
def test_equals_a_count_in_plain_python(tie):
    q, k, v = tensors()
    mask = padding()
    parts = BinaryAttention(4, 8, tie=tie)(q, k, v, mask, 0.0, 8**-0.5)
    assert (parts.scores == 0).any()

    def sign(x):
        return 1 if x >= 0 else -1

    for b in range(2):
        for h in range(4):
            for i in range(6):
                row = [0] * 8
                for j in range(6):
                    equal = sum(sign(x) * sign(y) for x, y in zip(q[b, h, i], k[b, h, j], strict=True))
                    assert parts.scores[b, h, i, j].item() == pytest.approx(equal / math.sqrt(8))
                    if mask[b, 0, 0, j] and (equal > 0 or (equal == 0 and tie)):
                        row = [r + sign(x) for r, x in zip(row, v[b, h, j], strict=True)]
                assert parts.output[b, i, h].tolist() == row


def test_values_are_integers_of_two_valued_parts():
    q, k, v = tensors()
    q[0, 0, 0], v[0, 0, 0] = 0.0, -0.0
    parts = BinaryAttention(4, 8)(q, k, v, None, 0.0, 8**-0.5)
    assert set(parts.weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(parts.output, parts.output.round()) and parts.output.abs().max() <= 6
    # Inner products of 8 signs are even.
    products = parts.scores * 8**0.5
    torch.testing.assert_close(products / 2, (products / 2).round(), atol=1e-9, rtol=0)


def test_gradient_equals_autograd_of_the_surrogates():
    """Each of the four steps as its forward value plus a clipped identity without value."""

    def through(x, value):
        surrogate = x.clamp(-1, 1)
        return value + (surrogate - surrogate.detach())

    q, k, v = tensors()
    ours = [x.clone().requires_grad_() for x in (q, k, v)]
    written = [x.clone().requires_grad_() for x in (q, k, v)]
    upstream = torch.randn(2, 6, 4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (BinaryAttention(4, 8)(*ours, padding(), 0.0, 8**-0.5).output * upstream).sum().backward()
    bq, bk, bv = (through(x, torch.where(x < 0, -1.0, 1.0).double()) for x in written)
    scores = bq @ bk.transpose(-1, -2) * 8**-0.5
    weights = through(scores, (scores >= 0).double()) * padding()
    ((weights @ bv).transpose(1, 2) * upstream).sum().backward()
    for one, other in zip(ours, written, strict=True):
        assert one.grad.abs().sum() > 0
        torch.testing.assert_close(one.grad, other.grad, atol=FLOAT64_EXACT, rtol=0)


def test_masked_keys_change_nothing():
    q, k, v = tensors()
    attention = BinaryAttention(4, 8)
    whole = attention(q, k, v, padding(), 0.0, 8**-0.5)
    cut = attention(q[1:, :, :4], k[1:, :, :4], v[1:, :, :4], None, 0.0, 8**-0.5)
    assert torch.equal(whole.output[1:, :4], cut.output)
    assert (whole.weights[1, ..., 4:] == 0).all()


def test_dropout_takes_weights_away_and_turns_none_on():
    torch.manual_seed(0)
    q, k, v = tensors(length=32)
    mask = padding(32, 20)
    attention = BinaryAttention(4, 8)
    full = attention.eval()(q, k, v, mask, 0.3, 8**-0.5).weights
    dropped = attention.train()(q, k, v, mask, 0.3, 8**-0.5).weights
    assert set(dropped.unique().tolist()) == {0.0, 1.0}
    assert (dropped <= full).all()
    assert 0.2 < 1 - (dropped.sum() / full.sum()).item() < 0.4
    assert torch.equal(attention.eval()(q, k, v, mask, 0.3, 8**-0.5).weights, full)


def test_half_precision_counts_exactly():
    q, k, v = (x.bfloat16() for x in tensors(dim=64))
    half = BinaryAttention(4, 64)(q, k, v, None, 0.0, 0.125)
    single = BinaryAttention(4, 64)(q.float(), k.float(), v.float(), None, 0.0, 0.125)
    assert half.output.dtype == torch.bfloat16
    assert torch.equal(half.output.float(), single.output)
