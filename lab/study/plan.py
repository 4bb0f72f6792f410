"""Plan what to run: a list of settings with their seeds, read from a file, and the config that each run trains."""

import copy
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config

from rebnn_mm.errors import RebnnError

HOOKS_MODULE = 'lab.study.hooks'
"""Registers the hooks that only lists of runs name."""


@dataclass(frozen=True)
class PlannedRun:
    """A config with overrides, a seed and a budget.

    Attributes:
        id: of its record and its work dir, ``<list>.<name>.seed<seed>``; two lists that share a run name the same one.
        name: short name.
        label: what tables call it.
        config: config file, relative to the root of the project, after the variables that it reads, as in a shell:
            ``METHOD=bnn configs/cifar10/resnet20.py``.
        options: overrides, as ``--cfg-options`` has them.
        budget: overrides that say how long training is and on how much data.
        hooks: hooks added after those of the config; they come last, so they see what the method's hook has done.
        seed: of ``randomness.seed``.
        score: name of the score that counts, as the evaluator writes it.
        start: run whose last weights this one starts from, None for the config's own start.
        teacher: run whose model, with its last weights, is the teacher of this one, None for the config's own teacher.
        test: overrides for the test after training, as ``--cfg-options`` has them; None for no test.

    Example:
        >>> budget = {'train_cfg.max_epochs': 2}
        >>> run = PlannedRun('tiny.bnn.seed0', 'bnn', 'BNN', 'bnn.py', {}, budget, [], 0, 'accuracy/top1')
        >>> run.find_change({**run.definition, 'budget': {}})
        'budget'
        >>> run.find_change({**run.definition, 'config': 'renamed.py'})
    """

    id: str
    name: str
    label: str
    config: str
    options: dict[str, Any]
    budget: dict[str, Any]
    hooks: list[dict[str, Any]]
    seed: int
    score: str
    start: 'PlannedRun | None' = field(default=None)
    teacher: 'PlannedRun | None' = field(default=None)
    test: dict[str, Any] | None = field(default=None)

    @property
    def definition(self) -> dict[str, Any]:
        """Collect all that decides what the run computes, apart from the code. Names and labels are not part of it."""
        taught = {} if self.teacher is None else dict(teacher=self.teacher.id)
        return dict(
            config=self.config,
            options=self.options,
            budget=self.budget,
            hooks=self.hooks,
            seed=self.seed,
            start=self.start.id if self.start else None,
            **taught,
        )

    def find_change(self, found: Mapping[str, Any]) -> str | None:
        """Name the first entry in which a definition differs from this run's, None if none does.

        The names of config and hooks do not count: they may change with the code while the run stays the same.

        Args:
            found: definition of a record or of a training that has begun.
        """
        ours, theirs = (json.loads(json.dumps(dict(definition))) for definition in (self.definition, found))
        for definition in (ours, theirs):
            definition['hooks'] = [{**hook, 'type': None} for hook in definition['hooks']]
        compared = [name for name in (*ours, 'teacher') if name != 'config']
        return next((name for name in compared if ours.get(name) != theirs.get(name)), None)

    @property
    def needed(self) -> list['PlannedRun']:
        """The runs whose weights this one takes."""
        return [run for run in (self.start, self.teacher) if run is not None]

    @property
    def epochs(self) -> int | None:
        """Length of training, where the budget says so."""
        return self.budget.get('train_cfg.max_epochs')

    def build_config(self, root: Path, start: Path | None = None, teacher: Path | None = None) -> Config:
        """The config with everything applied.

        Args:
            root: root of the project.
            start: checkpoint of the run it starts from; without it from random weights, whatever the config says.
            teacher: checkpoint of the run that is its teacher.

        Raises:
            ValueError: the config lacks an entry that an override goes into.
        """
        cfg = read_chosen(self.config, root)
        self._merge(cfg, {**self.options, **self.budget})
        cfg.merge_from_dict({'randomness.seed': self.seed})
        cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), *copy.deepcopy(self.hooks)]
        imports = cfg.get('custom_imports') or dict(imports=[], allow_failed_imports=False)
        cfg.custom_imports = dict(imports, imports=[*imports['imports'], HOOKS_MODULE])
        if self.teacher is not None:
            cfg.model.teacher = self.teacher.build_config(root).model
        if teacher is not None:
            cfg.model.teacher_checkpoint = str(teacher)
        # A second stage's config names the first one's weights; a list says so by ``start``, or gives its own.
        cfg.load_from = self.options.get('load_from') if start is None else str(start)
        return cfg

    def build_test_config(self, root: Path) -> Config:
        """The config with which the trained weights are scored.

        Raises:
            ValueError: the config lacks an entry that an override goes into.
        """
        cfg = self.build_config(root)
        self._merge(cfg, self.test or {})
        return cfg

    def _merge(self, cfg: Config, overrides: dict[str, Any]) -> None:
        content = cfg.to_dict()
        for key in overrides:
            parent: Any = content
            *path, _ = key.split('.')
            for part in path:
                if isinstance(parent, list):
                    parent = dict(enumerate(parent)).get(int(part)) if part.isdigit() else None
                else:
                    parent = parent.get(part) if isinstance(parent, dict) else None
                if parent is None:
                    raise RebnnError(
                        f'run {self.name!r}: {self.config} has no entry {".".join(path)!r}, so {key!r} would change '
                        'nothing. Correct the key in options, budget or test.'
                    )
        # A copy, because merging takes `_delete_` out of what it merges, and the key must not change.
        cfg.merge_from_dict(copy.deepcopy(overrides))


