"""Two-valued sign and step, and their straight-through estimators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .native import holds_values, is_transformed, signs


def sign(x: Tensor) -> Tensor:
    r"""Sign with two values and no gradient: -1 where x < 0, else +1.

    Zero, negative zero and NaN give +1: in training, in metrics and in exported files alike. (``torch.sign`` has a
    third value, 0, which one bit cannot hold.)

    Example:
        >>> sign(torch.tensor([-2., -0., 0., 3., float('nan')]))
        tensor([-1.,  1.,  1.,  1.,  1.])
    """
    if is_transformed():
        # Of x and not of a comparison alone: the compiler of PyTorch 2.11 drops the gradient of a Function whose
        # result has none without it.
        return torch.where(x < 0, x.sign(), 1.0)
    found = signs(x)
    if found is not None:
        return found
    # As numbers at once: on a CPU a pass over bytes in between costs as much as the comparison.
    return torch.rsub(torch.lt(x, 0, out=torch.empty_like(x, requires_grad=False)), 1, alpha=2)


BitsLayout = tuple[Sequence[int], Sequence[int]] | None
"""Size and strides of what was packed; None where it is kept as a mask."""


def keep_bits(x: Tensor, what: int = 0) -> tuple[Tensor, BitsLayout]:
    """Keep one bit of each value for :func:`restore_bits`: whether it is below 0, or what else bits.pack may ask.

    Where there are no values to read, as in a trace, a mask is kept.
    """
    if not holds_values(x):
        return x < 0 if what == 0 else x.abs() <= 1 if what == 1 else x, None
    from . import bits  # looks for Triton

    return bits.pack(x, what)


def restore_bits(kept: Tensor, layout: BitsLayout, dtype: torch.dtype) -> Tensor:
    """Return what :func:`keep_bits` kept: as -1 where a bit is set and else +1, or as a mask."""
    if layout is None:
        return kept if dtype == torch.bool else kept.to(dtype) * -2 + 1
    from . import bits

    return bits.unpack(kept, layout, dtype)


class _StraightThrough(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, value: Tensor) -> Tensor:
        return value.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output, None


def straight_through(x: Tensor, value: Tensor) -> Tensor:
    r"""A value in place of x, with the gradient of the identity.

    .. math:: y = value, \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y}

    ``value``: what it was rounded to, of the same shape; made of ``x.detach()``.

    Source: Bengio et al. 2013, the straight-through estimator.

    Example:
        >>> x = torch.tensor([0.4, 1.6], requires_grad=True)
        >>> straight_through(x, x.detach().round()).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """
    return _StraightThrough.apply(x, value)


class _PassSmall(torch.autograd.Function):
    """Signs or, with a tie, steps; keeps in one bit of each value whether its gradient passes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, width: float, tie: bool | None) -> Tensor:
        return sign(x) if tie is None else (x >= 0 if tie else x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, width, _ = inputs
        kept, ctx.layout = keep_bits(x, 1) if width == 1 else keep_bits(x.abs() <= width, 2)
        ctx.save_for_backward(kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return grad_output * restore_bits(kept, ctx.layout, torch.bool), None, None


class SignFunction(torch.autograd.Function):
    """Base of signs with a gradient: ``backward`` finds the inputs in ``ctx.saved_tensors``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        return sign(args[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)


class _SmoothSign(SignFunction):
    """Sign with the gradient of a tanh of this sharpness, or without one of a piecewise quadratic."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        x, t = ctx.saved_tensors
        if t is None:
            # ELU's gradient is a line up to 0 and constant after it, here -2 (|x| - 1) and 0; so one operator less.
            return torch.ops.aten.elu_backward(grad_output, 1, 0, -2, True, x.abs().sub_(1)), None
        slope = t.clamp(min=1)  # k t, which is 1 until t is
        return (x * t).tanh_().square_().neg_().add_(1).mul_(slope) * grad_output, None


def sign_ste(x: Tensor, width: float = 1) -> Tensor:
    r"""Two-valued sign whose gradient passes where the input is small.

    .. math:: b = sign(x), \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le width}

    ``width``: largest magnitude of an input that gets a gradient.

    Source: Courbariaux et al. 2016, Eq. 4; sign(0) is +1 by this project's convention. Another width is that of the
        released codes of QuickNet, MeliusNet and BNext.

    Example:
        >>> x = torch.tensor([-2., -0.5, 0., 0.5], requires_grad=True)
        >>> sign_ste(x).sum().backward()
        >>> x.grad
        tensor([0., 1., 1., 1.])
    """
    # The default is an int, since torch.compile(dynamic=True) does not take a float of that kind twice.
    return _PassSmall.apply(x, width, None)


def zero_outside_one_(grad: Tensor, weight: Tensor) -> Tensor:
    """Multiply a gradient in place by 1[|w| <= 1], the straight-through mask.

    Example:
        >>> zero_outside_one_(torch.ones(4), torch.tensor([-1.5, -1., 1., 1.5]))
        tensor([0., 1., 1., 0.])
    """
    # One pass instead of two comparisons and a product. Hardtanh's gradient ends at its bounds, so they are the next
    # numbers beyond one. Without a tensor in between, which torch.compile could not follow.
    beyond = 1 + torch.finfo(weight.dtype).eps
    return torch.ops.aten.hardtanh_backward.grad_input(grad, weight, -beyond, beyond, grad_input=grad)


def sign_identity(x: Tensor) -> Tensor:
    r"""Two-valued sign whose gradient passes everywhere.

    .. math:: b = sign(x), \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b}

    Source: Bengio et al. 2013, the straight-through estimator.

    Example:
        >>> x = torch.tensor([-2., 0., 0.5], requires_grad=True)
        >>> sign_identity(x).sum().backward()
        >>> x.grad
        tensor([1., 1., 1.])
    """
    return straight_through(x, sign(x.detach()))


def sign_approx(x: Tensor) -> Tensor:
    r"""Two-valued sign with the gradient of a piecewise quadratic (ApproxSign).

    .. math:: b = sign(x), \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, \max(2 - 2|x|, 0)

    Source: Liu et al. 2018 (Bi-Real Net), Eq. 7; used by ReActNet and ReBNN for activations.

    Example:
        >>> x = torch.tensor([-2., -0.5, 0., 0.75], requires_grad=True)
        >>> sign_approx(x).sum().backward()
        >>> x.grad
        tensor([0.0000, 1.0000, 2.0000, 0.5000])
    """
    return _SmoothSign.apply(x, None)


def sign_tanh(x: Tensor, sharpness: Tensor) -> Tensor:
    r"""Two-valued sign with the gradient of a hyperbolic tangent that sharpens (the error decay estimator, EDE).

    .. math::
        b = sign(x), \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, k t \, (1 - \tanh^2(t x)),
        \quad k = \max(1 / t, 1)

    A small t lets every value move, as the identity does; a large one only those near 0.

    ``sharpness``: t, a positive scalar tensor; :func:`sharpness_at` is its schedule.

    Source: Qin et al. 2020 (IR-Net), error decay estimator.

    Example:
        >>> x = torch.tensor([-1., 0., 0.5], requires_grad=True)
        >>> sign_tanh(x, torch.tensor(2.)).sum().backward()
        >>> x.grad
        tensor([0.1413, 2.0000, 0.8399])
    """
    return _SmoothSign.apply(x, sharpness)


def sharpness_at(done: float, start: float = 1e-2, end: float = 10.0) -> float:
    r"""The schedule of an estimator's sharpness t, even steps on a logarithmic scale, at a share p of training.

    .. math:: \log t = (1 - p) \log t_0 + p \log t_1

    Source: Qin et al. 2020 (IR-Net) and Lin et al. 2020 (RBNN).

    Example:
        >>> [round(sharpness_at(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.01, 0.3162, 10.0]
    """
    return start * (end / start) ** done


def is_pair(value: object) -> bool:
    """Whether an option is two numbers.

    Example:
        >>> is_pair((0, 1.5)), is_pair(0.1), is_pair(('a', 'b'))
        (True, False, False)
    """
    numbers = isinstance(value, tuple | list) and len(value) == 2
    return numbers and all(isinstance(number, int | float) for number in value)  # type: ignore[attr-defined]


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
    return _PassSmall.apply(x, 1.0, tie)
