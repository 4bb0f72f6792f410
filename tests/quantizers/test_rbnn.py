import copy
import math

import pytest
import torch

from rebnn_mm.functional import sign
from rebnn_mm.quantizers import RBNNSign, RBNNWeight
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

SHAPE = (5, 4, 3, 3)


def random(seed, shape=SHAPE):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def quantizer(seed=0, shape=SHAPE):
    torch.manual_seed(seed)
    made = RBNNWeight(shape).double()
    for side in (made.left, made.right):
        side.copy_(torch.linalg.qr(side).Q)
    return made


def test_values_by_hand():
    """v is (-3, -1, 1, 3) / sqrt(5); a quarter turn from the left moves the second row above the negated first one."""
    made = RBNNWeight((3, 4))
    made.left.copy_(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
    made.right.copy_(torch.eye(2))
    made.alpha.data = torch.tensor([1.0, 2.0, 3.0])
    made.theta.data = torch.tensor([math.pi / 2, 0.0, -math.pi / 6])
    # All of (1, 3, 3, 1), none of it, and half of it.
    out = made(torch.tensor([[1.0, 2.0, 3.0, 4.0]]).repeat(3, 1))
    assert out.tolist() == [[1, 1, 1, 1], [-2, -2, 2, 2], [-3, 3, 3, 3]]


@pytest.mark.parametrize('done', [0.0, 0.7, 1.0])
def test_gradients_are_the_closed_form(done):
    made = quantizer()
    made.set_progress(done)
    made.alpha.data.uniform_(0.5, 1.5)
    made.theta.data = torch.tensor([0.3, -0.8, 1.2, 2.5, 4.0]).double()
    w, upstream = random(1), random(2)
    ours = w.clone().requires_grad_()
    (made(ours) * upstream).sum().backward()

    reference = w.clone().requires_grad_()
    centred = reference - reference.mean(dim=(1, 2, 3), keepdim=True)
    v = centred / (centred.square().mean(dim=(1, 2, 3), keepdim=True) + 1e-8).sqrt()
    bracket = torch.einsum('ji,ojk,kl->oil', made.left, v.view(5, 6, 6), made.right).view(SHAPE) - v
    theta = made.theta.detach().view(5, 1, 1, 1)
    turned = v + theta.sin().abs() * bracket
    t = made.sharpness.item()
    inner = upstream * made.alpha.detach().view(5, 1, 1, 1)
    inner = inner * max(1 / t, 1) * (math.sqrt(2) * t - t**2 * turned.detach().abs()).clamp(min=0)
    (turned * inner).sum().backward()
    sizes = dict(atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)
    torch.testing.assert_close(ours.grad, reference.grad, **sizes)
    slope = theta.cos() * theta.sin().sign()
    torch.testing.assert_close(made.theta.grad, (inner * bracket.detach() * slope).sum(dim=(1, 2, 3)), **sizes)
    torch.testing.assert_close(made.alpha.grad, (upstream * sign(turned)).sum(dim=(1, 2, 3)), **sizes)


def test_a_small_step_moves_the_rotated_weight_against_the_gradient():
    made, w, upstream = quantizer(), random(1).requires_grad_(), random(2)
    (made(w) * upstream).sum().backward()
    moved = made._partly_rotated(w - 1e-3 * w.grad) - made._partly_rotated(w)
    assert torch.cosine_similarity(moved.flatten(), -upstream.flatten(), dim=0) > 0.9


def test_begin_epoch_turns_the_filters_towards_their_signs():
    made, w = quantizer(), random(1)

    def mean_cosine():
        turned = made._partly_rotated(w).flatten(1)
        return torch.cosine_similarity(turned, sign(turned), dim=1).mean().item()

    cosines = [mean_cosine()]
    for _ in range(4):
        made.begin_epoch(w)
        cosines.append(mean_cosine())
        for side in (made.left, made.right):
            torch.testing.assert_close(side.T @ side, torch.eye(6).double(), atol=FLOAT64_EXACT, rtol=0)
    assert cosines == sorted(cosines) and cosines[-1] > cosines[0] + 0.02


def test_single_precision_rotation_stays_orthogonal_over_many_epochs():
    made, w = quantizer().float(), random(1).float()
    for _ in range(50):
        made.begin_epoch(w)
    assert made.left.dtype == torch.float32
    torch.testing.assert_close(made.left.T @ made.left, torch.eye(6), atol=FLOAT32_ROUNDING, rtol=0)


def test_every_process_finds_the_same_rotation():
    one, other = quantizer(), quantizer()
    for process in (one, other):
        process.begin_epoch(random(1))
    assert torch.equal(one.left, other.left) and torch.equal(one.right, other.right)
    assert not torch.equal(one.left, quantizer(seed=1).left)


def test_update_leaves_weight_and_parameters_alone_and_ignores_autocast():
    made = quantizer().float()
    w = random(1).float().requires_grad_()
    before = w.detach().clone(), made.alpha.detach().clone(), made.theta.detach().clone()
    inside = copy.deepcopy(made)
    made.begin_epoch(w)
    with torch.autocast('cpu', torch.bfloat16):
        inside.begin_epoch(w)
    assert all(torch.equal(a, b) for a, b in zip(before, (w, made.alpha, made.theta), strict=True))
    assert torch.equal(inside.left, made.left) and not made.left.requires_grad


def test_zero_channel_is_plus_one_with_finite_gradients():
    made = quantizer()
    w = random(1)
    w[0] = 0.0
    w.requires_grad_()
    made.init_from_weight(w)
    made.begin_epoch(w)
    made(w).square().sum().backward()
    assert torch.equal(made.codes(w)[0][0], torch.ones(4, 3, 3).double())
    assert w.grad.isfinite().all() and made.alpha[0] == 0


def test_weight_that_is_not_finite_is_refused():
    w = random(1)
    w[0, 0, 0, 0] = float('nan')
    with pytest.raises(ValueError, match=r'latent weight of shape \(5, 4, 3, 3\) holds NaN .* lower the learning'):
        quantizer().begin_epoch(w)


def test_schedules_start_and_end_where_the_paper_says_and_are_saved():
    weight, activation = RBNNWeight((2, 4)), RBNNSign(4)
    assert sorted(weight.state_dict()) == ['alpha', 'left', 'right', 'sharpness', 'theta']
    for done, t in ((0.0, 1e-2), (1 / 3, 0.1), (2 / 3, 1.0), (1.0, 10.0)):
        weight.set_progress(done)
        activation.set_progress(done)
        assert weight.state_dict()['sharpness'].item() == pytest.approx(t)
        assert activation.state_dict()['sharpness'].item() == pytest.approx(max(t, 1.0))


@pytest.mark.parametrize('cls', [RBNNWeight, RBNNSign])
def test_wrong_range_is_refused(cls):
    shape = (2, 4) if cls is RBNNWeight else 4
    for wrong in ((0.0, 1.0), (2.0, 1.0), (1.0,)):
        with pytest.raises(ValueError, match=f'{cls.__name__}: t=.* must be .first, last. with 0 < first <= last'):
            cls(shape, t=wrong)


def test_activation_values_by_hand():
    out = RBNNSign(2)(torch.tensor([[[0.0, 0.0], [0.0, 9.0]], [[-5.0, -6.0], [-8.0, -9.0]]]))
    assert out.tolist() == [[[-1, -1], [-1, 1]], [[1, 1], [-1, -1]]]


@pytest.mark.parametrize(('channel_dim', 'dims'), [(-3, (1, 2, 3)), (-1, (3,))])
@pytest.mark.parametrize('done', [0.0, 0.8])
def test_activation_gradient_is_the_closed_form(channel_dim, dims, done):
    made = RBNNSign(3, channel_dim).double()
    made.set_progress(done)
    x, upstream = random(1, (2, 3, 4, 3)) * 2 + 1, random(2, (2, 3, 4, 3))
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    (made(ours) * upstream).sum().backward()
    centred = reference - reference.mean(dim=dims, keepdim=True)
    u = centred / (centred.square().mean(dim=dims, keepdim=True) + 1e-5).sqrt()
    t = made.sharpness.item()
    assert t == 1 if done == 0 else t > 1
    (u * upstream * (math.sqrt(2) * t - t**2 * u.detach().abs()).clamp(min=0)).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_activation_depends_on_its_own_sample_only_and_not_on_scale_and_offset():
    x = random(1, (4, 3, 5, 5))
    made = RBNNSign(3, -3).double()
    out = made(x)
    factors = torch.tensor([0.1, 1.0, 10.0, 3.0]).double().view(4, 1, 1, 1)
    torch.testing.assert_close(made(x * factors + 2 * factors), out, atol=0, rtol=0)
    assert torch.equal(made.eval()(x), out)


def test_activation_of_large_half_precision_values():
    x = torch.tensor([[60000.0, -60000.0, 30000.0, 0.0]], dtype=torch.float16)
    assert RBNNSign(4)(x).tolist() == [[1, -1, 1, -1]] and RBNNSign(4)(x).dtype == torch.float16
