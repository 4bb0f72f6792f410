"""Whether a device computes what a CPU does: layers, steps, compiled blocks, what is kept; for lab/tools/check_gpu.py.

A part is a function of the device that yields what it finds, check by check. The device may be the CPU itself:
autocast, ``channels_last``, memory modes and steps are then still compared with the plain pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from rebnn_mm.quantizers import MissingHookWarning

from .cost import check_encoder_cost
from .detector_ops import check_detector_ops
from .finding import Finding, Findings
from .layers import check_bits, check_compile, check_layers, check_memory_modes
from .steps import check_processes, check_steps, check_sync

PARTS: dict[str, Callable[[str], Findings]] = {
    'layers': check_layers,
    'memory': check_memory_modes,
    'steps': check_steps,
    'sync': check_sync,
    'compile': check_compile,
    'processes': check_processes,
    'encoder': check_encoder_cost,
    'bits': check_bits,
    'ops': check_detector_ops,
}
"""The parts that need no command of their own, by name."""


def run_part(name: str, device: str) -> Findings:
    """Findings of a part; an error ends it with a finding, too.

    Example:
        >>> [finding.state for finding in run_part('sync', 'cpu')]
        ['passed', 'passed', 'passed']
    """
    with warnings.catch_warnings():
        # Layers are tried without the hooks of their methods on purpose.
        warnings.simplefilter('ignore', MissingHookWarning)
        try:
            yield from PARTS[name](device)
        except Exception as error:  # whatever goes wrong on a device is what this looks for
            yield Finding(name, 'failed', f'{type(error).__name__}: {error}'.partition('\n')[0])
