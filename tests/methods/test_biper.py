import math

import pytest
import torch
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.engine import MethodDriver
from rebnn_mm.export import pack
from rebnn_mm.methods import BiPerConv2d, BiPerLinear, BiPerSine, BiPerWeight
from tests.tolerances import FLOAT64_EXACT


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_values_by_hand():
    """With omega pi / 2 the wave is positive from 0 to 2, negative from 2 to 4."""
    w = torch.tensor([[0.0, 1.0, 2.5, -1.0, -2.5, 4.5]])
    stage1, stage2 = BiPerSine((1, 6), omega=math.pi / 2), BiPerWeight((1, 6), omega=math.pi / 2)
    assert stage2(w).tolist() == [[1, 1, -1, -1, 1, 1]]
    half = math.sqrt(0.5)
    torch.testing.assert_close(stage1(w).detach(), torch.tensor([[0.0, 1.0, -half, -1.0, half, half]]))


@pytest.mark.parametrize('cls', [BiPerSine, BiPerWeight])
def test_both_stages_have_the_gradient_of_the_sine(cls):
    quantizer = cls((3, 8), omega=5.0).double()
    quantizer.alpha.data.uniform_(0.5, 1.5)
    w, upstream = random(3, 8), random(3, 8, seed=1)
    ours = w.clone().requires_grad_()
    out = quantizer(ours)
    (out * upstream).sum().backward()
    alpha = quantizer.alpha.detach().view(-1, 1)
    torch.testing.assert_close(ours.grad, upstream * alpha * 5 * torch.cos(5 * w), atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(
        quantizer.alpha.grad, (upstream * out.detach() / alpha).sum(1), atol=FLOAT64_EXACT, rtol=0
    )


@pytest.mark.parametrize('cls', [BiPerSine, BiPerWeight])
def test_a_step_is_that_of_the_loss_with_the_penalty(cls):
    """The written-out loss has the mean of the squared sine of each layer in it."""
    torch.manual_seed(0)
    weight = dict(type=cls.__name__, omega=3.0, penalty=0.7)
    ours, reference = (BiPerLinear(6, 4, bias=False, weight=weight, activation=None).double() for _ in range(2))
    driver = MethodDriver(ours)
    reference.load_state_dict(ours.state_dict())
    x = random(5, 6)
    for layer in (ours, reference):
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        if layer is ours:
            driver.attach(optimizer)
        loss = layer(x).square().mean()
        if layer is reference:
            loss = loss + 0.7 * torch.sin(3.0 * layer.weight).square().mean()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, reference.weight, atol=FLOAT64_EXACT, rtol=0)


def test_the_second_stage_starts_from_a_checkpoint_of_the_first_with_its_frequency():
    first = BiPerConv2d(4, 6, 3, weight=dict(type='BiPerSine', omega=12.0))
    first.weight_quantizer.alpha.data.fill_(0.3)
    second = BiPerConv2d(4, 6, 3)
    second.load_state_dict(first.state_dict())
    MethodDriver(second)
    assert second.weight_quantizer.omega.item() == 12.0 and (second.weight_quantizer.alpha == 0.3).all()
    codes, factor = second.weight_quantizer.codes(second.weight.detach())
    assert torch.equal(codes * factor.view(-1, 1, 1, 1) > 0, first.weight_quantizer(first.weight) >= 0)


def test_the_first_stage_is_real_takes_32_bits_for_each_weight_and_says_so_at_export():
    layer = BiPerConv2d(8, 6, 3, bias=False, weight='BiPerSine')
    assert (layer.weight_bits, layer.activation_bits) == (32, 1)
    x = torch.zeros(1, 8, 5, 5)
    (cost,) = count_layers(nn.Sequential(layer).eval(), lambda: layer(x))
    assert cost.deployed_bytes == 4 * (layer.weight.numel() + 8)  # and a shift per input channel
    with pytest.raises(ValueError, match=r"BiPerConv2d '0' has weights of 32 bits \(BiPerSine\)"):
        pack(nn.Sequential(layer))


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (dict(omega=0.0), 'BiPerWeight: omega=0.0 must be a number above 0'),
        (dict(penalty=-1.0), 'BiPerWeight: penalty=-1.0 must be a number of at least 0'),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        BiPerWeight((2, 4), **options)
