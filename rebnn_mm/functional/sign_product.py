"""Products of quantized inputs and weights whose values are given: only their gradients are computed."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Geometry(NamedTuple):
    """Stride, padding, dilation (each height and width) and groups of a convolution."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class _ConvGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, value: Tensor, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.geometry
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], False]
        grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, stride, padding, dilation, False, [0, 0], groups, wanted
        )
        return grad_x, grad_weight, None, None


def conv_gradients(x: Tensor, weight: Tensor, value: Tensor, geometry: Geometry) -> Tensor:
    r"""The value, with the gradients of a convolution.

    .. math:: y = value, \qquad \frac{\partial y}{\partial (x, w)} = \frac{\partial (w \otimes x)}{\partial (x, w)}

    Args:
        x: (N, C_in, H, W).
        weight: (C_out, C_in / groups, k, k), of the same type.
        value: the convolution of both, computed elsewhere, with another order of the same sums perhaps.
        geometry: of the convolution.

    Example:
        >>> x, w = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2, requires_grad=True)
        >>> once = Geometry((1, 1), (0, 0), (1, 1), 1)
        >>> conv_gradients(x, w, torch.full((1, 1, 1, 1), 4.0), once).sum().backward()
        >>> w.grad.flatten()
        tensor([1., 1., 1., 1.])
    """
    return _ConvGradients.apply(x, weight, value, geometry)


class _LinearGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        rows = grad.reshape(-1, grad.shape[-1])
        grad_weight = rows.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, None


def linear_gradients(x: Tensor, weight: Tensor, value: Tensor) -> Tensor:
    r"""The value, with the gradients of :math:`x w^T`; as :func:`conv_gradients`.

    Args:
        x: (..., C_in).
        weight: (C_out, C_in), of the same type.
        value: (..., C_out).

    Example:
        >>> x, w = torch.ones(2, 3), torch.ones(1, 3, requires_grad=True)
        >>> linear_gradients(x, w, torch.full((2, 1), 3.0)).sum().backward()
        >>> w.grad
        tensor([[2., 2., 2.]])
    """
    return _LinearGradients.apply(x, weight, value)
