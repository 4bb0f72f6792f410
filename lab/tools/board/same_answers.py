"""Compares what ``rebnn-run --json`` printed on two machines.

python lab/tools/board/same_answers.py HERE.json THERE.json

Classes or objects must be the same in the same order. Scores may differ by 1e-4 and edges of boxes by a twentieth of a
pixel, because ONNX Runtime adds real numbers in another order on another processor. Exit code 1 beyond that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MOST = {'score': 1e-4, 'box': 0.05}

Answer = list[dict[str, Any]]


def differences(here: Answer, there: Answer) -> dict[str, float]:
    """The largest difference of scores, and of boxes if there are any.

    Raises:
        ValueError: they name other classes; the message says where.

    Example:
        >>> differences([{'name': 'cat', 'label': 3, 'score': 0.5}], [{'name': 'cat', 'label': 3, 'score': 0.25}])
        {'score': 0.25}
    """
    if len(here) != len(there):
        raise ValueError(f'{len(here)} answers here, {len(there)} there.')
    largest = {'score': 0.0}
    for place, (one, other) in enumerate(zip(here, there, strict=True)):
        if one['label'] != other['label'] or one['name'] != other['name']:
            raise ValueError(f'answer {place} is {one["name"]} here and {other["name"]} there.')
        largest['score'] = max(largest['score'], abs(one['score'] - other['score']))
        if 'box' in one:
            edges = [abs(a - b) for a, b in zip(one['box'], other['box'], strict=True)]
            largest['box'] = max([largest.get('box', 0.0), *edges])
    return largest


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    here, there = (json.loads(Path(path).read_text(encoding='utf-8')) for path in sys.argv[1:])
    try:
        found = differences(here, there)
    except ValueError as error:
        print(f'differs: {error}')
        return 1
    same = all(found[what] <= MOST[what] for what in found)
    listed = ', '.join(f'{what} by at most {value:.1e}' for what, value in found.items())
    print(f'{"the same" if same else "differs"}: {len(here)} answers, {listed}')
    return 0 if same else 1


if __name__ == '__main__':
    sys.exit(main())