def read_chosen(config: str, root: Path) -> Config:
    """Read a config with the variables of the environment that stand before it, as in a shell.

    Example:
        >>> from rebnn_mm.utils.config_file import get_config_dir
        >>> read_chosen('ENCODER=minilm TASK=rte glue/rebnn.py', get_config_dir()).work_dir
        'work_dirs/minilm_rebnn_rte'
    """
    *given, file = config.split()
    variables = dict(each.split('=') for each in given)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return Config.fromfile(root / file)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def user_command(experiment: str, run: PlannedRun) -> str:
    """Write the command that makes one run of a list again."""
    return f'snakemake -s lab/Snakefile --cores 1 {experiment} --config only={run.name} seeds={run.seed}'


RUN_KEYS = {
    'id', 'name', 'label', 'config', 'options', 'budget', 'hooks', 'seeds', 'start', 'teacher', 'paper', 'table',
}  # fmt: skip
KINDS: dict[str, tuple[type, ...]] = dict(runs=(list, tuple), hooks=(list, tuple), options=(dict,), budget=(dict,))
KEYS = {'title', 'score', 'also', 'seeds', 'options', 'budget', 'hooks', 'test', 'runs', 'paper'}


@dataclass(frozen=True)
class Row:
    """A row of the experiment's table: one setting, trained once per seed.

    Attributes:
        name, label: of the runs.
        runs: one per seed.
        paper: the paper's number next to it, None where it has none.
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
        also: scores of the test that the table shows next to it.
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
                raise RebnnError(f'{self.name} has no run {name!r}. It has: {", ".join(known)}.')
        planned = [run for row in self.rows if not names or row.name in set(names) for run in row.runs]
        every = sorted({run.seed for run in planned})
        for seed in seeds or []:
            if seed not in every:
                raise RebnnError(f'{self.name} has no seed {seed}. It has: {", ".join(map(str, every))}.')
        wanted = [seed for seed in every if seeds is None or seed in set(seeds)]
        return [run for seed in wanted for run in planned if run.seed == seed]

    def run(self, id: str) -> PlannedRun:
        """The run of this id.

        Raises:
            ValueError: the list has no such run.
        """
        found = next((run for row in self.rows for run in row.runs if run.id == id), None)
        if found is None:
            raise RebnnError(f'{self.name} has no run {id!r} any more: the list was changed.')
        return found


def read_experiment(path: str | Path) -> Experiment:
    """Read a list of runs.

    A list is a config of mmengine: it may have a ``_base_``. It holds ``title``, ``score``, ``seeds``, ``runs`` and,
    for every run alike, ``options``, ``budget``, ``hooks`` and ``test`` (overrides for a test after training; without
    it the score is that of the last validation); ``also`` names more scores of the test that the table shows;
    ``paper`` says what the paper's column is. A run has a ``name``, a ``label``, a ``config`` and, if it needs them,
    ``options``, ``budget`` and ``hooks`` of its own, ``seeds`` in place of the list's, ``start`` (the name of the run
    before it whose last weights it starts from, of the same seed), ``teacher`` (the run before it that it learns
    from, of the same seed), ``paper`` (its number), ``table=False`` and, if it is a run of another list, that one's
    ``id``, ``'<list>.<name>'``.

    Args:
        path: a file of this form.

    Raises:
        ValueError: something is missing, unknown or there twice; the message names it.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'no {path}. Name a list of runs, such as lab/experiments/methods.py.')
    content = Config.fromfile(path).to_dict()
    _only(content, KEYS, required=('title', 'score', 'seeds', 'runs'), where=str(path))
    rows: dict[str, Row] = {}
    for entry in content['runs']:
        _only(entry, RUN_KEYS, required=('name', 'label', 'config'), where=f'{path}, run {entry.get("name")!r}')
        name = entry['name']
        if name in rows:
            raise RebnnError(f'{path}: two runs are called {name!r}. Rename one.')
        for key, use in (('start', 'start from'), ('teacher', 'learn from')):
            if entry.get(key) is not None and entry[key] not in rows:
                raise RebnnError(f'{path}, run {name!r}: no run {entry[key]!r} stands before it to {use}.')
        rows[name] = Row(
            name=name,
            label=entry['label'],
            runs=tuple(
                _plan(entry.get('id', f'{path.stem}.{name}'), content, entry, seed, rows)
                for seed in entry.get('seeds', content['seeds'])
            ),
            paper=entry.get('paper'),
            table=entry.get('table', True),
        )
    also = tuple(content.get('also', ()))
    if also and content.get('test') is None:
        raise RebnnError(f"{path}: 'also' names scores of a test, and there is no 'test'. Add test = {{}}.")
    return Experiment(
        path.stem, content['title'], content['score'], content.get('paper', ''), tuple(rows.values()), also
    )


