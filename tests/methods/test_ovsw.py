import pytest
import torch
from torch import nn

from rebnn_mm.engine import MethodDriver
from rebnn_mm.methods import OvSWLinear, OvSWSign, OvSWWeight
from rebnn_mm.methods.ovsw import scale_up_
from tests.tolerances import FLOAT64_EXACT


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_values_are_signs_times_the_mean_magnitude_of_the_standardised_channel():
    """(1, 3, 5, 7) standardised is (-3, -1, 1, 3) / sqrt(5), whose mean magnitude is 2 / sqrt(5)."""
    out = OvSWWeight((2, 4)).double()(torch.tensor([[1.0, 3.0, 5.0, 7.0], [-1.0, -3.0, 5.0, -9.0]]).double())
    assert torch.equal(out.sign(), torch.tensor([[1.0, 1, 1, 1], [-1, -1, 1, -1]]).double())
    assert out[0, 0].item() == pytest.approx(2 / 5**0.5, rel=1e-5)  # the 1e-5 next to the variance
    scaled = OvSWWeight((2, 4)).double()(1000 * torch.tensor([[1.0, 3, 5, 7], [-1, -3, 5, -9]]).double())
    torch.testing.assert_close(scaled, out, rtol=1e-5, atol=0)


def test_gradient_passes_everywhere_with_the_scale_as_a_constant():
    w, upstream = (3 * random(3, 8)).requires_grad_(), random(3, 8, seed=1)
    quantizer = OvSWWeight((3, 8)).double()
    (quantizer(w) * upstream).sum().backward()
    scale = quantizer.codes(w.detach())[1]
    torch.testing.assert_close(w.grad, upstream * scale.view(-1, 1), atol=FLOAT64_EXACT, rtol=0)


def test_gradients_of_slow_filters_are_brought_to_a_share_of_the_filter():
    w, grad = random(3, 10), random(3, 10, seed=1)
    grad *= torch.tensor([[1.0], [1e-3], [0.0]]).double()
    before = grad.clone()
    scale_up_(grad, w, ratio=0.05)
    assert torch.equal(grad[0], before[0]) and not grad[2].any()
    torch.testing.assert_close(grad[1].norm(), 0.05 * w[1].norm(), atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(nn.functional.cosine_similarity(grad[1], before[1], dim=0), torch.tensor(1.0).double())


def test_floors_of_both_norms():
    grad = torch.full((1, 1), 1e-8, dtype=torch.float64)
    scale_up_(grad, torch.zeros(1, 1).double(), ratio=0.1)
    assert grad.item() == pytest.approx(1e-8 * 0.1 * 1e-3 / 1e-6)


def test_silent_weights_are_drawn_towards_zero_and_flips_are_averaged():
    quantizer = OvSWWeight((1, 3), ratio=0.0, decay=0.5, silent=0.1, momentum=0.75)
    w = nn.Parameter(torch.tensor([[1.0, -2.0, 3.0]]))
    quantizer.flips.copy_(torch.tensor([[0.0, 0.4, 0.099]]))
    w.grad = torch.ones(1, 3)
    quantizer.before_step(w)
    assert w.grad.tolist() == [[1.5, 1.0, 2.5]]
    w.data = torch.tensor([[-1.0, -2.0, 3.0]])
    quantizer.after_step(w)
    torch.testing.assert_close(quantizer.flips, torch.tensor([[0.25, 0.3, 0.07425]]))
    quantizer.after_step(w)  # no step between
    torch.testing.assert_close(quantizer.flips, torch.tensor([[0.25, 0.3, 0.07425]]))


def driven(seed=0, **options):
    torch.manual_seed(seed)
    layer = OvSWLinear(6, 4, bias=False, activation=None, weight=dict(type='OvSWWeight', **options))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    MethodDriver(layer).attach(optimizer)
    return layer, optimizer


OPTIONS = dict(ratio=2.0, decay=0.1, silent=0.3, momentum=0.9)
X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))


def loss(layer, x=X):
    return (layer(x) - 3).square().mean()


