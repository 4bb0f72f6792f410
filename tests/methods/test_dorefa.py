import math

import pytest
import torch

from rebnn_mm.methods import DoReFaActivation, DoReFaWeight
from tests.tolerances import FLOAT64_EXACT


def test_two_bit_weights_by_hand():
    # tanh(w) = 1, 0.5, 0, -0.2 times tanh(1): halves plus one half are 1, 0.75, 0.5, 0.4; times 3: 3, 2.25, 1.5, 1.2.
    top = math.tanh(1)
    w = torch.tensor([[math.atanh(share * top) for share in (1, 0.5, 0, -0.2)]], dtype=torch.float64)
    out = DoReFaWeight((1, 4), bits=2)(w)
    torch.testing.assert_close(out, torch.tensor([[1, 1 / 3, 1 / 3, -1 / 3]], dtype=torch.float64))


def test_weight_gradient_is_that_of_the_squeezed_weight():
    w = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    upstream = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (DoReFaWeight((3, 4), bits=3)(w) * upstream).sum().backward()
    # With s = tanh w and m = |s_max|, the unrounded weight is s / m: d/ds_j = g_j / m, and through m, at the largest
    # element, -sign(s_max) sum_j g_j s_j / m^2; ds/dw = 1 - s^2.
    squeezed = w.detach().tanh()
    largest = squeezed.abs().max()
    grad = upstream / largest
    where = squeezed.abs() == largest
    grad[where] -= squeezed[where].sign() * (upstream * squeezed).sum() / largest**2
    torch.testing.assert_close(w.grad, grad * (1 - squeezed**2), atol=FLOAT64_EXACT, rtol=0)


def test_one_bit_is_the_sign_times_the_layers_mean_with_the_gradient_passing():
    w = torch.tensor([[0.5, -1.5], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    out = DoReFaWeight((2, 2), bits=1)(w)
    (out * upstream).sum().backward()
    assert out.tolist() == [[0.75, -0.75], [0.75, 0.75]]
    assert torch.equal(w.grad, upstream)


def test_activation_by_hand_and_its_gradient():
    x = torch.tensor([[-0.5, 0.0, 0.3, 0.6, 1.0, 1.5]], dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(1.0, 7.0, dtype=torch.float64).view(1, 6)
    out = DoReFaActivation(6, bits=2)(x)
    (out * upstream).sum().backward()
    torch.testing.assert_close(out, torch.tensor([[0, 0, 1 / 3, 2 / 3, 1, 1]], dtype=torch.float64))
    expected = upstream * torch.tensor([[0.0, 1, 1, 1, 1, 0]])
    torch.testing.assert_close(x.grad, expected, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('bits', [0, 9, 2.0])
def test_bits_out_of_range_are_refused(bits):
    with pytest.raises(ValueError, match=f'DoReFaWeight: bits={bits} must be a whole number from 1 to 8'):
        DoReFaWeight((1, 1), bits=bits)
    with pytest.raises(ValueError, match='DoReFaActivation: bits='):
        DoReFaActivation(1, bits=bits)


def test_a_layer_of_zeros_is_finite():
    assert DoReFaWeight((1, 2), bits=4)(torch.zeros(1, 2)).isfinite().all()
