import torch

from rebnn_mm.quantizers import BinaryMeanScaleWeight
from tests.tolerances import FLOAT64_EXACT


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
