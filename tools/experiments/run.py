"""Do the runs of one or several lists that have no record yet.

    python tools/experiments/run.py experiments/methods.py --workers 2

A run that was interrupted goes on from its last checkpoint, one that has a record is left out, one that fails is
recorded and does not stop the others. Ctrl-C stops everything; the same command goes on. A list is described in
docs/experiments.md; records go to experiments/records, logs and checkpoints to work_dirs/experiments.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rebnn_mm.experiments.experiment import Experiment, read_experiment
from rebnn_mm.experiments.planned_run import PlannedRun
from rebnn_mm.experiments.run_queue import RunQueue
from rebnn_mm.experiments.run_record import RecordStore
from rebnn_mm.utils.command_line import stop_if

ROOT = Path(__file__).parents[2].resolve()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('lists', type=Path, nargs='+', metavar='LIST', help='files such as experiments/methods.py')
    parser.add_argument('--only', nargs='+', metavar='NAME', help='only runs of these names; for one list')
    parser.add_argument('--seeds', type=int, nargs='+', metavar='SEED', help='only these seeds')
    parser.add_argument('--workers', type=int, default=1, help='runs at a time; default: 1')
    parser.add_argument(
        '--gpus', type=int, default=1, help="GPUs for each run; from 2 on through mmengine's launcher; default: 1"
    )
    parser.add_argument('--records', type=Path, default=ROOT / 'experiments' / 'records', help='folder of the records')
    parser.add_argument(
        '--work-root', type=Path, default=ROOT / 'work_dirs' / 'experiments', help='folder of logs and checkpoints'
    )
    parser.add_argument('--show', action='store_true', help='say what is done and what is to be done, and end')
    return parser.parse_args()


def train_command(config: Path, work_dir: Path, gpus: int = 1) -> list[str]:
    """What trains one run, through this project's own training tool."""
    tool = str(ROOT / 'tools' / 'train.py')
    arguments = [str(config), '--work-dir', str(work_dir), '--resume']
    if gpus == 1:
        return [sys.executable, tool, *arguments]
    launcher = [sys.executable, '-m', 'torch.distributed.run', '--standalone', f'--nproc_per_node={gpus}']
    return [*launcher, tool, *arguments, '--launcher', 'pytorch']


def test_command(config: Path, checkpoint: Path, work_dir: Path) -> list[str]:
    """What scores the weights of one run, through this project's own testing tool."""
    tool = str(ROOT / 'tools' / 'test.py')
    return [sys.executable, tool, str(config), str(checkpoint), '--work-dir', str(work_dir)]


def user_command(name: str, run: PlannedRun) -> str:
    """What makes one run of a list again."""
    return f'python tools/experiments/run.py experiments/{name}.py --only {run.name} --seeds {run.seed}'


def read_lists(args: argparse.Namespace) -> list[Experiment]:
    """The lists, with one sentence instead of a traceback."""
    if args.only and len(args.lists) > 1:
        stop_if('--only names runs of one list. Give one list with it.')
    try:
        return [read_experiment(path) for path in args.lists]
    except (ValueError, FileNotFoundError) as error:
        stop_if(str(error))
        raise


def hold_lock(work_root: Path) -> object:
    """Keep a second queue from training the same runs in the same folders at the same time."""
    work_root.mkdir(parents=True, exist_ok=True)
    lock = (work_root / '.lock').open('w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stop_if(f'another run.py works in {work_root}. Wait for it, stop it, or give another --work-root.')
    return lock


def interrupt(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that runs are stopped in good order."""
    raise KeyboardInterrupt


def duration(seconds: float) -> str:
    """Hours and minutes."""
    minutes = round(seconds / 60)
    return f'{minutes // 60} h {minutes % 60:02} min' if minutes >= 60 else f'{minutes} min'


class Display:
    """A progress bar in epochs on a terminal, and a line per event with the time left everywhere."""

    def __init__(self, console: Console) -> None:
        self.queue: RunQueue | None = None
        self._first: tuple[float, int] | None = None
        self.bar = Progress(
            TextColumn('{task.description}'),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn('epochs'),
            TimeElapsedColumn(),
            TextColumn('{task.fields[left]}'),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self.bar.add_task('', total=None, left='')

    def tick(self) -> None:
        assert self.queue is not None
        done, planned = self.queue.epochs
        self._first = self._first or (time.monotonic(), done)
        self.bar.update(
            self._task,
            description=', '.join(self.queue.active) or 'nothing',
            completed=done,
            total=planned,
            left=self.left(),
        )

    def left(self) -> str:
        """The time left, from the epochs since the start; empty before the first one has ended."""
        if self.queue is None or self._first is None:
            return ''
        begin, before = self._first
        done, planned = self.queue.epochs
        if done <= before:
            return ''
        return f'about {duration((time.monotonic() - begin) / (done - before) * (planned - done))} left'

    def tell(self, line: str) -> None:
        left = self.left()
        self.bar.console.print(f'{time.strftime("%H:%M")} {line}' + (f' ({left})' if left else ''), soft_wrap=True)


def main() -> None:
    args = parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
    runs: list[tuple[str, PlannedRun]] = []
    try:
        for experiment in read_lists(args):
            runs += [(experiment.name, run) for run in experiment.runs(args.seeds, args.only)]
    except ValueError as error:
        stop_if(str(error))
    store = RecordStore(args.records)
    if args.show:
        for name, run in runs:
            record = store.find(run)
            print(f'{name:12} {run.stem:40} {record["status"] if record else "to be done"}')
        return
    console = Console(highlight=False)
    display = Display(console)
    lock = hold_lock(args.work_root)
    try:
        queue = RunQueue(
            runs,
            store,
            ROOT,
            args.work_root.resolve(),
            lambda config, work_dir: train_command(config, work_dir, args.gpus),
            test_command,
            user_command,
            args.workers,
            display.tell,
        )
    except ValueError as error:
        stop_if(str(error))
    display.queue = queue
    display.tell(f'{queue.epochs[1]} epochs to train, {queue.skipped} runs have records')
    try:
        with display.bar:
            report = queue.work(display.tick, pause=2.0)
    except KeyboardInterrupt:
        stop_if('interrupted. The same command goes on.')
    finally:
        del lock
    for stem in report.failed:
        console.print(f'failed: {stem}, see {args.work_root / stem}/run.log', soft_wrap=True)
    console.print(f'{len(report.finished)} finished, {len(report.failed)} failed, {report.skipped} had records')
    sys.exit(1 if report.failed else 0)


if __name__ == '__main__':
    main()
