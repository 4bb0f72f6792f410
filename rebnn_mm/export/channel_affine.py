"""Batch norm in evaluation: one factor and one summand per channel."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class ChannelAffine(nn.Module):
    r"""A batch norm's evaluation with its two constants computed beforehand, as PyTorch computes them.

    .. math:: y = x \cdot m_c + a_c, \quad m = \frac{weight}{\sqrt{var + \epsilon}}, \quad a = bias - mean \cdot m

    The constants are PyTorch's to the last bit on processors with fused multiply-add: there :math:`a` is rounded once.
    PyTorch then also rounds :math:`x \cdot m + a` once, and so differs from this by up to the last bit.

    Args:
        norm: a batch norm with running statistics; it is not changed.

    Shapes: (N, C, ...) to the same.

    Example:
        >>> norm = nn.BatchNorm2d(1, eps=0.0).eval()
        >>> norm.running_mean.fill_(1.0), norm.running_var.fill_(4.0)
        (tensor([1.]), tensor([4.]))
        >>> affine = ChannelAffine(norm)
        >>> affine.mul, affine.add
        (tensor([0.5000]), tensor([-0.5000]))
    """

    mul: Tensor
    add: Tensor

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        assert norm.running_mean is not None and norm.running_var is not None
        with torch.no_grad():
            mean, mul = norm.running_mean.float(), torch.rsqrt(norm.running_var.float() + norm.eps)
            bias = torch.zeros_like(mul)
            if norm.affine:
                mul, bias = norm.weight.float() * mul, norm.bias.float()
            self.register_buffer('mul', mul)
            # The product of two float32 is exact in float64, so this rounds as a fused multiply-add does.
            self.register_buffer('add', (bias.double() - mean.double() * mul.double()).float())

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift x of shape (N, C, ...)."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        return x * self.mul.view(shape) + self.add.view(shape)
