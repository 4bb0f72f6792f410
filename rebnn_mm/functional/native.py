"""What the kernels of librebnn do for training on a CPU, where they are installed."""

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

LIBRARY = Path(__file__).parents[1] / 'deploy' / 'lib' / 'librebnn.so'
ABI = 4
TYPES = (torch.float32, torch.bfloat16, torch.float16)
VARIABLE = 'REBNN_TRAINING_KERNELS'
"""Environment variable; ``0`` leaves everything to PyTorch."""


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


def holds_values(*tensors: Tensor) -> bool:
    """Whether there are values to read outside PyTorch: not in a fake tensor or a subclass, nor in a trace.

    Example:
        >>> holds_values(torch.zeros(1)), holds_values(torch.zeros(1, device='meta'))
        (True, False)
    """
    return not torch.jit.is_tracing() and all(type(t) in (Tensor, nn.Parameter) and not t.is_meta for t in tensors)


def _readable(*tensors: Tensor) -> bool:
    return holds_values(*tensors) and all(t.device.type == 'cpu' and t.numel() > 0 for t in tensors)


def _library_for(*tensors: Tensor, flags: Sequence[Tensor] = ()) -> ctypes.CDLL | None:
    """The kernels, where these are float32 tensors, and flags of bool, that they can read as they lie."""
    fits = all(t.dtype == torch.float32 for t in tensors) and all(t.is_contiguous() for t in (*tensors, *flags))
    return library() if fits and _readable(*tensors, *flags) else None


