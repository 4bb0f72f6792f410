import pytest
import torch

from rebnn_mm.quantizers import BinaryMeanScaleWeight, BinaryRSign, BinaryStep, build_activation_quantizer
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('name', ['BinarySign', 'BinaryWideSign', 'BinaryApproxSign', 'BinaryRSign'])
def test_every_special_value_is_plus_or_minus_one(name):
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), 2.0, -2.0, float('-inf')]).view(1, 4, 2, 1)
    expected = torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0]).view(1, 4, 2, 1)
    assert torch.equal(build_activation_quantizer(name, 4)(special), expected)


@pytest.mark.parametrize(
    ('name', 'derivative'),
    [
        ('BinarySign', lambda x: (x.abs() <= 1).double()),
        (dict(type='BinaryWideSign', width=1.5), lambda x: (x.abs() <= 1.5).double()),
        ('BinaryApproxSign', lambda x: (2 - 2 * x.abs()).clamp(min=0)),
        ('BinaryRSign', lambda x: (2 - 2 * x.abs()).clamp(min=0)),
    ],
)
def test_gradient_is_the_closed_form(name, derivative):
    x = torch.linspace(-2, 2, 24, dtype=torch.float64).view(2, 4, 3).requires_grad_()
    upstream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (build_activation_quantizer(name, 4).double()(x) * upstream).sum().backward()
    torch.testing.assert_close(x.grad, upstream * derivative(x.detach()), atol=FLOAT64_EXACT, rtol=0)


def test_width_of_nothing_is_refused():
    with pytest.raises(ValueError, match='width=0 must be above 0'):
        build_activation_quantizer(dict(type='BinaryWideSign', width=0), 4)


def test_threshold_is_per_channel():
    rsign = BinaryRSign(2)
    rsign.shift.data = torch.tensor([0.5, -0.5])
    assert torch.equal(rsign(torch.tensor([[-0.4, 0.4], [-0.6, 0.6]])), torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))


def test_has_a_shift_even_where_the_block_has_none():
    assert BinaryRSign(2, shift=None).shift.tolist() == [0.0, 0.0]


def test_by_hand():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], requires_grad=True)
    y = BinaryStep(1)(x)
    y.sum().backward()
    assert y.tolist() == [0, 0, 1, 1, 1] and x.grad.tolist() == [0, 1, 1, 1, 0]


def test_every_probability_becomes_one():
    assert BinaryStep(1)(torch.randn(3, 8).softmax(-1)).eq(1).all()


def test_hand_worked():
    w = torch.tensor([[0.5, -1.5, 0.0], [0.1, 0.2, -0.3]])
    expected = torch.tensor([[2 / 3, -2 / 3, 2 / 3], [0.2, 0.2, -0.2]])
    torch.testing.assert_close(BinaryMeanScaleWeight((2, 3))(w), expected)


def test_gradient_is_alpha_g_inside_one():
    w = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    upstream = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (BinaryMeanScaleWeight((5, 4, 3, 3))(w) * upstream).sum().backward()
    alpha = w.detach().abs().mean(dim=(1, 2, 3)).view(-1, 1, 1, 1)
    torch.testing.assert_close(w.grad, alpha * upstream * (w.detach().abs() <= 1), atol=FLOAT64_EXACT, rtol=0)
