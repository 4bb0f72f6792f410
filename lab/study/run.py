"""Does one run of a list: trains it, or scores what was trained and writes its record.

    python -m lab.study.run train lab/experiments/methods.py methods.rebnn.seed0 work_dirs/experiments
    python -m lab.study.run record lab/experiments/methods.py methods.rebnn.seed0 work_dirs/experiments

`lab/Snakefile` calls it, several runs at a time, in the order in which they need each other. Interrupted, the
same command goes on from the last checkpoint.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors

from .collect import collect_results, collect_test, device_name, last_checkpoint, provenance
from .plan import PlannedRun, read_experiment, user_command
from .record import FORMAT, RecordStore

ROOT = Path(__file__).parents[2].resolve()

CONFIG = 'planned.py'
"""In the work dir: the config that is trained, with everything applied."""

COSTS = 'costs.jsonl'
"""In the work dir: a line for each start of the training: its wall and processor time in seconds, and its device.

A part that was killed outright has no time, but is counted.
"""

DEFINITION = 'definition.json'
"""In the work dir: what the training was begun with."""

LOG = 'run.log'
"""In the work dir: all that the run has printed."""

TRAINED = 'trained.json'
"""In the work dir, when training has ended: the record without the test."""


def train(
    experiment: str, run: PlannedRun, work_root: Path, command: Sequence[str], workers: int = 1, root: Path = ROOT
) -> Path:
    """Train a run, or go on with it, and write what its record needs to :data:`TRAINED`.

    Args:
        experiment: name of its list.
        run: what to train.
        work_root: folder of the work dirs, its own and those of the runs that it starts from or that are its teachers.
        command: what trains; the config, ``--work-dir``, a folder and ``--resume`` are added.
        workers: how many runs share the machine, for the record.
        root: root of the project.

    Raises:
        ValueError: the config cannot be built, training fails, or its results are not there; with the reason.
    """
    work_dir = work_root / run.id
    work_dir.mkdir(parents=True, exist_ok=True)
    begun = work_dir / DEFINITION
    if begun.is_file() and (name := run.find_change(json.loads(begun.read_text()))):
        raise RebnnError(f'{work_dir} was begun with other {name!r} than the list has. Remove the folder.')
    with whole_file(begun) as part:
        part.write_text(json.dumps(run.definition))
    start, teacher = (weights(work_root / other.id) if other else None for other in (run.start, run.teacher))
    run.build_config(root, start, teacher).dump(work_dir / CONFIG)
    # As it is now: the clone may have moved on when the run ends.
    origin = provenance(root)
    call([*command, str(work_dir / CONFIG), '--work-dir', str(work_dir), '--resume'], work_dir, root)
    logs = (path.read_text(errors='replace') for path in work_dir.glob('*/*.log'))
    if start is not None and not any(f'Load checkpoint from {start}' in log for log in logs):
        raise RebnnError(f'it did not begin from {start}, so it is not the run that was asked for. Remove {work_dir}.')
    record = dict(
        format=FORMAT,
        id=run.id,
        experiment=experiment,
        name=run.name,
        status='finished',
        error=None,
        **run.definition,
        score=run.score,
        **collect_results(work_dir, run.score),
        test={},
        cost=read_costs(work_dir),
        made=dict(origin, command=user_command(experiment, run), workers=workers, device=read_devices(work_dir)),
    )
    validated = record['curves'][run.score]['epoch'][-1]
    if run.epochs is not None and validated < run.epochs:
        raise RebnnError(
            f'it was validated after {validated} of {run.epochs} epochs. Remove its last checkpoint, and the same '
            'command repeats the epoch.'
        )
    path = work_dir / TRAINED
    with whole_file(path) as part:
        part.write_text(json.dumps(record))
    return path


def record(run: PlannedRun, work_root: Path, store: RecordStore, command: Sequence[str], root: Path = ROOT) -> Path:
    """Score the weights of a trained run, if its list asks for that, and write its record.

    Args:
        run: what was trained.
        work_root: folder of the work dirs.
        store: where the record goes.
        command: what scores; config, checkpoint, ``--work-dir`` and a folder are added.
        root: root of the project.

    Raises:
        ValueError: scoring fails; with the reason.
    """
    work_dir = work_root / run.id
    found = json.loads((work_dir / TRAINED).read_text())
    if run.test is not None:
        test_dir = work_dir / 'test'
        shutil.rmtree(test_dir, ignore_errors=True)
        test_dir.mkdir()
        run.build_test_config(root).dump(test_dir / CONFIG)
        checkpoint = str(weights(work_dir))
        call([*command, str(test_dir / CONFIG), checkpoint, '--work-dir', str(test_dir)], test_dir, root)
        found['test'] = dict(options=run.test, scores=collect_test(test_dir, run.score))
    return store.write(run, found)


def weights(work_dir: Path) -> Path:
    """The last weights of a trained run.

    Raises:
        ValueError: they are gone.
    """
    checkpoint = last_checkpoint(work_dir)
    if checkpoint is None:
        raise RebnnError(f'{work_dir} has no checkpoint any more. Remove the folder, and the run is made again.')
    return checkpoint


def call(command: Sequence[str], work_dir: Path, root: Path) -> None:
    """Run a command to its end, what it prints going to :data:`LOG`, and note what it cost, and on what device.

    Raises:
        ValueError: it failed; the message is the last line that it printed.
    """
    log = work_dir / LOG
    costs = work_dir / COSTS
    earlier = costs.read_text() if costs.is_file() else ''

    def note(wall_s: float, cpu_s: float) -> None:
        cost = dict(wall_s=round(wall_s, 1), cpu_s=round(cpu_s, 1), device=device_name())
        with whole_file(costs) as part:
            part.write_text(f'{earlier}{json.dumps(cost)}\n')

    note(0.0, 0.0)
    cpu_s = 0.0
    begin = time.monotonic()
    with log.open('ab') as file:
        process = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        status, cpu_s = _wait_for(process)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):  # once is enough: what it cost is still to be noted
            signal.signal(number, signal.SIG_IGN)
        process.terminate()
        status, cpu_s = _wait_for(process)
        raise
    finally:
        note(time.monotonic() - begin, cpu_s)
    if status:
        lines = [line.strip() for line in log.read_text(errors='replace').splitlines() if line.strip()]
        raise RebnnError(f'{lines[-1] if lines else "it printed nothing"} (all of it: {log})')


def _wait_for(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Exit status and processor time of a process, that of its data loaders included."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def read_costs(work_dir: Path) -> dict[str, float]:
    """Wall time, processor time and number of starts of a training, all its parts together."""
    lines = _parts(work_dir)
    return dict(
        wall_s=round(sum(line['wall_s'] for line in lines), 1),
        cpu_s=round(sum(line['cpu_s'] for line in lines), 1),
        parts=len(lines),
    )


def read_devices(work_dir: Path) -> str:
    """Read the devices of a training's parts in their order; a part of an older version is a CPU's."""
    return ', then '.join(dict.fromkeys(line.get('device', 'cpu') for line in _parts(work_dir)))


def _parts(work_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work_dir / COSTS).read_text().splitlines()]


def train_command(gpus: int) -> list[str]:
    """Write the command that trains, by this project's own training tool."""
    tool = str(ROOT / 'tools' / 'train.py')
    if gpus == 1:
        return [sys.executable, tool]
    launcher = [sys.executable, '-m', 'torch.distributed.run', '--standalone', f'--nproc_per_node={gpus}']
    return [*launcher, tool, '--launcher', 'pytorch']


