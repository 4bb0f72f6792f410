"""Products of quantized inputs and weights: sums of integers forward, bits kept for the backward pass.

``rebnn::sign_sums`` computes the sums. It is a registered operator, so that PyTorch's modes, its checkpointing and its
counter of operations see one call with a known shape, whatever computes it: kernels, or a convolution.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.flop_counter import conv_flop_count, register_flop_formula

from . import native
from .sign import keep_bits, restore_signs


class Geometry(NamedTuple):
    """Stride, padding, dilation (each height and width) and groups of a convolution; all empty for a linear layer."""

    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1


LINEAR = Geometry()


def _multiply(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    return functional.conv2d(x, weight, None, *geometry) if geometry.stride else functional.linear(x, weight)


def smallest_type(largest: float, other: torch.dtype) -> torch.dtype:
    """Return the smallest integer type for numbers of up to this magnitude; ``other`` if none is smaller.

    Example:
        >>> smallest_type(576, torch.float32), smallest_type(float('inf'), torch.float32)
        (torch.int16, torch.float32)
    """
    for dtype in (torch.int8, torch.int16):
        if largest <= torch.iinfo(dtype).max and dtype.itemsize < other.itemsize:
            return dtype
    return other


def sum_signs(
    x: Tensor,
    codes: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    compute: torch.dtype,
    kept: torch.dtype,
) -> Tensor:
    """Convolve signs with signs, or multiply them if there is no stride.

    Args:
        x: signs, (N, C_in, H, W), or (..., C_in) without a stride.
        codes: signs, (C_out, C_in / groups, k, k) or (C_out, C_in).
        stride: height and width, empty for a linear layer, as are the next two.
        padding: height and width, with zeros.
        dilation: height and width.
        groups: of the channels.
        compute: type in which PyTorch sums where there are no kernels; sums are rounded to it.
        kept: type of the result.
    """
    geometry = Geometry(tuple(stride), tuple(padding), tuple(dilation), groups)
    sums = _kernel_sums(x, codes, geometry)
    if sums is None:
        with native.without_autocast(x):
            sums = _multiply(x.to(compute), codes.to(compute), geometry)
        if x.device.type != 'cpu':
            # A GPU's library may choose Winograd's algorithm, whose sums of integers are not quite integers.
            sums = sums.round_()
    return sums.to(compute).to(kept)


def _kernel_sums(x: Tensor, codes: Tensor, geometry: Geometry) -> Tensor | None:
    if geometry.stride:
        return native.sign_sums(x, None, codes, *geometry)
    return native.linear_sign_sums(x, None, codes)


sign_sums = torch.library.custom_op('rebnn::sign_sums', sum_signs, mutates_args=())


@sign_sums.register_fake
def _(
    x: Tensor,
    codes: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    compute: torch.dtype,
    kept: torch.dtype,
) -> Tensor:
    geometry = Geometry(tuple(stride), tuple(padding), tuple(dilation), groups)
    return _multiply(x.to(compute), codes.to(compute), geometry).to(kept)


@register_flop_formula(torch.ops.rebnn.sign_sums)
def _(x_shape: Any, codes_shape: Any, stride: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    if stride:
        return conv_flop_count(x_shape, codes_shape, out_shape)
    return 2 * math.prod(x_shape) * codes_shape[0]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor,
        codes: Tensor,
        factor: Tensor | None,
        geometry: Geometry,
        compute: torch.dtype,
        kept: torch.dtype,
    ) -> Tensor:
        return scaled_sums(x, codes, factor, geometry, compute, kept)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, codes, factor, ctx.geometry, ctx.compute, _ = inputs
        x_bits, ctx.x_layout = keep_bits(x)
        code_bits, ctx.codes_layout = keep_bits(codes)
        ctx.save_for_backward(x_bits, code_bits, factor)
        ctx.types = x.dtype, weight.dtype

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_bits, code_bits, factor = ctx.saved_tensors
        x_type, weight_type = ctx.types
        grad = grad.to(ctx.compute)
        grad_x = grad_weight = None
        wants_x, wants_weight = ctx.needs_input_grad[:2]
        weight = restore_signs(code_bits, ctx.codes_layout, grad.dtype)
        if wants_x and factor is not None:
            weight = weight * factor.to(grad.dtype).view(-1, *[1] * (weight.dim() - 1))
        x = restore_signs(x_bits, ctx.x_layout, grad.dtype)
        if not ctx.geometry.stride:
            if wants_x:
                grad_x = grad @ weight
            if wants_weight:
                grad_weight = grad.reshape(-1, grad.shape[-1]).t() @ x.reshape(-1, x.shape[-1])
        else:
            batched = [t if t.dim() == 4 else t[None] for t in (grad, x)]
            stride, padding, dilation, groups = ctx.geometry
            wanted = [wants_x, wants_weight, False]
            grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
                *batched, weight, None, stride, padding, dilation, False, [0, 0], groups, wanted
            )
            if grad_x is not None and grad.dim() == 3:
                grad_x = grad_x[0]
        return (
            None if grad_x is None else grad_x.to(x_type),
            None if grad_weight is None else grad_weight.to(weight_type),
            *[None] * 5,
        )


def scaled_sums(
    x: Tensor, codes: Tensor, factor: Tensor | None, geometry: Geometry, compute: torch.dtype, kept: torch.dtype
) -> Tensor:
    """Return sums of signs times the factor of each output, without gradients; as :func:`sign_product`."""
    stride, padding, dilation, groups = geometry
    sums = torch.ops.rebnn.sign_sums(x, codes, stride, padding, dilation, groups, compute, kept).to(compute)
    if factor is None:
        return sums
    # Under autocast the product is float32, and the output is not to be.
    return (sums * (factor.view(-1, 1, 1) if stride else factor)).to(compute)


def sign_product(
    x: Tensor,
    weight: Tensor,
    codes: Tensor,
    factor: Tensor | None,
    geometry: Geometry = LINEAR,
    compute: torch.dtype | None = None,
    kept: torch.dtype | None = None,
) -> Tensor:
    r"""Multiply signs by binarised weights, with exact sums, and keep one bit of each for the backward pass.

    .. math::
        y = \alpha \, (b \otimes x), \qquad
        \frac{\partial L}{\partial x} = (\alpha b) \otimes^T \frac{\partial L}{\partial y}, \quad
        \frac{\partial L}{\partial \hat w} = \frac{\partial L}{\partial y} \otimes x, \quad \hat w = \alpha b

    Args:
        x: signs, (N, C_in, H, W) or without N; (..., C_in) for a linear layer.
        weight: the binarised weight :math:`\hat w`, which receives the gradient; its values are those of the next two.
        codes: its signs b, of the same shape.
        factor: :math:`\alpha`, (C_out,); None for 1.
        geometry: of the convolution; :data:`LINEAR` for a product.
        compute: type of the result, by default x's.
        kept: type in which the sums leave the operator; by default that of the result.

    Example:
        >>> x, b = torch.ones(2, 3), torch.tensor([[1.0, -1.0, 1.0]])
        >>> w = (b * 0.5).requires_grad_()
        >>> sign_product(x, w, b, torch.tensor([0.5])).sum().backward()
        >>> w.grad
        tensor([[2., 2., 2.]])
    """
    compute = x.dtype if compute is None else compute
    return _Product.apply(x, weight, codes, factor, geometry, compute, kept or compute)
