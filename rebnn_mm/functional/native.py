"""Sums of products of signs on a CPU, by the kernels of librebnn where they are installed."""

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

LIBRARY = Path(__file__).parents[1] / 'deploy' / 'lib' / 'librebnn.so'
ABI = 2
TYPES = (torch.float32, torch.bfloat16, torch.float16)
VARIABLE = 'REBNN_TRAINING_KERNELS'
"""Environment variable; ``0`` leaves all products to PyTorch."""


class _Description(ctypes.Structure):
    _fields_ = (
        ('in_channels', ctypes.c_int64),
        ('out_channels', ctypes.c_int64),
        ('group', ctypes.c_int64),
        ('kernel', ctypes.c_int64 * 2),
        ('stride', ctypes.c_int64 * 2),
        ('dilation', ctypes.c_int64 * 2),
        ('pad', ctypes.c_int64 * 4),
        ('pad_value', ctypes.c_int32),
    )


class _Run(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ('n', 'h', 'w')),
        *((name, ctypes.c_void_p) for name in ('x', 'shift', 'x_bits')),
        ('layout', ctypes.c_int32),
        *(
            (name, ctypes.c_void_p)
            for name in ('sums', 'scale', 'mul', 'add', 'residual', 'pre', 'slope', 'post', 'y')
        ),
        *((name, ctypes.c_void_p) for name in ('next_shift', 'y_bits', 'clip')),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where there are none of this version or they are switched off."""
    if os.environ.get(VARIABLE) == '0':
        return None
    try:
        found = ctypes.CDLL(str(LIBRARY))
        abi = found.rebnn_abi_version()
    except (OSError, AttributeError):
        return None
    found.rebnn_last_error.restype = ctypes.c_char_p
    found.rebnn_isa.restype = ctypes.c_char_p
    return found if abi == ABI and found.rebnn_isa() is not None else None


def packed_signs(weight: Tensor) -> np.ndarray:
    """Bits of a latent weight, 1 where it is negative, in the order of docs/format.md.

    Args:
        weight: (C_out, C_in, kh, kw) on a CPU.

    Returns:
        uint8, (C_out, kh, kw, ceil(C_in / 8)).

    Example:
        >>> packed_signs(torch.tensor([1.0, -1.0, -1.0]).view(1, 3, 1, 1)).tolist()
        [[[[6]]]]
    """
    negative = (weight < 0).permute(0, 2, 3, 1).contiguous().numpy()
    return np.packbits(negative, axis=-1, bitorder='little')


def sign_sums(
    x: Tensor,
    shift: Tensor | None,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_value: int = 0,
) -> Tensor | None:
    r"""Convolution of two signs, :math:`sign(w) \otimes sign(x + \beta)`, or None if PyTorch has to do it.

    Args:
        x: (N, C_in, H, W), floating point.
        shift: (C_in,), or None.
        weight: (C_out, C_in / groups, kh, kw), what the codes are the signs of.
        stride: height and width.
        padding: height and width, on both sides.
        dilation: height and width.
        groups: of the channels.
        pad_value: what stands around the signs of the input: -1, 0 or +1.

    Returns:
        Integers, (N, C_out, H', W'), of the type that PyTorch would give them.

    Example:
        >>> x, w = torch.tensor([[[[2.0, -3.0]]]]), torch.tensor([[[[-0.1]]]])
        >>> sums = sign_sums(x, None, w, (1, 1), (0, 0), (1, 1), 1)
        >>> sums is None or sums.flatten().tolist() == [-1.0, 1.0]
        True
    """
    kernels = library()
    fits = x.device.type == weight.device.type == 'cpu' and x.dtype in TYPES and x.dim() == 4 and x.numel() > 0
    # The kernels see memory: not what a fake tensor stands for, nor what a trace is to hold.
    seen = {type(x), type(weight)} <= {Tensor, nn.Parameter} and not torch.jit.is_tracing()
    # In float32, as the kernels add it.
    added = shift is None or shift.dtype == torch.float32
    if kernels is None or not (fits and seen and added):
        return None
    dtype = torch.get_autocast_dtype('cpu') if torch.is_autocast_enabled('cpu') else x.dtype
    x = x.detach().float().contiguous()
    shift = None if shift is None else shift.detach().contiguous()
    n, channels, height, width = x.shape
    out_channels, _, *kernel = weight.shape
    desc = _Description(channels, out_channels, groups)
    desc.kernel[:], desc.stride[:], desc.dilation[:] = list(kernel), list(stride), list(dilation)
    desc.pad[:], desc.pad_value = [*padding, *padding], pad_value
    bits = packed_signs(weight.detach())
    conv = ctypes.c_void_p()
    if kernels.rebnn_conv_create(ctypes.byref(desc), ctypes.c_void_p(bits.ctypes.data), bits.size, ctypes.byref(conv)):
        return None  # more products than the kernels sum, or an empty output, of which PyTorch says what is wrong
    try:
        size = [ctypes.c_int64(), ctypes.c_int64()]
        if kernels.rebnn_conv_output_size(conv, *map(ctypes.c_int64, (height, width)), *map(ctypes.byref, size)):
            return None
        y = x.new_empty(n, out_channels, *(side.value for side in size))

        def run(images: range) -> None:
            io = _Run(n=len(images), h=height, w=width, x=x[images.start].data_ptr(), y=y[images.start].data_ptr())
            io.shift = None if shift is None else shift.data_ptr()
            needed = ctypes.c_size_t()
            sizes = map(ctypes.c_int64, (len(images), height, width))
            kernels.rebnn_conv_scratch_size(conv, *sizes, ctypes.c_size_t(1), ctypes.byref(needed))
            scratch = torch.empty(needed.value + 64, dtype=torch.uint8)
            start = ctypes.c_void_p((scratch.data_ptr() + 63) // 64 * 64)
            if kernels.rebnn_conv_run(conv, ctypes.byref(io), start, needed, None):
                raise RuntimeError(kernels.rebnn_last_error().decode())

        each = -(-n // torch.get_num_threads())
        parts = [range(start, min(start + each, n)) for start in range(0, n, each)]
        if len(parts) == 1:
            run(parts[0])
        else:
            list(_threads(len(parts)).map(run, parts))
        return y.to(dtype)
    finally:
        kernels.rebnn_conv_destroy(conv)


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, 'rebnn')
