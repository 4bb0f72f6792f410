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
from .channel import per_channel
from .sign import keep_bits, restore_bits


class Geometry(NamedTuple):
    """Stride, padding, dilation (each height and width) and groups of a convolution; all empty for a linear layer."""

    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1


LINEAR = Geometry()


def multiply(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """Convolve, or multiply if there is no stride."""
    return functional.conv2d(x, weight, None, *geometry) if geometry.stride else functional.linear(x, weight)


def smallest_type(largest: float, other: torch.dtype) -> torch.dtype:
    """Return the smallest integer type for numbers of up to this magnitude; ``other`` if none is smaller."""
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
    """Convolve signs with signs, or multiply them if there is no stride; see :func:`sign_product`.

    Where there are no kernels PyTorch sums in the type ``compute``, to which sums are rounded.
    """
    geometry = Geometry(tuple(stride), tuple(padding), tuple(dilation), groups)
    sums = native.sign_sums(x, codes, *geometry) if stride else native.linear_sign_sums(x, codes)
    if sums is None:
        with native.disable_autocast(x):
            sums = multiply(x.to(compute), codes.to(compute), geometry)
        if x.device.type != 'cpu':
            # A GPU's library may choose Winograd's algorithm, whose sums of integers are not quite integers.
            sums = sums.round_()
    return sums.to(compute).to(kept)


sign_sums = torch.library.custom_op('rebnn::sign_sums', sum_signs, mutates_args=())


@sign_sums.register_fake
def _(x: Tensor, codes: Tensor, *others: Any) -> Tensor:
    *geometry, compute, kept = others
    return multiply(x.to(compute), codes.to(compute), Geometry(*geometry)).to(kept)


@register_flop_formula(torch.ops.rebnn.sign_sums)
def _(x_shape: Any, codes_shape: Any, stride: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    if stride:
        return conv_flop_count(x_shape, codes_shape, out_shape)
    return 2 * math.prod(x_shape) * codes_shape[0]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor | None,
        codes: Tensor,
        factor: Tensor | None,
        geometry: Geometry,
        compute: torch.dtype,
        kept: torch.dtype,
    ) -> Tensor:
        return compute_scaled_sums(x, codes, factor, geometry, compute, kept)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, codes, factor, ctx.geometry, ctx.compute, _ = inputs
        x_bits, ctx.x_layout = keep_bits(x)
        code_bits, ctx.codes_layout = keep_bits(codes)
        ctx.save_for_backward(x_bits, code_bits, factor)
        ctx.types = x.dtype, codes.dtype

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_bits, code_bits, factor = ctx.saved_tensors
        x_type, codes_type = ctx.types
        grad = grad.to(ctx.compute)
        grad_x = grad_weight = None
        wants_x, wants_codes = ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:4])
        weight = codes = restore_bits(code_bits, ctx.codes_layout, grad.dtype)
        if wants_x and factor is not None:
            weight = codes * per_channel(factor.to(grad.dtype), codes)
        x = restore_bits(x_bits, ctx.x_layout, grad.dtype)
        if not ctx.geometry.stride:
            if wants_x:
                grad_x = grad @ weight
            if wants_codes:
                grad_weight = grad.reshape(-1, grad.shape[-1]).t() @ x.reshape(-1, x.shape[-1])
        else:
            batched = [t if t.dim() == 4 else t[None] for t in (grad, x)]
            stride, padding, dilation, groups = ctx.geometry
            wanted = [wants_x, wants_codes, False]
            grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
                *batched, weight, None, stride, padding, dilation, False, [0, 0], groups, wanted
            )
            if grad_x is not None and grad.dim() == 3:
                grad_x = grad_x[0]
        grad_x = None if grad_x is None else grad_x.to(x_type)
        grad_weight = None if grad_weight is None else grad_weight.to(codes_type)
        return grad_x, *_share_out(ctx.needs_input_grad[1:4], grad_weight, codes.to(codes_type), factor), *[None] * 3


def _share_out(
    wanted: Sequence[bool], grad: Tensor | None, codes: Tensor, factor: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the weight, of its signs and of its factor, which its own gives."""
    if grad is None or factor is None:
        return grad if wanted[0] else None, grad if wanted[1] else None, None
    if all(wanted[1:]):
        found = native.scaled_sign_gradient(grad, codes, factor)
        if found is not None:
            return None, *found
    grad_codes = grad * per_channel(factor, grad) if wanted[1] else None
    grad_factor = torch.einsum('cj,cj->c', grad.flatten(1), codes.flatten(1)) if wanted[2] else None
    return grad if wanted[0] else None, grad_codes, grad_factor


def compute_scaled_sums(
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
    weight: Tensor | None,
    codes: Tensor,
    factor: Tensor | None,
    geometry: Geometry = LINEAR,
    compute: torch.dtype | None = None,
    kept: torch.dtype | None = None,
) -> Tensor:
    r"""Multiply signs by binarized weights, with exact sums, and keep one bit of each for the backward pass.

    .. math::
        y = \alpha \, (b \otimes x), \qquad
        \frac{\partial L}{\partial x} = (\alpha b) \otimes^T \frac{\partial L}{\partial y}, \quad
        G = \frac{\partial L}{\partial \hat w} = \frac{\partial L}{\partial y} \otimes x, \quad
        \frac{\partial L}{\partial b} = \alpha G, \quad
        \frac{\partial L}{\partial \alpha_i} = \sum_j G_{ij} b_{ij}

    ``weight`` is :math:`\hat w = \alpha b` where that receives the gradient G; None where the signs ``codes`` and
    their ``factor`` (C_out,) receive theirs. The result is of type ``compute``; sums leave the operator in ``kept``.
    """
    compute = x.dtype if compute is None else compute
    return _Product.apply(x, weight, codes, factor, geometry, compute, kept or compute)
