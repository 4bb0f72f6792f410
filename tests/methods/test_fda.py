import math

import pytest
import torch
from mmcv.cnn import build_conv_layer
from torch import nn
from torch.nn import functional

from rebnn_mm.functional import sign
from rebnn_mm.layers import calibrate_shifts
from rebnn_mm.layers.report import layer_rows
from rebnn_mm.methods import FDAConv2d, FDALinear, FDASign, FDAWeight
from rebnn_mm.methods.fda import NoiseAdaptation, fourier_terms, noise_factor, sign_fourier
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

X = torch.tensor([-40.0, -1.001, -1.0, -0.9, -0.3, -0.0, 0.0, 1e-300, 1e-9, 0.5, 1.0, 2.0], dtype=torch.float64)


def partial_sum(x, highest, omega=0.1):
    """The series whose derivative is used, as printed."""
    return sum(4 / math.pi * torch.sin((2 * i + 1) * omega * x) / (2 * i + 1) for i in range(highest + 1))


@pytest.mark.parametrize('highest', [0, 9, 18])
def test_gradient_is_that_of_the_series_inside_one(highest):
    ours, series = X.clone().requires_grad_(), X.clone().requires_grad_()
    upstream = torch.arange(1.0, len(X) + 1, dtype=torch.float64)
    (sign_fourier(ours, torch.tensor(highest)) * upstream).sum().backward()
    (partial_sum(series, highest) * upstream * (X.abs() <= 1)).sum().backward()
    assert series.grad.count_nonzero() == 9
    torch.testing.assert_close(ours.grad, series.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_series_approaches_the_sign_up_to_half_a_period():
    x = torch.linspace(2, math.pi / 0.1 - 2, 200, dtype=torch.float64)
    far = [(partial_sum(x, n) - 1).abs().max().item() for n in (18, 180, 1800)]
    assert far[0] > 5 * far[1] > 25 * far[2] and far[2] < 0.002


def test_first_zero_of_the_derivative():
    x = torch.tensor([math.pi / (2 * 19 * 0.1)], dtype=torch.float64, requires_grad=True)
    sign_fourier(x, torch.tensor(18)).sum().backward()
    assert x.item() == pytest.approx(0.8267, abs=1e-4) and abs(x.grad.item()) < FLOAT64_EXACT


def test_two_values_and_no_gradient_for_what_is_not_finite():
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), float('inf'), -float('inf')], requires_grad=True)
    out = sign_fourier(x, torch.tensor(9.0))
    out.sum().backward()
    assert out.tolist() == [1, 1, 1, -1, 1, 1, -1]
    assert x.grad.tolist() == pytest.approx([4 / math.pi] * 4 + [0.0] * 3)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_stays_half(dtype):
    x = torch.linspace(-1, 1, 9).to(dtype).requires_grad_()
    sign_fourier(x, torch.tensor(9.0)).sum().backward()
    double = x.detach().double().requires_grad_()
    partial_sum(double, 9).sum().backward()
    torch.testing.assert_close(x.grad.double(), double.grad, atol=0, rtol=4 * torch.finfo(dtype).eps)


def test_terms_grow_by_whole_numbers_and_noise_fades():
    assert [fourier_terms(epoch / 18) for epoch in range(19)] == sorted(
        fourier_terms(epoch / 18) for epoch in range(19)
    )
    assert (fourier_terms(0.0), fourier_terms(1.0), fourier_terms(0.5, 2, 6)) == (9, 18, 4)
    assert [noise_factor(done) for done in (0.0, 1 / 3, 0.5, 1.0)] == pytest.approx([0.1, 0.075, 0.05, 0.0])


SHAPE = (5, 4, 3, 3)


def random(seed, shape=SHAPE):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def series(x, highest):
    """The sine series whose derivative the estimator takes, cut outside of one."""
    terms = (torch.sin((2 * i + 1) * 0.1 * x) / (2 * i + 1) for i in range(highest + 1))
    return 4 / math.pi * sum(terms) * (x.detach().abs() <= 1)


def eta(x, noise):
    """The noise of vectors x, shape (..., d), written out."""
    hidden = (x @ noise.down.T).clamp(min=0)
    return hidden @ noise.up.T + 0.1 * torch.sin(x)


