import torch

from rebnn_mm.methods.rebnn import add_reconstruction_, join_channels, measure_channels
from tests.tolerances import FLOAT64_EXACT


def test_the_term_is_the_gradient_of_the_loss():
    """Of L_R = 1/2 sum_i gamma_i |w_i - alpha_i sign(w_i)|^2, for layers of two fan-ins at once; the paper's Eq. 7."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(6, 4, 3, 3), (2, 4, 3, 3), (5, 7)]
    weights = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    alpha = (torch.rand(13, generator=generator, dtype=torch.float64) + 0.1).requires_grad_()
    gamma = torch.rand(13, generator=generator, dtype=torch.float64)
    loss = 0.0
    for weight, a, g in zip(weights, alpha.split([6, 2, 5]), gamma.split([6, 2, 5]), strict=True):
        flat = weight.flatten(1)
        residual = flat - a[:, None] * torch.where(flat < 0, -1.0, 1.0)
        loss += 0.5 * (g * residual.square().sum(1)).sum()
    *expected, expected_alpha = torch.autograd.grad(loss, [*weights, alpha])

    latent = join_channels([weight.detach() for weight in weights])
    grad = join_channels([torch.zeros(shape, dtype=torch.float64) for shape in shapes])
    found = measure_channels(grad, latent, alpha.detach())
    add_reconstruction_(grad, latent, alpha.detach(), gamma)
    wanted = torch.cat([value.flatten() for value in expected])
    torch.testing.assert_close(grad.values, wanted, atol=FLOAT64_EXACT, rtol=0)
    fan_in = torch.tensor([36] * 8 + [7] * 5)
    pull = gamma * (found.magnitude - alpha.detach() * fan_in)
    torch.testing.assert_close(-pull, expected_alpha, atol=10 * FLOAT64_EXACT, rtol=0)
    distance = torch.cat(
        [
            (value.flatten(1) / g[:, None]).norm(dim=1)
            for value, g in zip(expected, gamma.split([6, 2, 5]), strict=True)
        ]
    )
    torch.testing.assert_close(found.distance, distance, atol=10 * FLOAT64_EXACT, rtol=0)
