"""Compare the outcome of a training step tensor by tensor, and hold what a check of a device finds."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rebnn_mm.registry import list_classes


class Finding(NamedTuple):
    """Result of one check.

    Attributes:
        check: what was looked at.
        state: ``'passed'``, ``'failed'``, ``'skipped'`` or ``'measured'``.
        detail: why, in a few words.
        numbers: what was measured.
    """

    check: str
    state: str
    detail: str = ''
    numbers: Mapping[str, float] = {}

    @classmethod
    def of(cls, check: str, passed: bool, detail: str = '') -> Finding:
        """Passed or failed."""
        return cls(check, 'passed' if passed else 'failed', detail)


Findings = Iterator[Finding]


Outcome = dict[str, Tensor | None]


def differences(check: str, found: Outcome, expected: Outcome, tolerance: float) -> Finding:
    """Compare tensors by name; a missing, misshapen or non-finite one fails.

    Args:
        check: name of the check.
        found: what the device gives.
        expected: what it should give.
        tolerance: largest difference, of the largest magnitude of the expected tensor; 0 for the same bits.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> differences('a', dict(y=x), dict(y=x + 1e-6), tolerance=1e-5).state
        'passed'
        >>> differences('a', dict(y=x), dict(y=x + 1e-4), tolerance=1e-5).detail
        'y differs by 5.0e-05 of its largest value, more than 1e-05'
    """
    worst, where = 0.0, ''
    for name, wanted in expected.items():
        ours = found.get(name)
        if wanted is None and ours is None:
            continue
        if wanted is None or ours is None or ours.shape != wanted.shape:
            return Finding(check, 'failed', f'{name} is missing or has another shape')
        error = (ours.double() - wanted.double()).abs().amax().item()
        if error != 0:
            error /= max(wanted.double().abs().amax().item(), 1e-30)
        if math.isnan(error) or error > worst:
            worst, where = math.inf if math.isnan(error) else error, name
    if worst <= tolerance:
        return Finding(check, 'passed', f'largest difference {worst:.1e}')
    return Finding(check, 'failed', f'{where} differs by {worst:.1e} of its largest value, more than {tolerance:.0e}')


@contextmanager
def exact() -> Iterator[None]:
    """Products of float32 in float32, not in TF32, and by algorithms that repeat themselves."""
    cudnn = torch.backends.cudnn
    with cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision('highest')
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def outcome(
    module: nn.Module, x: Tensor, device: str, dtype: torch.dtype = torch.float32, channels_last: bool = False
) -> Outcome:
    """Output, gradients and buffers of one training step of a copy of the module, on the CPU.

    Args:
        module: on a CPU.
        x: its input, on a CPU.
        device: where the step is done.
        dtype: of autocast; float32 for none.
        channels_last: whether module and input are laid out so.
    """
    module = copy.deepcopy(module).to(device)
    x = x.detach().to(device, copy=True)
    if channels_last:
        module, x = module.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x.requires_grad_()
    with torch.autocast(torch.device(device).type, dtype, enabled=dtype != torch.float32):
        y = module(x)
    # The same whatever the device, and not the same for all outputs.
    upstream = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).view(y.shape)
    y.backward(upstream.to(y))
    result: Outcome = {'output': y.detach(), 'gradient of the input': x.grad}
    result |= {f'gradient of {name}': parameter.grad for name, parameter in module.named_parameters()}
    result |= dict(module.named_buffers())
    return {name: None if value is None else value.float().cpu() for name, value in result.items()}


def list_own(base: type[Any]) -> list[str]:
    """The names of this package's registered classes of a kind."""
    return [name for name, cls in list_classes(base).items() if cls.__module__.startswith('rebnn_mm.')]
