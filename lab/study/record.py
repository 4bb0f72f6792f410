"""Keep a finished run as one small text file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError

from .plan import PlannedRun

FORMAT = 2

FIELDS: dict[str, type | tuple[type, ...]] = {
    'format': int,
    'id': str,
    'experiment': str,
    'name': str,
    'status': str,
    'error': type(None),
    'config': str,
    'options': dict,
    'budget': dict,
    'hooks': list,
    'seed': int,
    'start': (str, type(None)),
    'score': str,
    'final': (float, int),
    'curves': dict,
    'flips': dict,
    'weights': dict,
    'test': dict,
    'cost': dict,
    'made': dict,
}
"""Entries of a record and their types.

- ``status``: ``'finished'``; ``error``: None. A run that fails leaves no record.
- ``id``: of the run, which its list gives it. Records of before that have a ``key``, too: the hash that named them.
- ``config`` to ``start``: the run's definition as it was then; where it had another run as teacher, the id as
  ``teacher`` is part of it, as ``start`` is that of the run whose weights it began with.
- ``final``: the score named ``score`` at the last validation, in the evaluator's unit.
- ``curves``: ``epoch`` and ``value`` lists by name: scores, mean training loss and the method's scalars by epoch.
- ``flips``: by layer ``weights``, ``steps`` and the four counts of the weight recorder, lists over epochs.
- ``weights``: by layer the histogram of the final latent weights (:mod:`lab.study.collect`).
- ``test``: ``options``, the overrides of the test after training, and all its ``scores`` by name; empty without one.
- ``cost``: of the training; ``wall_s``, ``cpu_s``, and ``parts``, how many times it was started.
- ``made``: ``command``, ``commit``, ``changed`` (whether files differed from the commit), ``date``, ``hardware``,
  ``device`` (those of all parts), ``threads``, ``workers`` and ``versions``; but for devices those of the last part.
"""


def check_record(record: dict[str, Any], source: str) -> dict[str, Any]:
    """The record, if it has every entry of :data:`FIELDS` with its type and nothing else.

    Raises:
        ValueError: it has not; the message names the entry.
    """
    for name, kind in FIELDS.items():
        if name not in record:
            raise RebnnError(f'{source}: {name!r} is missing, so this is not the record of a run. Remove the file.')
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            raise RebnnError(f'{source}: {name!r} has a value of the wrong type. Remove the file and run it again.')
    unknown = sorted(set(record) - set(FIELDS) - {'key', 'teacher'})
    if unknown:
        raise RebnnError(f'{source}: {unknown[0]!r} is unknown. It is from another version of this project.')
    if record['format'] != FORMAT:
        raise RebnnError(f'{source}: format {record["format"]} is unknown; this version reads format {FORMAT}.')
    if record['status'] != 'finished':
        raise RebnnError(f"{source}: status={record['status']!r} is unknown; it is 'finished'. Remove the file.")
    return record


class RecordStore:
    """The folder with the records, one file per run: ``<id>.json``.

    A run is found by its id, so a run that two lists share is done once, and a config can be renamed.

    Args:
        folder: made when the first record is written.

    Example:
        >>> import tempfile
        >>> len(RecordStore(tempfile.mkdtemp()))
        0
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.folder.glob('*.json')):
            yield self.read(path)

    @staticmethod
    def read(path: Path) -> dict[str, Any]:
        """One record, checked.

        Raises:
            ValueError: it is not readable or not complete.
        """
        try:
            record = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise RebnnError(f'{path} is no JSON ({error.msg}). Remove it; its run is made again.') from error
        check_record(record, str(path))
        if record['id'] != path.stem:
            raise RebnnError(f'{path}: id is {record["id"]!r}. Rename the file to {record["id"]}.json.')
        return record

    def find(self, run: PlannedRun) -> dict[str, Any] | None:
        """The record of a run, however it was tested; None if there is none.

        Where another list has made it for another score, that of the run's own list is the one that counts.

        Raises:
            ValueError: it is not readable, was trained otherwise than the list says, or has no such score.
        """
        path = self.folder / f'{run.id}.json'
        if not path.is_file():
            return None
        record = self.read(path)
        if name := run.find_change(record):
            raise RebnnError(f'{path} has other {name!r} than its list. Rename the run, or remove the record.')
        if run.score == record['score']:
            return record
        values = record['curves'].get(run.score, {}).get('value')
        if not values or (record['test'] and run.score not in record['test']['scores']):
            raise RebnnError(f'{path} has no score {run.score!r}, which a list wants of it. Correct score there.')
        return {**record, 'score': run.score, 'final': values[-1]}

    def find_finished(self, run: PlannedRun) -> dict[str, Any] | None:
        """The record of a run that is trained and, if it asks for that, tested; None if something is to be done."""
        record = self.find(run)
        if record is None or run.test is None:
            return record
        # As JSON has it: a record holds lists where a list of runs may have tuples.
        wanted = json.loads(json.dumps(run.test))
        return record if record['test'].get('options') == wanted else None

    def write(self, run: PlannedRun, record: dict[str, Any]) -> Path:
        """Write a record, in place of an earlier one of the same run. The file is whole or not there."""
        path = self.folder / f'{run.id}.json'
        check_record(record, str(path))
        with whole_file(path) as part:
            part.write_text(_lines(record))
        return path


def final_score(record: dict[str, Any]) -> float:
    """The score that counts: that of the test after training, without one that of the last validation.

    Example:
        >>> final_score(dict(score='top1', final=57.4, test={}))
        57.4
        >>> final_score(dict(score='top1', final=57.4, test=dict(options={}, scores=dict(top1=56.9))))
        56.9
    """
    return record['test']['scores'][record['score']] if record['test'] else record['final']


def _lines(record: dict[str, Any]) -> str:
    """JSON with a line per entry, and per layer or curve within an entry: short to read and to compare."""
    parts = []
    for name, value in record.items():
        if isinstance(value, dict) and any(isinstance(inner, dict | list) for inner in value.values()):
            inner = ',\n'.join(f'  {json.dumps(key)}: {json.dumps(entry)}' for key, entry in value.items())
            parts.append(f' {json.dumps(name)}: {{\n{inner}\n }}')
        else:
            parts.append(f' {json.dumps(name)}: {json.dumps(value)}')
    return '{\n' + ',\n'.join(parts) + '\n}\n'
