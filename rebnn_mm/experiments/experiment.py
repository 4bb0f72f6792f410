"""An experiment: a declared list of runs, read from a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from .planned_run import PlannedRun

RUN_KEYS = {'name', 'label', 'config', 'options', 'hooks', 'seeds', 'start', 'paper', 'table'}
KEYS = {'title', 'score', 'also', 'seeds', 'options', 'budget', 'hooks', 'test', 'runs', 'paper'}


@dataclass(frozen=True)
class Row:
    """A row of the experiment's table: one setting, trained once per seed.

    Attributes:
        name, label: of the runs.
        runs: one per seed.
        paper: the paper's number beside it, None where it has none.
        table: whether the row is shown; a first stage that others start from need not be.
    """

    name: str
    label: str
    runs: tuple[PlannedRun, ...]
    paper: float | None
    table: bool


@dataclass(frozen=True)
class Experiment:
    """A list of runs that are compared.

    Attributes:
        name: name of its file.
        title: what its table is called.
        score: name of the score that counts, as the evaluator writes it.
        also: scores of the test that the table shows beside it.
        paper: what the paper's column holds; empty where the paper has no such numbers.
        rows: in the order of the file.
    """

    name: str
    title: str
    score: str
    paper: str
    rows: tuple[Row, ...]
    also: tuple[str, ...] = ()

    def runs(self, seeds: Iterable[int] | None = None, names: Iterable[str] | None = None) -> list[PlannedRun]:
        """All runs, those of the first seed first; with ``seeds`` or ``names`` only these.

        Raises:
            ValueError: a name or seed that the list does not have.
        """
        known = [row.name for row in self.rows]
        for name in names or []:
            if name not in known:
                raise ValueError(f'{self.name} has no run {name!r}. It has: {", ".join(known)}.')
        planned = [run for row in self.rows if not names or row.name in set(names) for run in row.runs]
        every = sorted({run.seed for run in planned})
        for seed in seeds or []:
            if seed not in every:
                raise ValueError(f'{self.name} has no seed {seed}. It has: {", ".join(map(str, every))}.')
        wanted = [seed for seed in every if seeds is None or seed in set(seeds)]
        return [run for seed in wanted for run in planned if run.seed == seed]


def read_experiment(path: str | Path) -> Experiment:
    """Read a list of runs.

    A list is a config of mmengine: it may have a ``_base_``. It holds ``title``, ``score``, ``seeds``, ``runs`` and,
    for every run alike, ``options``, ``budget``, ``hooks`` and ``test`` (overrides for a test after training; without
    it the score is that of the last validation); ``also`` names more scores of the test that the table shows;
    ``paper`` says what the paper's column is. A run has a ``name``, a ``label``, a ``config`` and, if it needs them,
    ``options`` and ``hooks`` of its own, ``seeds`` in place of the list's, ``start`` (the name of the run before it
    whose last weights it starts from, of the same seed), ``paper`` (its number) and ``table=False``.

    Args:
        path: a file of this form.

    Raises:
        ValueError: something is missing, unknown or there twice; the message names it.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'no {path}. Name a list of runs, such as experiments/methods.py.')
    content = Config.fromfile(path).to_dict()
    _only(content, KEYS, required=('title', 'score', 'seeds', 'runs'), where=str(path))
    rows: dict[str, Row] = {}
    for entry in content['runs']:
        _only(entry, RUN_KEYS, required=('name', 'label', 'config'), where=f'{path}, run {entry.get("name")!r}')
        name = entry['name']
        if name in rows:
            raise ValueError(f'{path}: two runs are called {name!r}. Rename one.')
        if entry.get('start') is not None and entry['start'] not in rows:
            raise ValueError(f'{path}, run {name!r}: no run {entry["start"]!r} stands before it to start from.')
        rows[name] = Row(
            name=name,
            label=entry['label'],
            runs=tuple(_planned(content, entry, seed, rows) for seed in entry.get('seeds', content['seeds'])),
            paper=entry.get('paper'),
            table=entry.get('table', True),
        )
    also = tuple(content.get('also', ()))
    if also and content.get('test') is None:
        raise ValueError(f"{path}: 'also' names scores of a test, and there is no 'test'. Add test = {{}}.")
    return Experiment(
        path.stem, content['title'], content['score'], content.get('paper', ''), tuple(rows.values()), also
    )


def _planned(content: Mapping[str, Any], entry: Mapping[str, Any], seed: int, rows: Mapping[str, Row]) -> PlannedRun:
    start = None
    if entry.get('start') is not None:
        start = next((run for run in rows[entry['start']].runs if run.seed == seed), None)
        if start is None:
            raise ValueError(
                f'run {entry["name"]!r} starts from {entry["start"]!r}, which has no seed {seed}. Give both the same '
                'seeds.'
            )
    return PlannedRun(
        name=entry['name'],
        label=entry['label'],
        config=entry['config'],
        options={**content.get('options', {}), **entry.get('options', {})},
        budget=dict(content.get('budget', {})),
        hooks=[*content.get('hooks', []), *entry.get('hooks', [])],
        seed=seed,
        score=content['score'],
        start=start,
        test=content.get('test'),
    )


def _only(entry: Mapping[str, Any], known: set[str], required: Iterable[str], where: str) -> None:
    for key in required:
        if key not in entry:
            raise ValueError(f'{where}: {key!r} is missing. Add it.')
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ValueError(f'{where}: {unknown[0]!r} is unknown. Known: {", ".join(sorted(known))}.')
