import pytest
import torch

from rebnn_mm.functional import split_ternary, tensor_sign, ternary_codes, ternary_weight
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

SHAPE = (6, 5, 2, 2)


def weight(seed=0, dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize('per', ['tensor', 'channel'])
def test_threshold_and_scale_are_those_of_each_scale_alone(per):
    codes, scale = ternary_codes(weight(), per)
    for index, part in enumerate(weight() if per == 'channel' else [weight()]):
        large = part.abs() > 0.7 * part.abs().mean()
        expected = torch.where(large, torch.sign(part), torch.zeros_like(part))
        assert torch.equal((codes[index] if per == 'channel' else codes), expected)
        torch.testing.assert_close(scale.flatten()[index], part[large].abs().mean(), atol=FLOAT64_EXACT, rtol=0)


def test_gradient_passes_unscaled_inside_the_clip():
    w = (weight() * 2).requires_grad_()
    upstream = weight(1)
    (ternary_weight(w, clip=2.5) * upstream).sum().backward()
    assert 0 < (w.detach().abs() >= 2.5).sum() < w.numel()
    assert torch.equal(w.grad, torch.where(w.detach().abs() < 2.5, upstream, torch.zeros_like(upstream)))


@pytest.mark.parametrize('per', ['tensor', 'channel'])
def test_two_binarised_halves_sum_up_to_the_ternary_weight(per):
    w = weight()
    first, second = split_ternary(w, per)
    torch.testing.assert_close(first + second, w, atol=FLOAT64_EXACT, rtol=0)
    both = tensor_sign(first, per) + tensor_sign(second, per)
    torch.testing.assert_close(both, ternary_weight(w, per), atol=FLOAT64_EXACT, rtol=0)


def test_single_precision_weights_are_split_in_double():
    w = weight(dtype=torch.float32) * 0.04
    first, second = split_ternary(w)
    assert first.dtype == torch.float32
    both = (tensor_sign(first) + tensor_sign(second)) / ternary_codes(w)[1]
    torch.testing.assert_close(both, ternary_codes(w)[0], atol=FLOAT32_ROUNDING, rtol=0)


def test_exact_zeros_and_a_channel_of_zeros_are_split():
    w = weight()
    w[0] = 0
    w[1, 0] = 0
    first, second = split_ternary(w, 'channel')
    both = tensor_sign(first, 'channel') + tensor_sign(second, 'channel')
    torch.testing.assert_close(both, ternary_weight(w, 'channel'), atol=FLOAT64_EXACT, rtol=0)


def test_channel_that_cannot_be_split_is_refused():
    one_sided, balanced = [0.6] * 20 + [10.0], [0.6, -0.6] * 10 + [10.0]
    with pytest.raises(ValueError, match='1 of 2 scales have no pair of binary weights'):
        split_ternary(torch.tensor([one_sided, balanced]), 'channel')
