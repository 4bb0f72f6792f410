import copy
import math

import pytest
import torch
from mmcv.cnn import build_conv_layer
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from rebnn_mm.functional import sign, sign_approx
from rebnn_mm.methods import RBNNConv2d, RBNNLinear, RBNNSign, RBNNWeight
from rebnn_mm.methods.rbnn import (
    random_rotation,
    refine_rotation,
    rotate,
    rotation_sides,
    sign_triangle,
)
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

X = torch.tensor([-150.0, -2.0, -1.0, -0.1, -0.0, 0.0, 0.05, 0.75, 1.5], dtype=torch.float64)


def gradient(function, x, *args):
    x = x.clone().requires_grad_()
    upstream = torch.arange(1.0, len(x) + 1, dtype=torch.float64)
    (function(x, *args) * upstream).sum().backward()
    return x.grad, upstream


@pytest.mark.parametrize('t', [0.01, 0.5, 1.0, 10.0])
def test_gradient_is_the_closed_form(t):
    ours, upstream = gradient(sign_triangle, X, torch.tensor(t, dtype=torch.float64))
    expected = upstream * max(1 / t, 1) * (math.sqrt(2) * t - t**2 * X.abs()).clamp(min=0)
    assert (expected > 0).any() and (expected == 0).any()
    torch.testing.assert_close(ours, expected, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_triangle_of_half_width_one_is_the_quadratic_estimator():
    ours, _ = gradient(sign_triangle, X, torch.tensor(math.sqrt(2), dtype=torch.float64))
    torch.testing.assert_close(ours, gradient(sign_approx, X)[0], atol=FLOAT64_EXACT, rtol=0)


def test_two_values_and_zero_and_nan_are_plus_one():
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), -float('inf'), 3.0])
    assert sign_triangle(special, torch.tensor(1.0)).tolist() == [1, 1, 1, -1, 1, -1, 1]