def test_steps_are_those_of_the_written_out_rule():
    layer, optimizer = driven(**OPTIONS)
    w = layer.weight.detach().clone()
    flips, velocity = torch.zeros_like(w), torch.zeros_like(w)
    for _ in range(4):
        reference = w.clone().requires_grad_()
        centred = w - w.mean(1, keepdim=True)
        scale = (centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()).abs().mean(1, keepdim=True)
        b = torch.where(reference < 0, -1.0, 1.0) + reference - reference.detach()
        (X @ (b * scale).T - 3).square().mean().backward()
        g = reference.grad
        share = g.norm(dim=1, keepdim=True) / w.norm(dim=1, keepdim=True)
        g = torch.where(share < 2.0, g * 2.0 / share, g) + 0.1 * w * (flips < 0.3) + 0.01 * w
        velocity = 0.9 * velocity + g
        moved = w - 0.1 * velocity
        flips = 0.9 * flips + 0.1 * ((moved < 0) != (w < 0))
        w = moved
        optimizer.zero_grad()
        loss(layer).backward()
        optimizer.step()
    assert flips.any()
    torch.testing.assert_close(layer.weight.detach(), w)
    torch.testing.assert_close(layer.weight_quantizer.flips, flips)


def test_accumulated_gradients_are_scaled_once():
    one, two = driven(**OPTIONS), driven(**OPTIONS)
    loss(one[0]).backward()
    for half in X.chunk(2):
        (loss(two[0], half) / 2).backward()
    for _, optimizer in (one, two):
        optimizer.step()
    torch.testing.assert_close(one[0].weight, two[0].weight)


def test_loss_scaling_changes_nothing_and_a_skipped_step_counts_nothing():
    plain, scaled = driven(**OPTIONS), driven(**OPTIONS)
    scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)
    for factor in (1.0, float('inf'), 1.0):
        for layer, optimizer in (plain, scaled):
            optimizer.zero_grad()
            if layer is scaled[0]:
                scaler.scale(loss(layer) * factor).backward()
                scaler.step(optimizer)
                scaler.update()
            elif factor == 1.0:
                loss(layer).backward()
                optimizer.step()
    torch.testing.assert_close(scaled[0].weight, plain[0].weight)
    torch.testing.assert_close(scaled[0].weight_quantizer.flips, plain[0].weight_quantizer.flips)


def test_clipping_comes_first():
    """A clipped gradient is small compared with the filter, so it is brought to its share again."""
    results = []
    for bound in (1e-3, 1e-5):
        layer, optimizer = driven(**OPTIONS)
        loss(layer).backward()
        nn.utils.clip_grad_norm_(layer.parameters(), bound)
        optimizer.step()
        results.append(layer.weight.detach())
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-5)


def test_a_fused_optimizer_with_loss_scaling_is_refused():
    layer, optimizer = driven()
    optimizer.grad_scale = torch.tensor(1024.0)
    loss(layer).backward()
    with pytest.raises(ValueError, match='MethodDriver: optimizer SGD.fused=True. with AMP .* Use fused=False'):
        optimizer.step()


def test_silent_weights_flip_more_often_than_without_the_rules():
    """A target that the signs start on the wrong side of, with gradients too small to move large weights."""
    flipped = {}
    for name, options in {'with': dict(ratio=0.05, decay=0.01), 'without': dict(ratio=0.0, decay=0.0)}.items():
        layer, optimizer = driven(**options)
        start = layer.weight.detach().clone()
        for _ in range(30):
            optimizer.zero_grad()
            (1e-3 * loss(layer)).backward()
            optimizer.step()
        flipped[name] = ((layer.weight < 0) != (start < 0)).sum().item()
    assert flipped['with'] > flipped['without']


@pytest.mark.parametrize(
    'options', [dict(ratio=-1.0), dict(decay=float('inf')), dict(silent=-0.1), dict(momentum=1.0)], ids=str
)
def test_wrong_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f'OvSWWeight: {name}=.* must be a number'):
        OvSWWeight((2, 4), **options)


def test_activation_gradient_sees_the_sample_over_its_standard_deviation_as_a_constant():
    x, upstream = 2 * random(2, 3, 4), random(2, 3, 4, seed=1)
    ours = x.clone().requires_grad_()
    out = OvSWSign(3)(ours)
    (out * upstream).sum().backward()
    deviation = torch.sqrt(x.var(dim=(1, 2), correction=0, keepdim=True) + 1e-5)
    expected = upstream * (2 - 2 * (x / deviation).abs()).clamp(min=0) / deviation
    assert torch.equal(out.detach(), torch.where(x < 0, -1.0, 1.0).double())
    torch.testing.assert_close(ours.grad, expected, atol=FLOAT64_EXACT, rtol=0)
