"""The step that decides between attending and not attending."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _StepSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, tie: bool) -> Tensor:
        ctx.save_for_backward(x)
        return (x >= 0 if tie else x > 0).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1), None


def step_ste(x: Tensor, tie: bool = True) -> Tensor:
    r"""Step with the values 0 and 1, whose gradient passes where the input is small.

    .. math::
        b = \begin{cases} 1 & x \ge 0 \\ 0 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le 1}

    Args:
        x: any shape; NaN gives 0.
        tie: whether 0 gives 1. It matters: one in ten products of two random sign vectors of 64 values is 0.

    Source: Qin et al. 2022 (BiBERT), the bool function of Bi-Attention.

    Example:
        >>> x = torch.tensor([-2., -0.5, 0., 0.5], requires_grad=True)
        >>> step_ste(x).tolist(), step_ste(x, tie=False).tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0])
        >>> step_ste(x).sum().backward()
        >>> x.grad
        tensor([0., 1., 1., 1.])
    """
    return _StepSTE.apply(x, tie)
