"""Where the time of a run goes, from the trace that ONNX Runtime writes."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OURS = ('Binary', 'PackedBinary', 'Real')
"""How the names of our operators begin; no operator of ONNX or ONNX Runtime begins so."""


class NodeTime(NamedTuple):
    """Median milliseconds of a node in one run."""

    name: str
    kind: str
    ms: float


def is_ours(kind: str) -> bool:
    """Whether an operator of this name is one of docs/format.md.

    Example:
        >>> is_ours('PackedBinaryBlock'), is_ours('Conv')
        (True, False)
    """
    return kind.startswith(OURS)


def node_times(session: Any, feeds: dict[str, np.ndarray], runs: int) -> list[NodeTime]:
    """Run a session that writes a trace, and read how long its nodes take; in the order in which they run.

    The first run, which allocates, does not count if there are several. Tracing costs some microseconds for each node,
    so that the sum is more than an untraced run.

    Args:
        session: from :func:`rebnn_mm.benchmark.session.timed_session` with ``trace``; its profiling ends.
        feeds: its inputs.
        runs: how many.
    """
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
    """Milliseconds of a run by kind of operator, the largest first.

    Example:
        >>> by_operator([NodeTime('a', 'Add', 1.0), NodeTime('b', 'Conv', 2.5), NodeTime('c', 'Add', 1.0)])
        {'Conv': 2.5, 'Add': 2.0}
    """
    spent: dict[str, float] = {}
    for node in nodes:
        spent[node.kind] = spent.get(node.kind, 0) + node.ms
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
