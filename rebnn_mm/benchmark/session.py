"""Sessions of what is compared, each with the options under which it is meant to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.loading import REORDERING, session_options
from rebnn_mm.deploy.native import register


def open_session(
    model: Path | bytes, packed: bool, threads: int, trace: str | None = None
) -> onnxruntime.InferenceSession:
    """A session of a packed file with our kernels, or of any other ONNX file with all of ONNX Runtime's optimisations.

    Args:
        model: the file, or its bytes.
        packed: whether it is a packed file.
        threads: how many threads one run may use.
        trace: how the name of the trace begins that the session writes when its profiling ends; None for no trace.

    Raises:
        LibraryError: the library with our kernels is not there.
        ValueError: ONNX Runtime does not take the file.
    """
    options = session_options(threads) if packed else onnxruntime.SessionOptions()
    if packed:
        register(options)
    options.intra_op_num_threads = threads
    # Or the threads of the session whose turn is over would go on waiting actively, on the next one's processor.
    options.add_session_config_entry('session.force_spinning_stop', '1')
    options.log_severity_level = 4
    if trace is not None:
        options.enable_profiling, options.profile_file_prefix = True, trace
    try:
        return onnxruntime.InferenceSession(
            str(model) if isinstance(model, Path) else model,
            options,
            providers=['CPUExecutionProvider'],
            disabled_optimizers=REORDERING if packed else None,
        )
    except Exception as error:  # its classes have no common base below Exception
        name = model if isinstance(model, Path) else 'the graph'
        raise ValueError(f'{name}: ONNX Runtime does not take it ({first_sentence(error)}).') from None


def image_feeds(
    inputs: Mapping[str, tuple[str, list[Any]]], size: tuple[int, int], seed: int
) -> dict[str, np.ndarray]:
    """One image of noise, and for a detector its size.

    Args:
        inputs: type and shape by name, as ONNX Runtime states them.
        size: height and width of an image, where the shape leaves them free.
        seed: of the noise.

    Raises:
        ValueError: there are other inputs.

    Example:
        >>> feeds = image_feeds({'image': ('tensor(float)', ['N', 3, 'H', 32])}, (24, 48), 0)
        >>> feeds['image'].shape
        (1, 3, 24, 32)
    """
    feeds: dict[str, np.ndarray] = {}
    for name, (kind, shape) in inputs.items():
        if kind == 'tensor(float)' and len(shape) == 4:
            wanted = (1, 3, *size)
            fixed = [have if isinstance(have, int) else want for have, want in zip(shape, wanted, strict=True)]
            feeds[name] = np.random.default_rng(seed).normal(size=fixed).astype(np.float32)
        elif kind == 'tensor(int64)' and shape == [2]:
            feeds[name] = np.array(size, np.int64)
        else:
            raise ValueError(f'the input {name} is a {kind} of shape {shape}, neither an image nor the size of one.')
    return feeds


def feeds_of(session: onnxruntime.InferenceSession, size: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    """:func:`image_feeds` for a session."""
    return image_feeds({entry.name: (entry.type, entry.shape) for entry in session.get_inputs()}, size, seed)
