"""One bit for each value of what a backward pass needs of signs and masks.

On a GPU by Triton's kernels, on a CPU by NumPy's, elsewhere by PyTorch's operators; the bits are the same. The kernels
of this form have run in Triton's interpreter and compile for a GPU, but have not run on one yet. This file is imported
when a layer first packs something.

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


Layout = tuple[Sequence[int], Sequence[int]]
"""Size and strides of what was packed."""


def pack(x: Tensor, what: int = NEGATIVE) -> tuple[Tensor, Layout]:
    """One bit per value, uint8, and the layout in which :func:`unpack` finds them; bits after the last value are 0.

    NaN is not negative, not within one, and true. Values are packed in their own order where they are contiguous or
    have channels last, else in that of a contiguous copy.
    """
    x = x.detach()
    if not (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)):
        x = x.contiguous()
    layout = x.shape, x.stride()
    # The kernel compares in float32, which holds every value of these types.
    fits = x.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.bool)
    if triton is not None and fits and (INTERPRETED or x.is_cuda):
        bits = x.new_empty((x.numel() + 7) // 8, dtype=torch.uint8)
        flat = x.view(torch.uint8) if x.dtype == torch.bool else x
        grid = (triton.cdiv(bits.numel(), BLOCK // 8),)
        if x.numel():
            with torch.cuda.device_of(bits):
                _pack[grid](flat, bits, x.numel(), what, BLOCK // 8)
        return bits, layout
    values: Any = x.as_strided((x.numel(),), (1,))
    if x.device.type == 'cpu' and x.dtype != torch.bfloat16:
        # One pass, as in the kernel. numpy() would pin the size of a weight's storage, which FSDP2 frees.
        values = np.from_dlpack(values)
    flags = values < 0 if what == NEGATIVE else abs(values) <= 1 if what == WITHIN_ONE else values != 0
    return _pack_words(torch.as_tensor(flags)), layout


def _pack_words(flags: Tensor) -> Tensor:
    if flags.device.type == 'cpu':
        return torch.from_numpy(np.packbits(flags.numpy(), bitorder='little'))
    padded = torch.nn.functional.pad(flags.to(torch.uint8), (0, -flags.numel() % 8)).view(-1, 8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=flags.device)).sum(dim=1, dtype=torch.uint8)


def unpack(bits: Tensor, layout: Layout, dtype: torch.dtype = torch.float32) -> Tensor:
    """-1 where a bit is set, else +1; for bool the mask that was packed."""
    count, signs = math.prod(layout[0]), dtype != torch.bool
    if bits.device.type == 'cpu' and not (triton is not None and INTERPRETED):
        table = SIGNS if signs else MASKS
        return torch.from_numpy(table[bits.numpy()].reshape(-1)[:count]).to(dtype).as_strided(*layout)
    y = torch.empty_strided(*layout, dtype=dtype, device=bits.device)
    if triton is not None and (INTERPRETED or bits.is_cuda):
        if count:
            with torch.cuda.device_of(bits):
                target = y if signs else y.view(torch.uint8)
                _unpack[(triton.cdiv(count, BLOCK),)](bits, target, count, signs, BLOCK)
        return y
    flat = ((bits[:, None] >> torch.arange(8, dtype=torch.uint8, device=bits.device)) & 1).flatten()[:count]
    y.as_strided((count,), (1,)).copy_(flat)
    return y.mul_(-2).add_(1) if signs else y
