"""Sessions of what is compared, each with the options under which it is meant to run, and noise to run them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.native import LibraryError
from rebnn_mm.deploy.session import open_session


def timed_session(path: Path, packed: bool, threads: int, trace: str | None = None) -> onnxruntime.InferenceSession:
    """A session of a packed file with our kernels, or of any other ONNX file with all of ONNX Runtime's optimisations.

    Args:
        path: of the file.
        packed: whether it is a packed file.
        threads: how many threads one run may use.
        trace: how the name of the trace begins that the session writes when its profiling ends; None for no trace.

    Raises:
        LibraryError: the library with our kernels is not there.
        ValueError: ONNX Runtime does not take the file.
    """
    try:
        return open_session(str(path), library=packed, threads=threads, exact=packed, in_turns=True, trace=trace)
    except LibraryError:
        raise
    except Exception as error:  # its classes have no common base below Exception
        raise ValueError(f'{path}: ONNX Runtime does not take it ({first_sentence(error)}).') from None


def noise_feeds(session: Any, size: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    """One image of noise, and for a detector its size.

    Args:
        session: of ONNX Runtime; its inputs are asked.
        size: height and width of an image, where the file leaves them free.
        seed: of the noise.

    Raises:
        ValueError: there are other inputs.
    """
    feeds: dict[str, np.ndarray] = {}
    for entry in session.get_inputs():
        if entry.type == 'tensor(float)' and len(entry.shape) == 4:
            wanted = (1, 3, *size)
            fixed = [have if isinstance(have, int) else want for have, want in zip(entry.shape, wanted, strict=True)]
            feeds[entry.name] = np.random.default_rng(seed).normal(size=fixed).astype(np.float32)
        elif entry.type == 'tensor(int64)' and entry.shape == [2]:
            feeds[entry.name] = np.array(size, np.int64)
        else:
            raise ValueError(
                f'the input {entry.name} is a {entry.type} of shape {entry.shape}, neither an image nor the size of '
                'one.'
            )
    return feeds