def stop_on_signal() -> None:
    """Have the signal by which workflow engines and clusters end a job do what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('step', choices=['train', 'record'])
    parser.add_argument('list', type=Path, help='file such as lab/experiments/methods.py')
    parser.add_argument('id', help='name of its record without .json')
    parser.add_argument('work_root', type=Path, help='folder of logs and checkpoints')
    parser.add_argument(
        '--records', type=Path, default=ROOT / 'lab' / 'experiments' / 'records', help='folder of the records'
    )
    parser.add_argument('--workers', type=int, default=1, help='how many runs share the machine, for the record')
    parser.add_argument('--gpus', type=int, default=1, help="GPUs of a run; from 2 on through PyTorch's launcher")
    args = parser.parse_args()
    stop_on_signal()
    os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
    try:
        experiment = read_experiment(args.list)
        run = experiment.run(args.id)
        if args.step == 'train':
            command = train_command(args.gpus)
            print(train(experiment.name, run, args.work_root.resolve(), command, args.workers))
        else:
            command = [sys.executable, str(ROOT / 'tools' / 'test.py')]
            print(record(run, args.work_root.resolve(), RecordStore(args.records), command))
    except (ValueError, OSError) as error:
        raise RebnnError(str(error), args.id) from error
    except KeyboardInterrupt:
        raise RebnnError('interrupted. The same command goes on.', args.id) from None


if __name__ == '__main__':
    main()
