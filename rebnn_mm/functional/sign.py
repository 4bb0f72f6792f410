"""Two-valued sign and step, and their straight-through estimators."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .native import holds_values, signs
from .replay import current_tape


def sign(x: Tensor) -> Tensor:
    r"""Sign with two values and no gradient: -1 where x < 0, else +1.

    Zero, negative zero and NaN give +1: in training, in metrics and in exported files alike. (``torch.sign`` has a
    third value, 0, which one bit cannot hold.)

    Args:
        x: any shape, floating point.

    Example:
        >>> sign(torch.tensor([-2., -0., 0., 3., float('nan')]))
        tensor([-1.,  1.,  1.,  1.,  1.])
    """
    if torch.compiler.is_compiling():
        return (x < 0).to(x.dtype).mul_(-2).add_(1)
    found = signs(x)
    if found is not None:
        return found
    # As numbers at once: on a CPU a pass over bytes in between costs as much as the comparison.
    return torch.lt(x, 0, out=torch.empty_like(x, requires_grad=False)).mul_(-2).add_(1)


def _keep_passing(ctx: Any, x: Tensor) -> None:
    """Keep where the gradient passes, in one bit for each value.

    Not where it is asked for at once, in a pass that is done again, nor for a compiler, which keeps what it likes.
    """
    ctx.layout = None
    if not torch.compiler.is_compiling() and current_tape() is None and holds_values(x):
        from . import bits  # looks for Triton

        ctx.layout = bits.layout(x)
        ctx.save_for_backward(bits.pack(x, bits.WITHIN_ONE))
        return
    ctx.save_for_backward(x.abs() <= 1)


def _passing(ctx: Any) -> Tensor:
    (passes,) = ctx.saved_tensors
    if ctx.layout is None:
        return passes
    from . import bits

    return bits.unpack_mask(passes, ctx.layout)


class _SignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if ctx.needs_input_grad[0]:
            _keep_passing(ctx, x)
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * _passing(ctx)


class _SignWithin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, width: float) -> Tensor:
        ctx.save_for_backward(x.abs() <= width)
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (passes,) = ctx.saved_tensors
        return grad_output * passes, None


class _SignIdentity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


class _SignApprox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x.abs().mul_(-2).add_(2).clamp_(min=0)


def sign_ste(x: Tensor) -> Tensor:
    r"""Two-valued sign whose gradient passes where the input is small.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le 1}

    Args:
        x: any shape; NaN gives +1.

    Source: Courbariaux et al. 2016, Eq. 4; sign(0) is +1 by this project's convention.

    Example:
        >>> x = torch.tensor([-2., -0.5, 0., 0.5], requires_grad=True)
        >>> sign_ste(x).sum().backward()
        >>> x.grad
        tensor([0., 1., 1., 1.])
    """
    return _SignSTE.apply(x)


def sign_within(x: Tensor, width: float) -> Tensor:
    r"""Two-valued sign whose gradient passes within a width that need not be one.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le width}

    Args:
        x: any shape; NaN gives +1.
        width: largest magnitude of an input that gets a gradient.

    Source: :func:`sign_ste` with another width, as the released codes of QuickNet, MeliusNet and BNext have it.

    Example:
        >>> x = torch.tensor([-2., -1.25, 0., 0.5], requires_grad=True)
        >>> sign_within(x, 1.25).sum().backward()
        >>> x.grad
        tensor([0., 1., 1., 1.])
    """
    return _SignWithin.apply(x, width)


def sign_identity(x: Tensor) -> Tensor:
    r"""Two-valued sign whose gradient passes everywhere.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b}

    Args:
        x: any shape; NaN gives +1.

    Source: Bengio et al. 2013, the straight-through estimator.

    Example:
        >>> x = torch.tensor([-2., 0., 0.5], requires_grad=True)
        >>> sign_identity(x).sum().backward()
        >>> x.grad
        tensor([1., 1., 1.])
    """
    return _SignIdentity.apply(x)


def sign_approx(x: Tensor) -> Tensor:
    r"""Two-valued sign with the gradient of a piecewise quadratic (ApproxSign).

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, \max(2 - 2|x|, 0)

    Args:
        x: any shape; NaN gives +1.

    Source: Liu et al. 2018 (Bi-Real Net), Eq. 7; used by ReActNet and ReBNN for activations.

    Example:
        >>> x = torch.tensor([-2., -0.5, 0., 0.75], requires_grad=True)
        >>> sign_approx(x).sum().backward()
        >>> x.grad
        tensor([0.0000, 1.0000, 2.0000, 0.5000])
    """
    return _SignApprox.apply(x)


class _StepSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, tie: bool) -> Tensor:
        if ctx.needs_input_grad[0]:
            _keep_passing(ctx, x)
        return (x >= 0 if tie else x > 0).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * _passing(ctx), None


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
