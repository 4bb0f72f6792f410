import math

import pytest
import torch
from torch.nn import functional as F

from rebnn_mm.layers import BinaryAttention, EncoderAttention, SoftmaxAttention, calibrate_shifts
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('masked', [True, False])
def test_softmax_attention_equals_pytorch(masked):
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None] if masked else None
    parts = SoftmaxAttention(4, 8)(q, k, v, mask, 0.0, 8**-0.5)
    expected = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)
    torch.testing.assert_close(parts.output, expected, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(parts.scores, q @ k.transpose(-1, -2) / 8**0.5, atol=FLOAT64_EXACT, rtol=0)
    assert parts.output.is_contiguous()
    torch.testing.assert_close(parts.weights.sum(-1), torch.ones(2, 4, 5).double(), atol=FLOAT64_EXACT, rtol=0)


def test_dropout_in_training_only():
    q = torch.randn(1, 2, 16, 8)
    attention = SoftmaxAttention(2, 8)
    assert (attention(q, q, q, None, 0.5, 1.0).weights == 0).float().mean() > 0.3
    assert (attention.eval()(q, q, q, None, 0.5, 1.0).weights > 0).all()


def test_base_says_what_to_implement():
    q = torch.zeros(1, 1, 2, 4)
    with pytest.raises(NotImplementedError, match='EncoderAttention has to implement forward'):
        EncoderAttention(1, 4)(q, q, q, None, 0.0, 1.0)


KINDS = {
    'ternary': dict(projections='TernaryBERTActivation', weights='TernaryBERTActivation'),
    'q8bert': dict(projections='Q8BERTActivation', weights='Q8BERTActivation'),
    'one bit': dict(projections='BinarySign', weights='BinaryStep'),
    'bit': dict(projections='BiTSign', weights='BiTStep'),
}


def projections(length=6, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, length, 4, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)]


def padding_mask(length=6):
    mask = torch.ones(2, 1, 1, length, dtype=torch.bool)
    mask[1, ..., 4:] = False
    return mask


def build(kind):
    attention = SoftmaxAttention(3, 4, **KINDS[kind]).double()
    assert calibrate_shifts(attention, lambda: attention(*projections(), padding_mask(), 0.0, 0.5)) == []
    return attention


def test_without_quantizers_it_is_softmax_attention():
    q, k, v = projections()
    ours = SoftmaxAttention(3, 4)(q, k, v, padding_mask(), 0.0, 0.5)
    sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, padding_mask(), scale=0.5).transpose(1, 2)
    torch.testing.assert_close(ours.output, sdpa, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('kind', KINDS)
def test_masked_positions_weigh_nothing_and_change_nothing(kind):
    attention = build(kind)
    attention(*projections(), padding_mask(), 0.0, 0.5)  # a range that is followed in training is known by now
    attention.eval()
    q, k, v = projections()
    parts = attention(q, k, v, padding_mask(), 0.0, 0.5)
    assert parts.weights[1, ..., 4:].eq(0).all()
    other = [x.detach().clone() for x in (q, k, v)]
    for x in other:
        x[1, :, 4:] = 9.0
    again = attention(*other, padding_mask(), 0.0, 0.5)
    torch.testing.assert_close(again.output[1, :4], parts.output[1, :4], atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('kind', KINDS)
def test_gradient_reaches_projections_and_quantizers(kind):
    attention = build(kind)
    q, k, v = projections()
    attention(q, k, v, padding_mask(), 0.0, 0.5).output.square().sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
    assert v.grad.abs().sum() > 0 and q.grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())


def test_values_are_those_of_the_quantizers():
    attention = build('bit').eval()
    parts = attention(*projections(), padding_mask(), 0.0, 0.5)
    alpha = attention.weight_quantizer.alpha.item()
    assert set(parts.weights.unique().tolist()) == {0.0, alpha}
    ternary = build('ternary').eval()(*projections(), padding_mask(), 0.0, 0.5)
    assert all(len(row.unique()) <= 2 for row in ternary.weights.flatten(0, 2))  # 0 and the largest of the row
    one_bit = build('one bit').eval()(*projections(), padding_mask(), 0.0, 0.5)
    assert torch.equal(one_bit.weights, padding_mask().expand_as(one_bit.weights).double())


def test_dropout_drops_in_training_only():
    attention = build('one bit')
    q, k, v = projections()
    torch.manual_seed(0)
    kept = attention(q, k, v, None, 0.5, 0.5).weights
    assert 0.3 < kept.mean().item() < 0.7 and set(kept.unique().tolist()) == {0.0, 1.0}
    assert attention.eval()(q, k, v, None, 0.5, 0.5).weights.eq(1).all()


def test_unknown_quantizer_is_refused():
    with pytest.raises(ValueError, match="activation='BinarySgn' is not a registered activation quantizer. Did"):
        SoftmaxAttention(3, 4, projections='BinarySgn')


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
