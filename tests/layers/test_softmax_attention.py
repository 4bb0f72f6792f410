import pytest
import torch

from rebnn_mm.layers import RealAttention, SoftmaxAttention, calibrate_shifts
from tests.tolerances import FLOAT64_EXACT

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
    theirs = RealAttention(3, 4)(q, k, v, padding_mask(), 0.0, 0.5)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=FLOAT64_EXACT, rtol=0)
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
    with pytest.raises(ValueError, match="activation='BinarySgn' is no registered activation quantizer. Did you mean"):
        SoftmaxAttention(3, 4, projections='BinarySgn')
