"""Keeps the sums of binary layers for the backward pass, as integers, and computes what is around them again.

What stands between two sums (signs, norms, additions, activations) is cheap to compute and dear to keep: as float32,
16 bytes for each output of a convolution. Its sums are integers and fit in two.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

Part = Callable[[Tensor], Tensor]
Product = tuple[Tensor, Tensor | None]
"""Integer sums, as floating point, and the factor of each channel, if there is one."""
Kept = tuple[Tensor, Tensor | None, torch.dtype]
"""The same, with the sums as the smallest integers, and the type that they had."""


class Tape:
    """What the binary layers of one pass give, in the order of their calls.

    Args:
        keep: what the backward pass finds of a layer's output, see :func:`compute`.
        kept: what is kept of the first pass; None during it.
        like: in place of sums of which nothing is kept, zeros of this tensor's shape and type.
    """

    def __init__(self, keep: str = 'sums', kept: Sequence[Kept] | None = None, like: Tensor | None = None) -> None:
        self.keep = keep
        self.replaying = kept is not None
        self.kept = list(kept or ())
        self.like = like

    def product(self, compute: Callable[[], Product], largest: float) -> Product:
        """What ``compute`` returns, or has returned in the first pass.

        Args:
            compute: gives sums, integers of at most ``largest`` in magnitude, as floating point, any numbers if that
                is infinite; and a factor.
            largest: decides in how many bytes sums are kept.
        """
        if self.replaying and self.like is not None:
            return self.like.new_zeros(()).expand(self.like.shape), None
        if self.replaying and self.keep == 'sums':
            sums, factor, dtype = self.kept.pop(0)
            return sums.to(dtype), factor
        sums, factor = compute()
        if largest < math.inf and sums.device.type != 'cpu':
            # A GPU's library may choose Winograd's algorithm, whose sums of integers are not quite integers.
            sums = sums.round_()
        if self.keep == 'sums' and not self.replaying:
            self.kept.append((sums.to(smallest_type(largest, sums.dtype)), factor, sums.dtype))
        return sums, factor


def smallest_type(largest: float, other: torch.dtype) -> torch.dtype:
    """The integers that hold numbers of up to this magnitude; ``other`` if none is smaller.

    Example:
        >>> smallest_type(576, torch.float32), smallest_type(float('inf'), torch.float32)
        (torch.int16, torch.float32)
    """
    for dtype in (torch.int8, torch.int16):
        if largest <= torch.iinfo(dtype).max and dtype.itemsize < other.itemsize:
            return dtype
    return other


class _Current(threading.local):
    tape: Tape | None = None


_current = _Current()


def current_tape() -> Tape | None:
    """The tape of the pass that this thread is in, if any."""
    return _current.tape


@contextmanager
def _with(tape: Tape) -> Iterator[None]:
    before, _current.tape = _current.tape, tape
    try:
        yield
    finally:
        _current.tape = before


@contextmanager
def statistics_kept(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Let norms normalise a batch without following it a second time."""
    following = [norm for norm in norms if norm.training and norm.track_running_stats]
    for norm in following:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in following:
            norm.track_running_stats = True


def _autocast(x: Tensor) -> Callable[[], AbstractContextManager[Any]]:
    """What enters the autocast that is at work now, later."""
    device = x.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    # Without the cache, which would keep casts of weights that gradients are not wanted for.
    return lambda: torch.autocast(device, dtype, enabled, cache_enabled=False)


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, part: Part, norms: Sequence[_BatchNorm], keep: str, x: Tensor, *parameters: Tensor
    ) -> Tensor:
        tape = Tape(keep)
        with _with(tape):
            y = part(x)
        ctx.save_for_backward(x, *parameters, *(tensor for sums, factor, _ in tape.kept for tensor in (sums, factor)))
        ctx.dtypes = [dtype for *_, dtype in tape.kept]
        # Saved as well, so that PyTorch notices a change between the passes.
        ctx.part, ctx.norms, ctx.keep, ctx.parameters = part, norms, keep, parameters
        ctx.autocast = _autocast(x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        parameters = ctx.parameters
        tensors = saved[len(parameters) :]
        kept = list(zip(tensors[::2], tensors[1::2], ctx.dtypes, strict=True))
        x = x.detach().requires_grad_(ctx.needs_input_grad[3])
        wanted = [t for t in (x, *parameters) if t.requires_grad]
        tape = Tape(ctx.keep, kept, grad if ctx.keep == 'gradients' else None)
        with torch.enable_grad(), ctx.autocast(), _with(tape), statistics_kept(ctx.norms):
            y = ctx.part(x)
        found = iter(torch.autograd.grad(y, wanted, grad, allow_unused=True))
        return None, None, None, *(next(found) if t.requires_grad else None for t in (x, *parameters))


def compute(part: Part, x: Tensor, owners: Sequence[nn.Module], memory: str = 'sums') -> Tensor:
    r"""Compute :math:`y = part(x)` so that the backward pass finds x and the sums of binary layers, and nothing else.

    The backward pass computes the part again. Values and gradients are those of the part itself, to the last bit;
    running statistics follow the batch once. Where no gradients are wanted, inside another such part, under
    ``torch.compile`` (which decides itself what it keeps), or where a module inside has hooks, which would see values
    without a history, the part is simply called.

    Args:
        part: a function of x and of the owners' parameters, without randomness.
        x: any shape.
        owners: the modules whose parameters and norms the part uses.
        memory: ``'sums'`` keeps sums, as the smallest integers that hold them; ``'recompute'`` computes them again;
            ``'gradients'`` is for a single layer, whose gradients need no sums; ``'plain'`` only calls the part.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> x = torch.ones(3, 2, requires_grad=True)
        >>> compute(lambda x: layer(x).exp() * 0, x, [layer]).sum().backward()
        >>> x.grad.abs().sum(), layer.weight.grad.abs().sum()
        (tensor(0.), tensor(0.))
    """
    if memory == 'plain' or torch.compiler.is_compiling() or not torch.is_grad_enabled() or _current.tape is not None:
        return part(x)
    modules = [module for owner in owners for module in owner.modules()]
    parameters = list(dict.fromkeys(p for owner in owners for p in owner.parameters()))
    if not any(t.requires_grad for t in (x, *parameters)) or any(map(_minds, modules)):
        return part(x)
    norms = [module for module in modules if isinstance(module, _BatchNorm)]
    return _Replayed.apply(part, norms, memory, x, *parameters)


def hooked(module: nn.Module | None) -> bool:
    """Whether somebody looks at what a module is given or gives."""
    return module is not None and bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _minds(module: nn.Module) -> bool:
    """Whether a second pass through the module would be noticed."""
    return hooked(module) or bool(getattr(module, 'followed_maxima', ()))