def _plan(
    id: str, content: Mapping[str, Any], entry: Mapping[str, Any], seed: int, rows: Mapping[str, Row]
) -> PlannedRun:
    before: dict[str, PlannedRun | None] = dict(start=None, teacher=None)
    for key, use in (('start', 'starts from'), ('teacher', 'learns from')):
        if entry.get(key) is not None:
            before[key] = next((run for run in rows[entry[key]].runs if run.seed == seed), None)
            if before[key] is None:
                raise RebnnError(
                    f'run {entry["name"]!r} {use} {entry[key]!r}, which has no seed {seed}. Give both the same seeds.'
                )
    return PlannedRun(
        id=f'{id}.seed{seed}',
        name=entry['name'],
        label=entry['label'],
        config=entry['config'],
        options={**content.get('options', {}), **entry.get('options', {})},
        budget={**content.get('budget', {}), **entry.get('budget', {})},
        hooks=[*content.get('hooks', []), *entry.get('hooks', [])],
        seed=seed,
        score=content['score'],
        test=content.get('test'),
        **before,
    )


def _only(entry: Mapping[str, Any], known: set[str], required: Iterable[str], where: str) -> None:
    for key in required:
        if key not in entry:
            raise RebnnError(f'{where}: {key!r} is missing. Add it.')
    unknown = sorted(set(entry) - known)
    if unknown:
        raise RebnnError(f'{where}: {unknown[0]!r} is unknown. Known: {", ".join(sorted(known))}.')
    for key, kinds in KINDS.items():
        if key in entry and not isinstance(entry[key], kinds):
            raise RebnnError(f'{where}: {key!r} has to be a {kinds[0].__name__}.')
    seeds = entry.get('seeds', [])
    if (
        not isinstance(seeds, list | tuple)
        or any(type(seed) is not int for seed in seeds)
        or len(set(seeds)) < len(seeds)
    ):
        raise RebnnError(f"{where}: 'seeds' has to be a list of whole numbers, each of them once.")
