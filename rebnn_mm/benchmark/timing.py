"""Sessions to be timed and noise to run them on, the ratio of two networks' times, and where a run's time goes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.native import LibraryError
from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.deploy.session import open_session
from rebnn_mm.errors import RebnnError


def open_timed(path: Path, packed: bool, threads: int, trace: str | None = None) -> onnxruntime.InferenceSession:
    """Open a packed file with our kernels, or any other ONNX file with all of ONNX Runtime's optimisations."""
    try:
        blocked = packed and read_onnx(path.read_bytes()).metadata.get('rebnn.real_layout') == 'blocked'
        return open_session(
            str(path), library=packed, threads=threads, exact=packed, blocked=blocked, in_turns=True, trace=trace
        )
    except LibraryError:
        raise
    except Exception as error:  # its classes have no common base below Exception
        raise RebnnError(f'{path}: ONNX Runtime does not take it ({first_sentence(error)}).') from None


def noise_feeds(session: Any, size: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    """One image of noise, and for a detector its size."""
    feeds: dict[str, np.ndarray] = {}
    for entry in session.get_inputs():
        if entry.type == 'tensor(float)' and len(entry.shape) == 4:
            wanted = (1, 3, *size)
            fixed = [have if isinstance(have, int) else want for have, want in zip(entry.shape, wanted, strict=True)]
            feeds[entry.name] = np.random.default_rng(seed).normal(size=fixed).astype(np.float32)
        elif entry.type == 'tensor(int64)' and entry.shape == [2]:
            feeds[entry.name] = np.array(size, np.int64)
        else:
            raise RebnnError(
                f'the input {entry.name} is a {entry.type} of shape {entry.shape}, neither an image nor the size of '
                'one.'
            )
    return feeds


class Ratio(NamedTuple):
    """How many times as long the first takes."""

    value: float  # ratio of the medians of all runs
    low: float  # the ratio of the medians within a block of runs is lower in one block of ten
    high: float  # it is higher in one block of ten


def ratio_of(slow: Sequence[float], fast: Sequence[float], block: int) -> Ratio:
    """Compare times that were measured in turns, ``block`` runs of each at a time."""
    blocks = [
        statistics.median(slow[start : start + block]) / statistics.median(fast[start : start + block])
        for start in range(0, len(slow), block)
    ]
    low, high = np.percentile(blocks, [10, 90])
    return Ratio(statistics.median(slow) / statistics.median(fast), round(float(low), 3), round(float(high), 3))


OURS = ('Binary', 'PackedBinary', 'Real')
"""How the names of our operators begin; no operator of ONNX or ONNX Runtime begins so."""


class NodeTime(NamedTuple):
    """Median milliseconds of a node in one run."""

    name: str
    kind: str
    ms: float


def is_ours(kind: str) -> bool:
    """Whether an operator of this name is one of docs/format.md."""
    return kind.startswith(OURS)


def node_times(session: Any, feeds: dict[str, np.ndarray], runs: int) -> list[NodeTime]:
    """Run a session that writes a trace, and read how long its nodes take, some microseconds each for the tracing."""
    for _ in range(runs):
        session.run(None, feeds)
    path = Path(session.end_profiling())
    times: dict[tuple[str, str], list[float]] = {}
    for event in json.loads(path.read_text()):
        if event.get('cat') == 'Node' and event['name'].endswith('_kernel_time'):
            # the number tells nodes without a name apart
            name = f'{event["name"].removesuffix("_kernel_time")} {event["args"].get("node_index")}'
            times.setdefault((name, event['args']['op_name']), []).append(event['dur'] / 1e3)
    path.unlink()
    return [
        NodeTime(name.rpartition(' ')[0], kind, statistics.median(values[1:] or values))
        for (name, kind), values in times.items()
    ]


def by_operator(nodes: list[NodeTime]) -> dict[str, float]:
    """Milliseconds of a run by kind of operator, the largest first."""
    spent: dict[str, float] = {}
    for node in nodes:
        spent[node.kind] = spent.get(node.kind, 0) + node.ms
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
