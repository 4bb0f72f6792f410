"""Train and score rows of the GLUE table, and print it next to the paper's numbers.

    python -m lab.tools.glue_table --dry-run                              # what would run, and what is missing
    python -m lab.tools.glue_table                                        # the paper's nine columns, every row
    python -m lab.tools.glue_table --rows rebnn bibert --tasks sst2 rte
    python -m lab.tools.glue_table --network minilm --tasks sst2          # sized for a CPU
    python -m lab.tools.glue_table --collect                              # only print what is finished

Runs that others start from (the full-precision row is the teacher of the rest) come first, whether asked for or not.
What is finished is not run again, what was interrupted is resumed. Each score is that of tools/test.py with the
checkpoint that was best on the development set, as the papers have it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.config import Config
from rich.console import Console

from lab.study.plan import read_chosen
from lab.tools.glue_results import (
    COLUMNS,
    ROWS,
    best_checkpoint,
    is_trained,
    paper_rows,
    result_table,
    run_name,
    scores_of,
)
from rebnn_mm.datasets import GLUE_TASKS
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.command_line import Overrides
from rebnn_mm.utils.data_files import check_data, leaf_datasets
from rebnn_mm.utils.encoders import OWN_RUN, check_encoders, encoder_names, glue_run

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs/glue'
NETWORKS = ('bert_base', 'minilm')
PAPER_TASKS = tuple(dict.fromkeys(column.task for column in COLUMNS))
SPLITS = ('train', 'val', 'test')


class Options(Overrides):
    """``--cfg-options``, which also keeps its text for the commands."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        super().__call__(parser, namespace, values, option_string)
        namespace.option_texts = [*getattr(namespace, 'option_texts', []), *values]


class Run(NamedTuple):
    """One config to train and score.

    Attributes:
        network: what ``ENCODER`` is set to.
        row: name of the config.
        task: what ``TASK`` is set to.
        cfg: the config's contents, options merged.
        options: what follows ``--cfg-options``.
    """

    network: str
    row: str
    task: str
    cfg: Config
    options: list[str]

    @property
    def name(self) -> str:
        return run_name(self.network, self.row, self.task)

    @property
    def work_dir(self) -> Path:
        return Path(self.cfg.work_dir)

    @property
    def variables(self) -> dict[str, str]:
        return dict(ENCODER=self.network, TASK=self.task)

    def command(self, tool: str, *arguments: object) -> list[str]:
        tail = ['--cfg-options', *self.options] if self.options else []
        paths = [os.path.relpath(ROOT / 'tools' / tool), os.path.relpath(CONFIGS / f'{self.row}.py')]
        return [sys.executable, *paths, *map(str, arguments), *tail]

    def format_command(self, command: Sequence[str]) -> str:
        """The command as one would type it."""
        variables = ' '.join(f'{name}={value}' for name, value in self.variables.items())
        return f'{variables} {shlex.join(["python", *command[1:]])}'

    def train_command(self) -> list[str]:
        return self.command('train.py', '--resume')

    def test_command(self) -> list[str]:
        best = best_checkpoint(self.work_dir) or self.work_dir / 'best_glue_<score>.pth'
        return self.command('test.py', best, '--work-dir', self.work_dir / 'test')

    def is_trained(self) -> bool:
        return is_trained(self.work_dir, self.cfg.train_cfg.max_iters) and best_checkpoint(self.work_dir) is not None

    def is_finished(self) -> bool:
        return self.is_trained() and scores_of(self.work_dir) is not None

    def writes(self, directory: str) -> bool:
        """Whether a missing directory is one that this run will write."""
        match = OWN_RUN.search(directory)
        return match is not None and match[1] == self.name

    def problem(self, planned: Sequence[Run] = ()) -> str | None:
        """One sentence on a missing input that no planned run will write."""
        coming = [name for _, name in encoder_names(self.cfg, SPLITS) if any(run.writes(name) for run in planned)]
        try:
            check_data(self.cfg, SPLITS)
            check_encoders(self.cfg, SPLITS, str(ROOT / 'configs'), coming)
        except RebnnError as error:
            return str(error)
        return None


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', nargs='+', choices=ROWS, default=ROWS, help='methods; default: all')
    parser.add_argument('--tasks', nargs='+', choices=PAPER_TASKS, default=PAPER_TASKS, help='default: all')
    parser.add_argument('--network', choices=NETWORKS, default='bert_base', help='default: bert_base')
    parser.add_argument(
        '--encoder', help="local directory to start from instead of the configs' one, tokenizer included"
    )
    parser.add_argument('--dry-run', action='store_true', help='print commands and missing inputs, run nothing')
    parser.add_argument('--collect', action='store_true', help='print the table of what is finished, run nothing')
    parser.add_argument(
        '--cfg-options', nargs='+', action=Options, default={}, help='for every run, as in tools/train.py'
    )
    parser.set_defaults(option_texts=[])
    return parser.parse_args()


