import torch

from rebnn_mm.methods import BiBERTWeight
from tests.tolerances import FLOAT64_EXACT


def test_hand_worked():
    w = torch.tensor([[1.0, 2.0, 6.0], [0.5, 0.5, 0.5]])
    # Means 3 and 0.5: signs of [-2, -1, 3] and of zeros; mean magnitudes of the uncentred rows.
    assert BiBERTWeight((2, 3))(w).tolist() == [[-3.0, -3.0, 3.0], [0.5, 0.5, 0.5]]


def test_gradient_equals_autograd_of_the_clipped_centred_weight():
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(5, 4, 3, 3, generator=generator, dtype=torch.float64) + 0.3
    upstream = torch.randn(5, 4, 3, 3, generator=generator, dtype=torch.float64)
    ours, plain = w.clone().requires_grad_(), w.clone().requires_grad_()
    (BiBERTWeight((5, 4, 3, 3))(ours) * upstream).sum().backward()
    centred = plain - plain.mean(dim=(1, 2, 3), keepdim=True)
    assert (centred.abs() > 1).any()
    (centred.clamp(-1, 1) * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad, atol=FLOAT64_EXACT, rtol=0)
    assert ours.grad.mean(dim=(1, 2, 3)).abs().max() < FLOAT64_EXACT


def test_rows_alone_are_rows_of_the_whole():
    w = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    quantizer = BiBERTWeight((6, 8))
    rows = torch.tensor([4, 0, 4])
    assert quantizer.channels_alone
    assert torch.equal(quantizer(w[rows]), quantizer(w)[rows])
