import torch

from rebnn_mm.functional import bounded, flip_share, max_gradient, reconstruction_gradient, reconstruction_loss
from tests.tolerances import FLOAT64_EXACT


def test_gradient_is_that_of_the_loss():
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(6, 4, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    alpha = (torch.rand(6, generator=generator, dtype=torch.float64) + 0.1).requires_grad_()
    gamma = torch.rand(6, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad(reconstruction_loss(weight, alpha, gamma), [weight, alpha])
    got = reconstruction_gradient(weight.detach(), alpha.detach(), gamma)
    for value, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(value, reference, atol=FLOAT64_EXACT, rtol=0)


def test_alpha_at_the_channel_mean_has_no_pull():
    weight = torch.tensor([[0.5, -1.5, 1.0]], dtype=torch.float64)
    _, grad_alpha = reconstruction_gradient(weight, torch.tensor([1.0]).double(), torch.ones(1).double())
    assert abs(grad_alpha.item()) < FLOAT64_EXACT


def test_printed_form_of_the_alpha_gradient_has_the_other_sign():
    weight, alpha, gamma = torch.tensor([[2.0, -2.0]]), torch.tensor([1.0]), torch.tensor([0.5])
    printed = (gamma[:, None] * (weight - alpha * weight.sign()) * weight.sign()).sum()
    _, grad_alpha = reconstruction_gradient(weight, alpha, gamma)
    assert printed == 1.0 and grad_alpha.item() == -1.0


def test_share_times_gradient_by_hand():
    before = torch.tensor([[1.0, -1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    after = torch.tensor([[-1.0, -1.0, -1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    grad = torch.tensor([[0.1, -0.4, 0.2, 0.0], [9.0, 0.0, 0.0, 0.0]])
    share = flip_share(before != after)
    assert share.tolist() == [0.5, 0.0]
    assert torch.allclose(share * max_gradient(grad, torch.tensor([0.5, 3.0])), torch.tensor([0.4, 0.0]))


def test_bounds_hold_for_any_value_and_are_reached():
    values = torch.logspace(-9, 1, 200)
    clamped = bounded(values, (1e-5, 2e-4))
    assert clamped.min() == torch.tensor(1e-5) and clamped.max() == torch.tensor(2e-4)
    inside = (values > 1e-5) & (values < 2e-4)
    # The released code's clamp fails here: it gives 2e-4 for every input.
    assert inside.sum() > 10 and torch.equal(clamped[inside], values[inside])
    assert torch.equal(bounded(values, None), values)
