"""Sessions of ONNX Runtime, for packed files and for what they are compared with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import onnxruntime

from rebnn_mm.native_library import load_kernels

from ..errors import RebnnError
from .native import LibraryError, register

# These fold a factor or a summand into the weights of a convolution. The sums of a binary convolution would no longer
# be whole numbers where its local function runs, and rounding would not follow the order that docs/format.md states.
# The last one moves a mean over all positions before the Transpose at the end of such a function.
CPU = 'CPUExecutionProvider'
REORDERING = [
    *('ConvMulFusion', 'ConvAddFusion', 'ConvBNFusion', 'MatMulBNFusion'),
    *('TransposeOptimizer', 'TransposeOptimizer_CPUExecutionProvider'),
]


def open_session(
    model: bytes | str,
    *,
    library: bool,
    threads: int = 1,
    exact: bool = True,
    blocked: bool = False,
    in_turns: bool = False,
    trace: str | None = None,
    providers: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """A session on the processor, and on what else ``providers`` name for full-precision layers.

    ``library`` runs the operators of the domain ``rebnn`` by our kernels. ``exact`` keeps the order of floating-point
    operations, so that a packed file gives the same bits with and without them; ``blocked`` lets ONNX Runtime lay
    full-precision maps out in blocks all the same, which rounds differently. With ``in_turns`` threads do not wait for
    the next run on their processor. With ``trace`` a file of that prefix is written when profiling ends.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # what goes wrong is raised, so that it need not be written to the terminal as well
    options.log_severity_level = 4
    if exact:
        options.inter_op_num_threads = 1
        if not blocked:
            # The blocked layout of level "all" is left out: which real layers it takes in, and so how they round,
            # depends on who computes the binary ones.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    if trace is not None:
        options.enable_profiling, options.profile_file_prefix = True, trace
    if in_turns:
        options.add_session_config_entry('session.force_spinning_stop', '1')
    if library:
        register(options)
    wanted = [_provider(name) for name in providers]
    session = onnxruntime.InferenceSession(
        model, options, providers=[*wanted, CPU], disabled_optimizers=REORDERING if exact else None, enable_fallback=0
    )
    missing = next((name for name in wanted if name not in session.get_providers()), None)
    if missing is not None:  # ONNX Runtime only logs it
        raise RebnnError(f'ONNX Runtime cannot start its {missing} here; see its page on what that needs installed')
    return session


def _provider(name: str) -> str:
    """The whole name of an execution provider."""
    there = onnxruntime.get_available_providers()
    wanted = name.lower().removesuffix('executionprovider')
    found = next((one for one in there if one.lower().removesuffix('executionprovider') == wanted), None)
    if found is None:
        raise RebnnError(f'this ONNX Runtime has no provider {name!r}, only {", ".join(there)}')
    return found


def library_available() -> bool:
    """Whether the library with our kernels can be loaded."""
    return not library_problem()


def library_problem() -> str:
    """Say why the library with our kernels cannot be loaded, in one sentence; empty if it can."""
    try:
        register(onnxruntime.SessionOptions())
    except LibraryError as error:
        return str(error)
    return ''


def half_products() -> str | None:
    """Return the type of a half-precision stem here: float16, bfloat16 or float32; None without the library."""
    library = load_kernels()
    if library is None:
        return None
    name = library.rebnn_stem_half_type
    name.restype = ctypes.c_char_p
    return str(name().decode())
