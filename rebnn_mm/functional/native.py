"""Call the kernels of librebnn for training on a CPU, where they are installed."""

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from rebnn_mm.native_library import load_kernels

TYPES = (torch.float32, torch.bfloat16, torch.float16)
NCHW, NHWC = 0, 1
ROW = 16
"""So many rows of a linear layer's input are one of an image."""
PRODUCTS_PER_THREAD = 1 << 25
"""Less than so many cost less than handing them to another thread."""
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


POINTERS = ('sums', 'scale', 'mul', 'add', 'residual', 'pre', 'slope', 'post', 'y', 'next_shift', 'y_bits', 'clip')


class _Run(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ('n', 'h', 'w')),
        *((name, ctypes.c_void_p) for name in ('x', 'shift', 'x_bits')),
        ('layout', ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in POINTERS),
    )


_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_RUN_TASKS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)


class _Parallel(ctypes.Structure):
    _fields_ = (('run', _RUN_TASKS), ('pool', ctypes.c_void_p), ('threads', ctypes.c_size_t))


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where there are none of this version or they are switched off."""
    return None if os.environ.get(VARIABLE) == '0' else load_kernels()


def is_transformed() -> bool:
    """Whether PyTorch traces, compiles or transforms what runs now, as ``torch.func`` does."""
    if torch.jit.is_tracing() or torch.compiler.is_compiling():
        return True
    return torch._C._are_functorch_transforms_active()


def is_repeated() -> bool:
    """Whether checkpointing runs a forward pass once more, in the backward pass."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def autocast_type(x: Tensor) -> torch.dtype:
    """Return the type that autocast, where it is at work, gives a product of this tensor."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype


def disable_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Switch autocast off on a tensor's device, if it has any (``meta`` has none)."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def holds_values(*tensors: Tensor) -> bool:
    """Whether there are values to read outside PyTorch: not in a fake tensor or a subclass, nor in a trace.

    Nor under a dispatch mode or a transform such as ``vmap``, which see only what PyTorch computes.
    """
    if is_transformed() or torch._C._len_torch_dispatch_stack():
        return False
    return all(type(t) in (Tensor, nn.Parameter) and not t.is_meta for t in tensors)


def readable(*tensors: Tensor) -> bool:
    """Whether the memory of these holds their values, in whatever order of the elements."""
    return holds_values(*tensors) and all(
        t.device.type == 'cpu'
        and t.layout == torch.strided
        and t.numel() > 0
        and not t.is_neg()
        and not t._is_zerotensor()
        and t.data_ptr() % t.element_size() == 0
        for t in tensors
    )


def _has_floats(*tensors: Tensor) -> bool:
    """Whether the kernels can read these as float32, in the order of their elements."""
    return readable(*tensors) and all(t.dtype == torch.float32 and t.is_contiguous() for t in tensors)


def kernels_for(latent: Tensor, *others: Tensor, channels: Sequence[Tensor] = ()) -> ctypes.CDLL | None:
    """The kernels, where they can read a latent weight, others of its shape, and one value for each channel."""
    given = (latent, *others, *channels)
    shapes = [latent.shape] * (1 + len(others)) + [latent.shape[:1]] * len(channels)
    if latent.dim() < 2 or [t.shape for t in given] != shapes or not _has_floats(*given):
        return None
    # The kernels note nothing for gradients.
    return None if torch.is_grad_enabled() and any(t.requires_grad for t in given) else library()


def _in_parts(count: int, run: Callable[[range], None]) -> None:
    """Run for as many parts of a range as PyTorch has threads."""
    each = -(-count // torch.get_num_threads())
    parts = [range(start, min(start + each, count)) for start in range(0, count, each)]
    if len(parts) == 1:
        run(parts[0])
    else:
        list(_threads(len(parts)).map(run, parts))


def _start(tensor: Tensor | None, index: int) -> ctypes.c_void_p | None:
    """Find the address at which a row of a contiguous tensor begins."""
    if tensor is None:
        return None
    return ctypes.c_void_p(tensor.data_ptr() + index * tensor.stride(0) * tensor.element_size())


def over_channels(name: str, latent: Tensor, *arguments: Tensor | int | None) -> None:
    """Call a kernel of the form (channels, weights, latent, ...) for the channels of a latent weight."""

    def run(part: range) -> None:
        sizes = ctypes.c_int64(len(part)), ctypes.c_int64(latent[0].numel())
        rest = (ctypes.c_int32(a) if isinstance(a, int) else _start(a, part.start) for a in arguments)
        getattr(library(), name)(*sizes, _start(latent, part.start), *rest)

    _in_parts(len(latent), run)


def signs(x: Tensor) -> Tensor | None:
    """:func:`rebnn_mm.functional.sign`, or None if PyTorch has to compute it."""
    x = x.detach()
    kernels = library()
    if kernels is None or not _has_floats(x):
        return None
    y = torch.empty_like(x)
    flat, signed = x.view(-1), y.view(-1)

    def run(part: range) -> None:
        kernels.rebnn_signs(_start(flat, part.start), ctypes.c_int64(len(part)), _start(signed, part.start))

    _in_parts(len(flat), run)
    return y


def scaled_sign_gradient(grad: Tensor, codes: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor] | None:
    """Gradients of signs and of their factor, of that of their product; None if PyTorch has to compute them."""
    if kernels_for(codes, grad, channels=[alpha]) is None:
        return None
    grad_codes, grad_alpha = torch.empty_like(codes), torch.empty_like(alpha)
    over_channels('rebnn_scaled_sign_gradient', codes, alpha, grad, 0, grad_codes, grad_alpha)
    return grad_codes, grad_alpha


def pack_signs(weight: Tensor) -> Tensor:
    """Bits of a convolution's weight, (C_out, kh, kw, ceil(C_in / 8)), 1 where it is negative; see docs/format.md."""
    weight = weight.detach().float().contiguous()  # holds the values of all of TYPES
    channels, in_channels, *kernel = weight.shape
    bits = weight.new_empty(channels, *kernel, -(-in_channels // 8), dtype=torch.uint8)
    kernels = library()
    assert kernels is not None

    def run(part: range) -> None:
        sizes = map(ctypes.c_int64, (len(part), in_channels, kernel[0] * kernel[1]))
        kernels.rebnn_pack_weights(_start(weight, part.start), *sizes, _start(bits, part.start))

    _in_parts(channels, run)
    return bits


def _share_out(threads: int) -> _Parallel:
    """Make the function by which kernels share a call out among so many threads of the pool.

    Python interrupts the main thread only, so that nothing keeps the call from waiting until all tasks are done.
    """

    def run(_: object, tasks: int, task: int, arg: int) -> None:
        function, indices = _TASK(task), iter(range(tasks))

        def work() -> None:
            for index in indices:
                function(arg, index)

        helpers = [_threads(threads).submit(work) for _ in range(min(threads, tasks) - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():  # those that have not begun find nothing to do, and may never get a thread
                helper.result()

    return _Parallel(_RUN_TASKS(run), None, threads)


class _Convolution:
    """A convolution of signs in the kernels; a ValueError where these cannot count so many products in a sum."""

    def __init__(
        self,
        weight: Tensor,
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0),
        dilation: Sequence[int] = (1, 1),
        groups: int = 1,
    ) -> None:
        found = library()
        assert found is not None
        self.kernels = found
        self.handle = ctypes.c_void_p()
        self.products = weight[0].numel()
        desc = _Description(weight.shape[1] * groups, len(weight), groups)
        desc.kernel[:], desc.stride[:], desc.dilation[:] = list(weight.shape[2:]), list(stride), list(dilation)
        desc.pad[:] = [*padding, *padding]
        bits = pack_signs(weight)
        size = ctypes.c_size_t(bits.numel())
        if found.rebnn_conv_create(ctypes.byref(desc), _start(bits, 0), size, ctypes.byref(self.handle)):
            raise ValueError(found.rebnn_last_error().decode())

    def __del__(self) -> None:
        # Not when a caller ends: interrupted, it leaves a run behind.
        self.kernels.rebnn_conv_destroy(self.handle)

    def output_size(self, height: int, width: int) -> tuple[int, int] | None:
        """Height and width; None of an empty output."""
        sides = [ctypes.c_int64(), ctypes.c_int64()]
        inputs = map(ctypes.c_int64, (height, width))
        if self.kernels.rebnn_conv_output_size(self.handle, *inputs, *map(ctypes.byref, sides)):
            return None
        return sides[0].value, sides[1].value

    def run(self, sizes: tuple[int, int, int], layout: int, x: Tensor, y: Tensor) -> None:
        """Write the sums of so many images of this height and width."""
        threads = min(torch.get_num_threads(), self.products * y.numel() // PRODUCTS_PER_THREAD)
        if threads > 1:
            _threads(threads).submit(self._run, sizes, layout, x, y, _share_out(threads)).result()
        else:
            self._run(sizes, layout, x, y)

    def _run(
        self, sizes: tuple[int, int, int], layout: int, x: Tensor, y: Tensor, parallel: _Parallel | None = None
    ) -> None:
        io = _Run(**dict(zip('nhw', sizes, strict=True)), layout=layout, x=x.data_ptr(), y=y.data_ptr())
        needed = ctypes.c_size_t()
        threads = ctypes.c_size_t(parallel.threads if parallel else 1)
        images = map(ctypes.c_int64, sizes)
        self._check(self.kernels.rebnn_conv_scratch_size(self.handle, *images, threads, ctypes.byref(needed)))
        scratch = y.new_empty(needed.value + 64, dtype=torch.uint8)
        start = ctypes.c_void_p((scratch.data_ptr() + 63) // 64 * 64)
        shared = parallel and ctypes.byref(parallel)
        self._check(self.kernels.rebnn_conv_run(self.handle, ctypes.byref(io), start, needed, shared))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.kernels.rebnn_last_error().decode())


def _product_type(x: Tensor, weight: Tensor, channels: int, groups: int = 1) -> torch.dtype | None:
    """Find PyTorch's type of the product, with so many channels in x; None if the kernels cannot compute it."""
    if library() is None or x.dtype not in TYPES or weight.dtype not in TYPES or not readable(x, weight):
        return None
    # With other sizes they would read beyond the end; PyTorch says what is wrong.
    if channels != weight.shape[1] * groups:
        return None
    if torch.is_autocast_enabled('cpu'):
        return torch.get_autocast_dtype('cpu')
    return x.dtype if weight.dtype == x.dtype else None


def sign_sums(
    x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Tensor | None:
    r"""Convolution of two signs, :math:`sign(w) \otimes sign(x)`, padded with zeros, or None if PyTorch has to do it.

    Sums have the type that PyTorch would give them.
    """
    if x.dim() != 4 or weight.dim() != 4:
        return None
    dtype = _product_type(x, weight, x.shape[1], groups)
    if dtype is None:
        return None
    x = x.detach().float().contiguous()
    n, _, height, width = x.shape
    try:
        conv = _Convolution(weight, stride, padding, dilation, groups)
    except ValueError:
        return None
    sides = conv.output_size(height, width)
    if sides is None:
        return None  # PyTorch says what is wrong
    y = x.new_empty(n, len(weight), *sides)
    conv.run((n, height, width), NCHW, x, y)
    return y.to(dtype)


def linear_sign_sums(x: Tensor, weight: Tensor) -> Tensor | None:
    r"""Products of two signs, :math:`sign(x) \, sign(w)^T`, or None if PyTorch has to do it."""
    if x.dim() == 0 or weight.dim() != 2:
        return None
    dtype = _product_type(x, weight, x.shape[-1])
    if dtype is None:
        return None
    rows = x.detach().float().reshape(-1, x.shape[-1]).contiguous()
    y = rows.new_empty(len(rows), len(weight))
    try:
        conv = _Convolution(weight[:, :, None, None])
    except ValueError:
        return None
    # As an image, whose rows the kernels share out to threads, and what does not fill one.
    whole = len(rows) // ROW * ROW
    for first, height, width in ((0, whole // ROW, ROW), (whole, 1, len(rows) - whole)):
        if height and width:
            conv.run((1, height, width), NHWC, rows[first:], y[first : first + height * width])
    return y.to(dtype).view(*x.shape[:-1], len(weight))


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, 'rebnn')


if hasattr(os, 'register_at_fork'):
    # A forked process has the pool, and none of its threads.
    os.register_at_fork(after_in_child=_threads.cache_clear)