def make_run(network: str, row: str, task: str, args: argparse.Namespace) -> Run:
    """Read a config and apply ``--encoder`` and ``--cfg-options``."""
    cfg = read_chosen(f'ENCODER={network} TASK={task} {row}.py', CONFIGS)
    texts = list(args.option_texts)
    if args.encoder:
        moved = {key: args.encoder for key, name in encoder_names(cfg, SPLITS) if not OWN_RUN.search(name)}
        cfg.merge_from_dict(moved)
        texts = [*(f'{key}={value}' for key, value in moved.items()), *texts]
    cfg.merge_from_dict(args.cfg_options)
    return Run(network, row, task, cfg, texts)


def find_wanted_runs(args: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Network, row and task of what is asked for, task by task."""
    for task in args.tasks:
        if (ROOT / 'configs/_base_/datasets/glue' / args.network / f'{task}.py').is_file():
            yield from ((args.network, row, task) for row in args.rows)
        else:
            print(f'{args.network} has no configs of {task}: left out.')


def plan_runs(wanted: Sequence[tuple[str, str, str]], args: argparse.Namespace) -> list[Run]:
    """The runs in an order in which each finds what it starts from."""
    runs: dict[tuple[str, str, str], Run] = {}

    def plan(key: tuple[str, str, str]) -> None:
        if key in runs:
            return
        run = make_run(*key, args)
        for _, name in encoder_names(run.cfg, SPLITS):
            match = OWN_RUN.search(name)
            other = glue_run(match[1]) if match else None
            if other not in (None, key):
                plan(other)
        runs[key] = run

    for key in wanted:
        plan(key)
    return list(runs.values())


def is_official(run: Run) -> bool:
    """Whether it is scored on the task's own development files."""
    files = [
        dataset.get('ann_file', '')
        for _, dataset in leaf_datasets(run.cfg.test_dataloader.dataset, 'test_dataloader.dataset')
    ]
    return all(os.path.basename(file) in GLUE_TASKS[run.cfg.test_evaluator.task].splits for file in files)


def print_plan(runs: Sequence[Run]) -> None:
    """Print what would run, and then each missing input once."""
    missing: dict[str, tuple[str, list[str]]] = {}
    for run in runs:
        if run.is_finished():
            print(f'{run.name}: finished')
            continue
        problem = run.problem(runs)
        print(f'{run.name}: {"cannot run" if problem else "to run"}')
        for command in [run.test_command()] if run.is_trained() else [run.train_command(), run.test_command()]:
            print(f'  {run.format_command(command)}')
        if problem:
            missing.setdefault(problem.split(' (')[0], (problem, []))[1].append(run.name)
    for problem, names in missing.values():
        print(f'\nmissing for {", ".join(names)}: {problem}')


def execute(runs: Sequence[Run]) -> list[str]:
    """Train and score what is not finished; gives what failed."""
    failed = []
    for run in runs:
        if run.is_finished():
            continue
        problem = run.problem()
        if problem:
            failed.append(f'{run.name}: {problem}')
            continue
        for ready, command in ((run.is_trained, run.train_command), (lambda: False, run.test_command)):
            if ready():
                continue
            print(f'\n=== {run.format_command(command())}', flush=True)
            done = subprocess.run(command(), env={**os.environ, **run.variables, 'PYTHONPATH': str(ROOT)}, check=False)
            if done.returncode:
                failed.append(f'{run.name}: {run.format_command(command())} ended with exit code {done.returncode}')
                break
    return failed


@report_errors
def main() -> None:
    args = parse_args()
    wanted = list(find_wanted_runs(args))
    if not wanted:
        raise RebnnError('none of the rows asked for has a config.')
    runs = plan_runs(wanted, args)
    if args.dry_run:
        print_plan(runs)
        return
    failed = [] if args.collect else execute(runs)
    by_name = {run.name: run for run in runs}
    scores = {}
    for task in args.tasks:
        for row in args.rows:
            run = by_name.get(run_name(args.network, row, task))
            found = scores_of(run.work_dir) if run and run.is_trained() else None
            if found:
                scores[row, task] = found
    table = result_table(
        scores,
        args.rows,
        args.tasks,
        paper_rows(CONFIGS / 'paper.yml'),
        with_paper=args.network == 'bert_base',
        title=f'GLUE development sets, {args.network}, in %',
    )
    Console(width=140).print(table)
    parts = [run.name for run in runs if not is_official(run)]
    if parts:
        print(f"Not GLUE's development sets, but parts or others: {', '.join(parts)}.")
    for line in failed:
        print(f'not done: {line}')
    if failed:
        sys.exit(1)


if __name__ == '__main__':
    main()