def matrices(count, rows, columns, seed=0):
    return torch.randn(count, rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotation(size, seed):
    torch.manual_seed(seed)
    return torch.linalg.qr(random_rotation(size).double()).Q


def agreement(filters, left, right):
    """What the update climbs: the summed product of rotated filters with their signs."""
    return rotate(filters, left, right).abs().sum().item()


def assert_orthogonal(matrix, atol):
    torch.testing.assert_close(matrix.T @ matrix, torch.eye(len(matrix), dtype=matrix.dtype), atol=atol, rtol=0)


def test_sides_are_the_factors_nearest_to_a_square():
    for values in range(1, 200):
        rows, columns = rotation_sides(values)
        assert rows * columns == values and rows <= columns
        assert not [d for d in range(rows + 1, columns) if values % d == 0]


def test_random_rotation_is_orthogonal_and_decided_by_the_seed():
    first, again, other = (rotation(6, seed) for seed in (0, 0, 1))
    torch.manual_seed(0)
    assert_orthogonal(random_rotation(6), FLOAT32_ROUNDING)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_random_rotations_have_no_preferred_direction():
    torch.manual_seed(0)
    mean = torch.stack([random_rotation(3) for _ in range(2000)]).mean(dim=0)
    # Entries of one rotation have variance 1/3, so the mean has standard deviation 0.013.
    torch.testing.assert_close(mean, torch.zeros(3, 3), atol=0.06, rtol=0)


def test_two_small_rotations_are_one_large_rotation_of_the_filter():
    filters, left, right = matrices(4, 2, 3), rotation(2, 1), rotation(3, 2)
    one = torch.kron(left, right)
    expected = (filters.flatten(1) @ one).view_as(filters)
    torch.testing.assert_close(rotate(filters, left, right), expected, atol=FLOAT64_EXACT, rtol=0)
    assert_orthogonal(one, FLOAT64_EXACT)


def test_autocast_does_not_reach_the_rotation():
    filters, left, right = matrices(4, 6, 6).float(), rotation(6, 1).float(), rotation(6, 2).float()
    outside = rotate(filters, left, right), *refine_rotation(filters, left, right)
    with torch.autocast('cpu', torch.bfloat16):
        inside = rotate(filters, left, right), *refine_rotation(filters, left, right)
    assert all(torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


@pytest.mark.parametrize(('count', 'rows', 'columns'), [(8, 4, 6), (3, 1, 7), (2, 5, 5)])
def test_rotation_stays_orthogonal_and_agreement_never_falls(count, rows, columns):
    filters, left, right = matrices(count, rows, columns), rotation(rows, 1), rotation(columns, 2)
    first = last = agreement(filters, left, right)
    for _ in range(10):
        left, right = refine_rotation(filters, left, right, rounds=1)
        assert_orthogonal(left, FLOAT64_EXACT)
        assert_orthogonal(right, FLOAT64_EXACT)
        now = agreement(filters, left, right)
        assert now >= last - FLOAT64_EXACT * last
        last = now
    assert last > first


def test_three_rounds_are_one_round_three_times():
    filters, start = matrices(8, 4, 6), (rotation(4, 1), rotation(6, 2))
    turned = start
    for _ in range(3):
        turned = refine_rotation(filters, *turned, rounds=1)
    for at_once, one_by_one in zip(refine_rotation(filters, *start), turned, strict=True):
        assert torch.equal(at_once, one_by_one)


def test_right_rotation_is_the_best_for_the_signs_and_the_left_one():
    filters, left, right = matrices(8, 4, 6), rotation(4, 1), rotation(6, 2)
    codes = sign(rotate(filters, left, right))
    left, right = refine_rotation(filters, left, right, rounds=1)
    best = (rotate(filters, left, right) * codes).sum()
    for seed in range(50):
        other = rotation(6, seed + 10)
        nearby = torch.linalg.qr(right + 0.1 * other).Q
        nearby = nearby * (nearby * right).sum(dim=0).sign()
        assert (rotate(filters, left, other) * codes).sum() < best
        assert (rotate(filters, left, nearby) * codes).sum() < best


def test_signs_that_were_slightly_turned_are_found_again():
    codes = sign(matrices(16, 4, 6))
    small = [torch.linalg.matrix_exp(0.1 * (m - m.T)) for m in (matrices(1, 4, 4, 1)[0], matrices(1, 6, 6, 2)[0])]
    filters = small[0] @ codes @ small[1].T
    left, right = refine_rotation(filters, torch.eye(4).double(), torch.eye(6).double(), rounds=30)
    torch.testing.assert_close(rotate(filters, left, right), codes, atol=FLOAT64_EXACT, rtol=0)


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
    moved = made.latent(w - 1e-3 * w.grad) - made.latent(w)
    assert torch.cosine_similarity(moved.flatten(), -upstream.flatten(), dim=0) > 0.9


def test_begin_epoch_turns_the_filters_towards_their_signs():
    made, w = quantizer(), random(1)

    def mean_cosine():
        turned = made.latent(w).flatten(1)
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


def test_conv_cfg_gives_the_methods_quantizers():
    conv = build_conv_layer(dict(type='RBNNConv2d'), 4, 6, 3, padding=1)
    assert type(conv) is RBNNConv2d
    for layer in (conv, RBNNLinear(4, 6)):
        assert type(layer.weight_quantizer) is RBNNWeight
        assert type(layer.activation_quantizer) is RBNNSign
        # Its input is centred anyway.
        assert layer.activation_quantizer.shift is None


@torch.no_grad()
@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize('groups', [1, 2, 4])
def test_convolves_the_signs_of_rotated_filters(training, groups):
    torch.manual_seed(0)
    conv = RBNNConv2d(4, 8, 3, padding=1, groups=groups).double().train(training)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64).relu()
    quantizer = conv.weight_quantizer
    filters = conv.weight - conv.weight.mean(dim=(1, 2, 3), keepdim=True)
    folded = filters.reshape(8, *quantizer.sides)
    turned = torch.einsum('ji,ojk,kl->oil', quantizer.left, folded, quantizer.right).view_as(filters)
    weight = sign(turned) * conv.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
    binary_input = sign(x - x.mean(dim=(1, 2, 3), keepdim=True))
    assert binary_input.unique().tolist() == [-1.0, 1.0], 'both signs after a ReLU'
    expected = functional.conv2d(binary_input, weight, conv.bias, padding=1, groups=groups)
    # alpha starts in float32.
    torch.testing.assert_close(conv(x), expected, atol=1e-6, rtol=0)


def test_alpha_is_started_from_the_loaded_weight_and_the_rotation_is_kept():
    source, target = RBNNConv2d(4, 8, 3), RBNNConv2d(4, 8, 3)
    target.load_state_dict({name: source.state_dict()[name] for name in ('weight', 'bias')}, strict=False)
    mean = source.weight.abs().mean(dim=(1, 2, 3))
    torch.testing.assert_close(target.weight_quantizer.alpha, mean, atol=FLOAT64_EXACT, rtol=0)
    source.weight_quantizer.alpha.data.fill_(0.5)
    target.load_state_dict(source.state_dict())
    x = torch.randn(1, 4, 5, 5)
    assert torch.equal(target.eval()(x), source.eval()(x))
    assert target.weight_quantizer.alpha.eq(0.5).all()


def test_an_average_of_rotations_is_not_evaluated():
    torch.manual_seed(0)
    for use_buffers in (False, True):
        layer = RBNNLinear(6, 4)
        averaged = AveragedModel(layer, use_buffers=use_buffers)
        for _ in range(3):
            layer.weight_quantizer.left.copy_(random_rotation(2))
            averaged.update_parameters(layer)
        if use_buffers:
            with pytest.raises(ValueError, match='RBNNWeight: its rotation was averaged.*without use_buffers=True'):
                averaged.eval()
        else:
            averaged.half().eval()