def _in_parts(count: int, run: Callable[[range], None]) -> None:
    """Run for as many parts of a range as PyTorch has threads."""
    each = -(-count // torch.get_num_threads())
    parts = [range(start, min(start + each, count)) for start in range(0, count, each)]
    if len(parts) == 1:
        run(parts[0])
    else:
        list(_threads(len(parts)).map(run, parts))


def _start(tensor: Tensor | None, index: int) -> ctypes.c_void_p | None:
    """Where a row of a contiguous tensor begins."""
    if tensor is None:
        return None
    return ctypes.c_void_p(tensor.data_ptr() + index * tensor.stride(0) * tensor.element_size())


def _over_channels(name: str, latent: Tensor, *arguments: Tensor | int | None) -> None:
    """Call a kernel of the form (channels, weights, latent, ...) for the channels of a latent weight."""

    def run(part: range) -> None:
        sizes = ctypes.c_int64(len(part)), ctypes.c_int64(latent[0].numel())
        rest = (ctypes.c_int32(a) if isinstance(a, int) else _start(a, part.start) for a in arguments)
        getattr(library(), name)(*sizes, _start(latent, part.start), *rest)

    _in_parts(len(latent), run)


def signs(x: Tensor) -> Tensor | None:
    """:func:`rebnn_mm.functional.sign`, or None if PyTorch has to compute it.

    Args:
        x: any shape, floating point.
    """
    x = x.detach()
    kernels = _library_for(x)
    if kernels is None:
        return None
    y = torch.empty_like(x)
    flat, signed = x.view(-1), y.view(-1)
    _in_parts(
        len(flat),
        lambda part: kernels.rebnn_signs(
            _start(flat, part.start), ctypes.c_int64(len(part)), _start(signed, part.start)
        ),
    )
    return y


def scaled_sign_gradient(grad: Tensor, latent: Tensor, alpha: Tensor, mask: bool) -> tuple[Tensor, Tensor] | None:
    """Both gradients of :func:`rebnn_mm.functional.scaled_sign`, or None if PyTorch has to compute them.

    Args:
        grad: of the binarised weight, (C_out, ...).
        latent: latent weight, of the same shape.
        alpha: scaling factor, (C_out,).
        mask: whether the factor 1[|w| <= 1] belongs to the latent weight's.
    """
    if _library_for(grad, latent, alpha) is None:
        return None
    grad_latent, grad_alpha = torch.empty_like(latent), torch.empty_like(alpha)
    _over_channels('rebnn_scaled_sign_gradient', latent, alpha, grad, int(mask), grad_latent, grad_alpha)
    return grad_latent, grad_alpha


def measure_channels(grad: Tensor, latent: Tensor, alpha: Tensor) -> tuple[Tensor, ...] | None:
    """Negative weights; of each channel max |g|, norm of g, sum of |w|, norm of w - alpha sign(w); or None."""
    if _library_for(grad, latent, alpha) is None:
        return None
    negative = torch.empty(latent.shape, dtype=torch.bool)
    measured = [torch.empty_like(alpha) for _ in range(4)]
    _over_channels('rebnn_measure_channels', latent, alpha, grad, negative, *measured)
    return negative, *measured


def add_reconstruction_(grad: Tensor, latent: Tensor, alpha: Tensor, gamma: Tensor, mask: bool) -> bool:
    """Add gamma (w - alpha sign(w)) to a gradient in place, with a mask after its product with 1[|w| <= 1].

    Returns:
        bool: False if PyTorch has to do it.
    """
    if _library_for(grad, latent, alpha, gamma) is None:
        return False
    _over_channels('rebnn_add_reconstruction', latent, alpha, gamma, int(mask), grad)
    return True


def count_flips(
    latent: Tensor, negative: Tensor, changed_before: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Where signs have changed, how many in each channel, and how many of them had changed before; or None."""
    # A model may have been laid out anew since its signs were noted.
    flags = [negative] if changed_before is None else [negative, changed_before]
    if _library_for(latent, flags=flags) is None:
        return None
    changed = torch.empty_like(negative)
    flips, backs = (torch.empty(len(latent), dtype=torch.int32) for _ in range(2))
    _over_channels('rebnn_count_flips', latent, negative, changed_before, changed, flips, backs)
    return changed, flips, backs


def packed_signs(weight: Tensor) -> Tensor:
    """Bits of a weight, 1 where it is negative, in the order of docs/format.md.

    Args:
        weight: (C_out, C_in, kh, kw) on a CPU.

    Returns:
        uint8, (C_out, kh, kw, ceil(C_in / 8)).
    """
    weight = weight.detach().float().contiguous()
    channels, in_channels, *kernel = weight.shape
    bits = torch.empty(channels, *kernel, -(-in_channels // 8), dtype=torch.uint8)
    kernels = library()
    assert kernels is not None

    def run(part: range) -> None:
        sizes = map(ctypes.c_int64, (len(part), in_channels, kernel[0] * kernel[1]))
        kernels.rebnn_pack_weights(_start(weight, part.start), *sizes, _start(bits, part.start))

    _in_parts(channels, run)
    return bits


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
    # The shift in float32, as the kernels add it.
    fits = x.dtype in TYPES and x.dim() == 4 and (shift is None or shift.dtype == torch.float32)
    if kernels is None or not (fits and _readable(x, weight)):
        return None
    dtype = torch.get_autocast_dtype('cpu') if torch.is_autocast_enabled('cpu') else x.dtype
    x = x.detach().float().contiguous()
    shift = None if shift is None else shift.detach().contiguous()
    n, channels, height, width = x.shape
    out_channels, _, *kernel = weight.shape
    desc = _Description(channels, out_channels, groups)
    desc.kernel[:], desc.stride[:], desc.dilation[:] = list(kernel), list(stride), list(dilation)
    desc.pad[:], desc.pad_value = [*padding, *padding], pad_value
    bits = packed_signs(weight)
    conv = ctypes.c_void_p()
    size = ctypes.c_size_t(bits.numel())
    if kernels.rebnn_conv_create(ctypes.byref(desc), _start(bits, 0), size, ctypes.byref(conv)):
        return None  # more products than the kernels sum, or an empty output, of which PyTorch says what is wrong
    try:
        sides = [ctypes.c_int64(), ctypes.c_int64()]
        if kernels.rebnn_conv_output_size(conv, *map(ctypes.c_int64, (height, width)), *map(ctypes.byref, sides)):
            return None
        y = x.new_empty(n, out_channels, *(side.value for side in sides))

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

        _in_parts(n, run)
        return y.to(dtype)
    finally:
        kernels.rebnn_conv_destroy(conv)


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, 'rebnn')
