"""One bit for each value of what a backward pass needs of signs and masks.

On a GPU by Triton's kernels, on a CPU by NumPy's, elsewhere by PyTorch's operators; the bits are the same. The kernels
have run in Triton's interpreter only, not on a GPU yet. This file is imported when a layer first packs something.

Bits lie in the order in which the values lie in memory, eight to a byte, the first in the lowest bit.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .native import VARIABLE

INTERPRETED = os.environ.get('TRITON_INTERPRET') == '1'
"""Whether Triton's kernels are run by its interpreter, on tensors of a CPU."""

triton: Any = None
if os.environ.get(VARIABLE) != '0' and (INTERPRETED or torch.cuda.is_available()):
    try:
        import triton  # type: ignore[no-redef]
        import triton.language as tl
    except ImportError:
        triton = None

NEGATIVE, WITHIN_ONE, TRUE = 0, 1, 2
"""Meaning of a bit: the value is below 0, at most 1 in magnitude, or not 0."""

MASKS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder='little').view(bool)
"""The eight flags of a byte."""

SIGNS = np.where(MASKS, np.float32(-1), np.float32(1))
"""-1 for each that is set."""

BLOCK = 1024
"""Values that one program of a kernel packs or unpacks."""

if triton is not None:

    @triton.jit
    def _pack(x, bits, count, WHAT: tl.constexpr, BYTES: tl.constexpr):  # type: ignore[no-untyped-def]
        byte = tl.program_id(0).to(tl.int64) * BYTES + tl.arange(0, BYTES)
        place = tl.arange(0, 8)
        i = byte[:, None] * 8 + place[None, :]
        inside = i < count
        value = tl.load(x + i, mask=inside, other=0).to(tl.float32)
        if WHAT == 0:
            flag = value < 0
        elif WHAT == 1:
            flag = tl.abs(value) <= 1
        else:
            flag = value != 0
        packed = tl.sum((flag & inside).to(tl.int32) << place[None, :], axis=1)
        tl.store(bits + byte, packed.to(tl.uint8), mask=byte < (count + 7) // 8)

    @triton.jit
    def _unpack(bits, y, count, SIGNS: tl.constexpr, VALUES: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0).to(tl.int64) * VALUES + tl.arange(0, VALUES)
        inside = i < count
        bit = (tl.load(bits + i // 8, mask=inside, other=0).to(tl.int32) >> (i % 8)) & 1
        value = 1 - 2 * bit if SIGNS else bit
        tl.store(y + i, value.to(tl.float32).to(y.dtype.element_ty), mask=inside)


def pack(x: Tensor, what: int = NEGATIVE) -> Tensor:
    """One bit per value.

    Args:
        x: any shape; floating point, for :data:`TRUE` also bool. Packed in its own order where it is contiguous or
            laid out with channels last, else in that of a contiguous copy.
        what: :data:`NEGATIVE`, :data:`WITHIN_ONE` or :data:`TRUE`; NaN gives 0, 0 and 1.

    Returns:
        Tensor: uint8, one-dimensional; the bits behind the last value are 0.

    Example:
        >>> pack(torch.tensor([-1.0, 0.0, -2.0])), pack(torch.tensor([-1.0, 0.0, -2.0]), WITHIN_ONE)
        (tensor([5], dtype=torch.uint8), tensor([3], dtype=torch.uint8))
    """
    x = _dense(x.detach())
    # The kernel compares in float32, which holds every value of these types.
    fits = x.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.bool)
    if triton is not None and fits and (INTERPRETED or x.is_cuda):
        bits = x.new_empty((x.numel() + 7) // 8, dtype=torch.uint8)
        flat = x.view(torch.uint8) if x.dtype == torch.bool else x
        grid = (triton.cdiv(bits.numel(), BLOCK // 8),)
        if x.numel():
            with torch.cuda.device_of(bits):
                _pack[grid](flat, bits, x.numel(), what, BLOCK // 8)
        return bits
    values: Any = _in_memory(x)
    if x.device.type == 'cpu' and x.dtype != torch.bfloat16:
        values = values.numpy()  # one pass, as in the kernel
    flags = values < 0 if what == NEGATIVE else abs(values) <= 1 if what == WITHIN_ONE else values != 0
    return _packed(torch.as_tensor(flags))


def unpack_mask(bits: Tensor, like: 'Layout') -> Tensor:
    """The mask that was packed, bool.

    Example:
        >>> mask = torch.tensor([[True, False], [False, True]])
        >>> torch.equal(unpack_mask(pack(mask, TRUE), layout(mask)), mask)
        True
    """
    return _unpacked(bits, like, torch.bool, signs=False)


def unpack_signs(bits: Tensor, like: 'Layout', dtype: torch.dtype = torch.float32) -> Tensor:
    """-1 where a bit is set, else +1.

    Example:
        >>> x = torch.tensor([-3.0, 0.0, 2.0])
        >>> unpack_signs(pack(x), layout(x))
        tensor([-1.,  1.,  1.])
    """
    return _unpacked(bits, like, dtype, signs=True)


Layout = tuple[Sequence[int], Sequence[int]]
"""Size and strides of what was packed."""


def layout(x: Tensor) -> Layout:
    """Size and strides in which :func:`pack` reads a tensor.

    Example:
        >>> layout(torch.zeros(3, 2).t())
        (torch.Size([2, 3]), (3, 1))
    """
    x = _dense(x)
    return x.shape, x.stride()


def _dense(x: Tensor) -> Tensor:
    """The tensor itself if it lies in memory without gaps, contiguous or with channels last; else a copy that does."""
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return x if last else x.contiguous()


def _in_memory(x: Tensor) -> Tensor:
    """The values of a dense tensor as they lie in memory."""
    return x.as_strided((x.numel(),), (1,))


def _packed(flags: Tensor) -> Tensor:
    if flags.device.type == 'cpu':
        return torch.from_numpy(np.packbits(flags.numpy(), bitorder='little'))
    padded = torch.nn.functional.pad(flags.to(torch.uint8), (0, -flags.numel() % 8)).view(-1, 8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=flags.device)).sum(dim=1, dtype=torch.uint8)


def _unpacked(bits: Tensor, like: Layout, dtype: torch.dtype, signs: bool) -> Tensor:
    count = math.prod(like[0])
    if bits.device.type == 'cpu' and not (triton is not None and INTERPRETED):
        table = SIGNS if signs else MASKS
        return torch.from_numpy(table[bits.numpy()].reshape(-1)[:count]).to(dtype).as_strided(*like)
    y = torch.empty_strided(*like, dtype=dtype, device=bits.device)
    if triton is not None and (INTERPRETED or bits.is_cuda):
        target = y.view(torch.uint8) if dtype == torch.bool else y
        if count:
            with torch.cuda.device_of(bits):
                _unpack[(triton.cdiv(count, BLOCK),)](bits, target, count, signs, BLOCK)
        return y
    flat = ((bits[:, None] >> torch.arange(8, dtype=torch.uint8, device=bits.device)) & 1).flatten()[:count]
    _in_memory(y).copy_(flat)
    return y.mul_(-2).add_(1) if signs else y
