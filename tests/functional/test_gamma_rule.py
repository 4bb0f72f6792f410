import torch

from rebnn_mm.functional import bounded, flip_share, max_gradient


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