def set_by_hand(noise):
    """One hidden value, the first entry; it is sent, doubled, to the last entry."""
    noise.down.data = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).to(noise.down)
    noise.up.data = torch.tensor([[0.0], [0.0], [0.0], [2.0]]).to(noise.up)


def test_weight_by_hand():
    quantizer = FDAWeight((2, 2, 1, 2)).double()
    set_by_hand(quantizer.noise)
    w = torch.tensor([[1.0, -3.0, 0.0, 4.0], [-1.0, 1.0, 1.0, 1.0]], dtype=torch.float64).view(2, 2, 1, 2)
    sine = 0.01 * torch.sin(w.flatten(1))
    noisy = torch.tensor([[1.0, -1.0, 1.0, 1.2], [-1.0, 1.0, 1.0, 1.0]], dtype=torch.float64) + sine
    expected = torch.tensor([[2.0], [1.0]], dtype=torch.float64) * noisy
    # lambda is 0.1 as a float32 buffer.
    torch.testing.assert_close(quantizer(w).flatten(1), expected, atol=FLOAT32_ROUNDING, rtol=0)
    assert quantizer.eval()(w).flatten().tolist() == [2, -2, 2, 2, -1, 1, 1, 1]


def test_activation_by_hand():
    quantizer = FDASign(4, -3).double()
    set_by_hand(quantizer.noise)
    x = torch.tensor([1.0, -3.0, 0.0, 4.0], dtype=torch.float64).view(4, 1, 1).repeat(2, 1, 1, 2)
    x[0, 0, 0, 1] = -1.0
    sine = 0.01 * torch.sin(x)
    expected = torch.tensor([1.0, -1.0, 1.0, 1.2], dtype=torch.float64).view(4, 1, 1).repeat(2, 1, 1, 2)
    expected[0, 0, 0, 1], expected[0, 3, 0, 1] = -1.0, 1.0
    torch.testing.assert_close(quantizer(x), expected + sine, atol=FLOAT32_ROUNDING, rtol=0)
    assert set(quantizer.eval()(x).unique().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize('done', [0.0, 0.5, 1.0])
@pytest.mark.parametrize('training', [True, False])
def test_weight_gradients_are_the_closed_form(done, training):
    quantizer = FDAWeight(SHAPE).double().train(training)
    quantizer.set_progress(done)
    w, upstream = random(1) * 0.7, random(2)
    ours, reference = w.clone().requires_grad_(), w.clone().requires_grad_()
    (quantizer(ours) * upstream).sum().backward()
    noise_gradients = [quantizer.noise.down.grad, quantizer.noise.up.grad]
    quantizer.zero_grad()

    codes = series(reference, {0.0: 9, 0.5: 14, 1.0: 18}[done])
    if training:
        codes = codes + quantizer.noise.factor * eta(reference.flatten(1), quantizer.noise).view(SHAPE)
    alpha = w.abs().mean(dim=(1, 2, 3), keepdim=True)
    (alpha * codes * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)
    if training:
        for gradient, parameter in zip(noise_gradients, quantizer.noise.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)
            assert gradient.abs().sum() > 0 or done == 1
    else:
        assert noise_gradients == [None, None]


@pytest.mark.parametrize(('channel_dim', 'shape'), [(-3, (2, 8, 3, 4)), (-3, (8, 3, 4)), (-1, (2, 3, 8)), (1, (5, 8))])
def test_activation_gradient_is_the_closed_form(channel_dim, shape):
    quantizer = FDASign(8, channel_dim).double()
    quantizer.set_progress(0.25)
    x, upstream = random(1, shape) * 0.7, random(2, shape)
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = quantizer(ours)
    (out * upstream).sum().backward()
    noise = eta(reference.movedim(channel_dim, -1), quantizer.noise).movedim(-1, channel_dim)
    noise = quantizer.noise.factor * noise
    signs = torch.where(x < 0, -1.0, 1.0).double()
    torch.testing.assert_close(out, signs + noise, atol=FLOAT64_EXACT, rtol=0)
    ((series(reference, 11) + noise) * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_at_the_end_of_training_nothing_is_added():
    weight, activation = FDAWeight(SHAPE), FDASign(4)
    for quantizer in (weight, activation):
        quantizer.set_progress(1.0)
    w = random(1).float()
    assert all(len(channel.unique()) == 2 for channel in weight(w))
    assert set(activation(w).unique().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize(('width', 'hidden'), [(1, 1), (7, 1), (27, 6), (63, 15), (64, 1), (576, 9), (4608, 72)])
def test_hidden_width(width, hidden):
    noise = NoiseAdaptation(width)
    assert noise.down.shape == (hidden, width) and noise.up.shape == (width, hidden)
    assert noise.down.abs().max() <= width**-0.5 and noise.up.abs().max() <= hidden**-0.5


@pytest.mark.parametrize('quantizer', [FDAWeight((4, 8)), FDASign(8)], ids=['weight', 'activation'])
def test_noise_is_there_for_the_optimizer_from_the_start_and_schedules_are_saved(quantizer):
    assert [name for name, _ in quantizer.named_parameters()] == ['noise.down', 'noise.up']
    for done, highest, factor in ((0.0, 9, 0.1), (0.5, 14, 0.05), (1.0, 18, 0.0)):
        quantizer.set_progress(done)
        state = quantizer.state_dict()
        assert state['highest'].item() == highest and state['noise.factor'].item() == pytest.approx(factor)


@pytest.mark.parametrize('cls', [FDAWeight, FDASign])
def test_wrong_terms_are_refused(cls):
    shape = (2, 4) if cls is FDAWeight else 4
    for wrong in ((-1, 9), (18, 9), (9,)):
        with pytest.raises(ValueError, match=f'{cls.__name__}: terms=.* must be .first, last. with 0 <= first'):
            cls(shape, terms=wrong)


def test_activation_keeps_its_type_under_autocast():
    quantizer = FDASign(8)
    x = random(1, (2, 8, 3, 3)).float()
    with torch.autocast('cpu', torch.bfloat16):
        single, half = quantizer(x), quantizer(x.bfloat16())
    assert (single.dtype, half.dtype) == (torch.float32, torch.bfloat16)
    # The noise is computed in bfloat16 (3 digits) and multiplied by 0.1.
    torch.testing.assert_close(single, quantizer(x), atol=2e-3, rtol=0)


def test_conv_cfg_gives_the_methods_quantizers():
    conv = build_conv_layer(dict(type='FDAConv2d'), 4, 6, 3, padding=1)
    assert type(conv) is FDAConv2d
    for layer in (conv, FDALinear(4, 6)):
        assert type(layer.weight_quantizer) is FDAWeight
        assert type(layer.activation_quantizer) is FDASign
        # In a network that was not made for it: a shift, started from data.
        assert layer.activation_quantizer.needs_calibration


@torch.no_grad()
def test_evaluation_convolves_signs_and_training_adds_noise_to_both():
    torch.manual_seed(0)
    conv = FDAConv2d(4, 8, 3, padding=1).double()
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    weight = sign(conv.weight) * conv.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
    plain = functional.conv2d(sign(x), weight, conv.bias, padding=1)
    with_noise = functional.conv2d(
        conv.activation_quantizer(x), conv.weight_quantizer(conv.weight), conv.bias, padding=1
    )
    torch.testing.assert_close(conv(x), with_noise, atol=FLOAT64_EXACT, rtol=0)
    assert 1e-3 < (with_noise - plain).abs().mean() < 0.1 * plain.abs().mean()
    torch.testing.assert_close(conv.eval()(x), plain, atol=FLOAT64_EXACT, rtol=0)


def test_noise_is_no_layer_of_the_network():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), FDAConv2d(8, 8, 3))
    assert [row.name for row in layer_rows(net)] == ['0', '2']
    assert calibrate_shifts(net, lambda: net(torch.randn(2, 3, 8, 8))) == []
    out = net[2].activation_quantizer.eval()(net[1](net[0](torch.randn(2, 3, 8, 8))))
    assert set(out.unique().tolist()) == {-1.0, 1.0}
