import pytest
import torch


@pytest.fixture
def draw():
    """Random tensors in float64, always the same."""
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def gradient():
    """The gradient of a loss for its one argument."""

    def gradient(loss, x):
        x = x.clone().requires_grad_()
        loss(x).backward()
        return x.grad

    return gradient
