import pytest
import torch

from rebnn_mm.methods import ReBNNWeight
from tests.tolerances import FLOAT64_EXACT


def _case(shape):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=generator, dtype=torch.float64) * 1.2
    alpha = torch.rand(shape[0], generator=generator, dtype=torch.float64) + 0.1
    upstream = torch.randn(shape, generator=generator, dtype=torch.float64)
    return weight.requires_grad_(), alpha.requires_grad_(), upstream


def test_released_gradients_differ_as_documented():
    weight, alpha, upstream = _case((4, 6))
    quantizer = ReBNNWeight((4, 6), variant='official')
    quantizer.alpha = torch.nn.Parameter(alpha.detach())
    (quantizer(weight) * upstream).sum().backward()
    expected = alpha.detach().view(-1, 1) / 0.02 * upstream
    torch.testing.assert_close(weight.grad, expected, atol=0, rtol=FLOAT64_EXACT)
    torch.testing.assert_close(quantizer.alpha.grad, (upstream * weight.detach()).sum(1), atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'gamma': 'adaptiv'}, "gamma='adaptiv' is unknown; use 'adaptive', 'max' or a number"),
        ({'gamma': -1.0}, 'gamma=-1.0 must be .* at least 0'),
        ({'gamma': float('nan')}, 'gamma=nan must be'),
        ({'gamma': True}, 'gamma=True must be'),
        ({'gamma_bounds': (2e-4, 1e-5)}, r'gamma_bounds=\(0.0002, 1e-05\) must be \(lower, upper\)'),
        ({'gamma_bounds': (1e-5,)}, 'gamma_bounds=.* must be'),
        ({'flip_window': 0}, "flip_window=0 is unknown; use a number of steps or 'epoch'"),
        ({'flip_window': 'iter'}, "flip_window='iter' is unknown"),
        ({'variant': 'offical'}, "variant='offical' is unknown; use 'paper' or 'official'"),
        ({'center': 'column'}, "center='column' is unknown; use 'row' or None"),
        ({'center': 'row', 'variant': 'official'}, "variant='official' is the released code, which does not centre"),
        ({'variant': 'official', 'gamma': 1e-3}, "variant='official' has the constant gamma of the released code"),
    ],
)
def test_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ReBNNWeight((2, 3), **options)


@pytest.mark.parametrize(
    ('options', 'first'),
    [
        ({}, 1e-5),
        ({'gamma_bounds': None}, 0.0),
        ({'gamma': 'max', 'gamma_bounds': (1e-3, 1e-2)}, 1e-3),
        ({'gamma': 0.5}, 0.5),
        ({'gamma': 0}, 0.0),
        ({'variant': 'official'}, 2e-4),
    ],
)
def test_first_gamma(options, first):
    quantizer = ReBNNWeight((4, 3), **options)
    assert quantizer.gamma.tolist() == pytest.approx([first] * 4) and quantizer.gamma.dtype == torch.float32


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ({}, [2e-4, 1e-5, 1e-5]),
        ({'gamma_bounds': None}, [5e-4, 5e-6, 0.0]),
        ({'gamma': 'max', 'gamma_bounds': (0.0, 1.0)}, [1e-3, 2e-5, 1e-3]),
    ],
)
def test_rules_of_gamma_by_hand(options, expected):
    largest, share = torch.tensor([1e-3, 2e-5, 1e-3]), torch.tensor([0.5, 0.25, 0.0])
    assert ReBNNWeight((3, 4), **options).learn_gamma(largest, share).tolist() == pytest.approx(expected)


def test_only_gamma_is_saved_beside_alpha():
    assert list(ReBNNWeight((4, 3)).state_dict()) == ['alpha', 'gamma']


def test_alpha_of_a_zero_channel_is_positive():
    quantizer = ReBNNWeight((2, 3))
    quantizer.init_from_weight(torch.zeros(2, 3))
    assert (quantizer.alpha > 0).all()


def test_gradients_are_alpha_g_and_the_sum_of_g_times_sign():
    w = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    upstream = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    quantizer = ReBNNWeight((5, 4, 3, 3)).double()
    quantizer.init_from_weight(w)
    (quantizer(w) * upstream).sum().backward()
    alpha = quantizer.alpha.detach().view(-1, 1, 1, 1)
    torch.testing.assert_close(w.grad, alpha * upstream, atol=FLOAT64_EXACT, rtol=0)
    signs = torch.where(w.detach() < 0, -1.0, 1.0)
    expected = (upstream * signs).sum(dim=(1, 2, 3))
    torch.testing.assert_close(quantizer.alpha.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_centred_signs_and_uncentred_factor():
    quantizer = ReBNNWeight((1, 3), center='row')
    w = torch.tensor([[1.0, 2.0, 6.0]])
    quantizer.init_from_weight(w)
    assert quantizer(w).tolist() == [[-3.0, -3.0, 3.0]]
    assert quantizer.codes(w)[0].tolist() == [[-1.0, -1.0, 1.0]]
    assert "center='row'" in repr(quantizer) and 'center' not in repr(ReBNNWeight((1, 3)))
