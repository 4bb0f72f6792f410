"""Works through a list of runs: several at a time, each in a process of its own."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .child import Child, last_line, read_costs
from .collect import collect_results, collect_test
from .planned_run import PlannedRun
from .progress import finished_epochs, last_checkpoint
from .provenance import provenance
from .run_record import FORMAT, RecordStore, final_score

CONFIG = 'planned.py'
"""In the work dir: the config that is trained, with everything applied."""

TEST = 'test'
"""In the work dir: the folder of the test after training, with a config of its own."""


@dataclass
class QueueReport:
    """What a queue did: names of files by outcome."""

    finished: list[str]
    failed: list[str]
    skipped: int


class RunQueue:
    """Does the runs that have no record yet, and writes a record for each.

    - A run that another one starts from is done first.
    - A run that asks for a test is tested when its training has ended; if it was not then, a later queue does it.
    - Weights are not in a record: where they are gone and something needs them, the run is made again.
    - A run that was interrupted goes on from its last checkpoint.
    - A run that fails is recorded with the last line it printed, and the others go on; so do not the ones that start
      from it. The next queue tries it again.

    Args:
        runs: each with the name of its experiment, in the order in which they are begun.
        store: where records are and go.
        root: root of the project, where runs are started.
        work_root: folder for their work dirs.
        train: gives the command that trains a config in a work dir and resumes where one was begun there.
        test: gives the command that scores a checkpoint with a config, in a work dir.
        command: gives the command with which a user makes a run of an experiment again, for its record.
        workers: runs at a time.
        tell: called with a line for people whenever a run begins or ends.
    """

    def __init__(
        self,
        runs: Sequence[tuple[str, PlannedRun]],
        store: RecordStore,
        root: Path,
        work_root: Path,
        train: Callable[[Path, Path], Sequence[str]],
        test: Callable[[Path, Path, Path], Sequence[str]],
        command: Callable[[str, PlannedRun], str],
        workers: int = 1,
        tell: Callable[[str], None] = print,
    ) -> None:
        if workers < 1:
            raise ValueError(f'workers={workers} must be at least 1.')
        self.store, self.root, self.work_root = store, root, work_root
        self.train, self.test, self.command, self.workers, self.tell = train, test, command, workers, tell
        self._active: dict[str, tuple[str, PlannedRun, Child]] = {}
        unique = {run.key: (name, run) for name, run in reversed(runs)}
        ordered = list(dict.fromkeys(run.key for _, run in runs))
        todo = [unique[key] for key in ordered if store.finished(unique[key][1]) is None]
        self.skipped = len(ordered) - len(todo)
        self._waiting = self._with_starts(todo)
        self._all = list(self._waiting)
        self._broken: set[str] = set()
        self._tested: set[str] = set()
        self._origin: dict[str, dict[str, Any]] = {}
        self._report = QueueReport([], [], self.skipped)

    @property
    def epochs(self) -> tuple[int, int]:
        """Epochs done and epochs planned of all runs of this queue, for a progress bar."""
        done = sum(self._epochs_done(run) for _, run in self._all)
        return done, sum(run.epochs or 1 for _, run in self._all)

    @property
    def active(self) -> list[str]:
        """Names of the runs that are being trained."""
        return [run.stem for _, run, _ in self._active.values()]

    def work(self, tick: Callable[[], None] = lambda: None, pause: float = 0.5) -> QueueReport:
        """Do everything; ``tick`` is called about every ``pause`` seconds. Interrupted, it stops its runs first."""
        try:
            while self._waiting or self._active:
                self._begin_some()
                self._end_some()
                tick()
                if self._active:
                    time.sleep(pause)
        finally:
            for _, _, child in self._active.values():
                child.terminate()
            for _, run, child in self._active.values():
                child.stop()
                self.tell(f'{run.stem}: stopped; it goes on from its last checkpoint.')
        return self._report

    def _with_starts(self, todo: Sequence[tuple[str, PlannedRun]]) -> list[tuple[str, PlannedRun]]:
        """Put in front of each run the one it starts from, if that has no weights any more."""
        ordered: dict[str, tuple[str, PlannedRun]] = {}
        for name, run in todo:
            chain = [run]
            while chain[-1].start is not None and self._weights(chain[-1]) is None:
                chain.append(chain[-1].start)
            for needed in reversed(chain):
                if needed is run or self._weights(needed) is None:
                    ordered.setdefault(needed.key, (name, needed))
        return list(ordered.values())

    def _work_dir(self, run: PlannedRun) -> Path:
        return self.work_root / run.stem

    def _weights(self, run: PlannedRun) -> Path | None:
        """Last checkpoint of a run that is trained."""
        if self.store.trained(run) is None or run.key in self._active:
            return None
        return last_checkpoint(self._work_dir(run))

    def _epochs_done(self, run: PlannedRun) -> int:
        waiting = any(run.key == other.key for _, other in self._waiting)
        if run.key in self._active or waiting:
            return min(finished_epochs(self._work_dir(run)), run.epochs or 1)
        return run.epochs or 1

    def _begin_some(self) -> None:
        for name, run in list(self._waiting):
            if len(self._active) >= self.workers:
                return
            start = run.start
            if start is not None and start.key in self._broken:
                self._waiting.remove((name, run))
                self._broken.add(run.key)
                self._report.failed.append(run.stem)
                self.tell(f'{run.stem}: left out, because {start.stem} failed, from which it starts')
            elif (checkpoint := self._weights(run)) is not None:
                self._waiting.remove((name, run))
                self._begin_test(name, run, checkpoint)
            elif start is None or self._weights(start) is not None:
                self._waiting.remove((name, run))
                self._begin(name, run)

    def _begin(self, name: str, run: PlannedRun) -> None:
        work_dir = self._work_dir(run)
        if self.store.trained(run) is not None:
            # Its weights are gone, and a resumed run would have nothing left to do.
            shutil.rmtree(work_dir, ignore_errors=True)
        work_dir.mkdir(parents=True, exist_ok=True)
        try:
            config = run.build_config(self.root, self._weights(run.start) if run.start else None)
            config.dump(work_dir / CONFIG)
            command = self.train(work_dir / CONFIG, work_dir)
        except Exception as error:
            self._fail(name, run, str(error) or type(error).__name__)
            return
        self._active[run.key] = (name, run, Child(command, work_dir, self.root))
        # As it is now: the clone may have moved on when the run ends.
        self._origin[run.key] = provenance(self.root)
        done = finished_epochs(work_dir)
        self.tell(f'{run.stem}: begins' + (f', goes on after epoch {done}' if done else ''))

    def _begin_test(self, name: str, run: PlannedRun, checkpoint: Path) -> None:
        work_dir = self._work_dir(run) / TEST
        shutil.rmtree(work_dir, ignore_errors=True)
        work_dir.mkdir()
        try:
            run.build_test_config(self.root).dump(work_dir / CONFIG)
        except Exception as error:
            self._fail_test(run, str(error) or type(error).__name__)
            return
        command = self.test(work_dir / CONFIG, checkpoint, work_dir)
        self._active[run.key] = (name, run, Child(command, work_dir, self.root))
        self._tested.add(run.key)

    def _end_some(self) -> None:
        for key, (name, run, child) in list(self._active.items()):
            code = child.finished()
            if code is None:
                continue
            del self._active[key]
            end = self._end_test if key in self._tested else self._end
            end(name, run, child, code)

    def _end(self, name: str, run: PlannedRun, child: Child, code: int) -> None:
        if code != 0:
            self._fail(name, run, last_line(child.work_dir))
            return
        try:
            results = collect_results(child.work_dir, run.score)
        except (ValueError, OSError, KeyError) as error:
            self._fail(name, run, str(error))
            return
        self._write(name, run, status='finished', error=None, **results)
        checkpoint = self._weights(run)
        if run.test is None:
            self._succeed(run)
        elif checkpoint is None:
            self._fail_test(run, f'{child.work_dir} has no checkpoint')
        else:
            self._begin_test(name, run, checkpoint)

    def _end_test(self, name: str, run: PlannedRun, child: Child, code: int) -> None:
        record = self.store.trained(run)
        try:
            if code != 0 or record is None:
                raise ValueError(last_line(child.work_dir))
            scores = collect_test(child.work_dir, run.score)
        except (ValueError, OSError) as error:
            self._fail_test(run, str(error))
            return
        self.store.write(run, {**record, 'test': dict(options=run.test, scores=scores)})
        self._succeed(run)

    def _succeed(self, run: PlannedRun) -> None:
        record = self.store.finished(run)
        assert record is not None
        self._report.finished.append(run.stem)
        minutes = record['cost']['cpu_s'] / 60
        self.tell(f'{run.stem}: {run.score} {final_score(record):.4g}, {minutes:.1f} min of processor time')

    def _fail_test(self, run: PlannedRun, error: str) -> None:
        # Its training stands in its record, so the next queue only tests.
        self._report.failed.append(run.stem)
        self.tell(f'{run.stem}: its test failed: {error}')

    def _fail(self, name: str, run: PlannedRun, error: str) -> None:
        self._broken.add(run.key)
        self._report.failed.append(run.stem)
        if self.store.finished(run) is None:
            self._write(name, run, 'failed', error, final=None, curves={}, flips={}, weights={})
        self.tell(f'{run.stem}: failed: {error}')

    def _write(self, name: str, run: PlannedRun, status: str, error: str | None, **results: Any) -> None:
        record = dict(
            format=FORMAT,
            key=run.key,
            experiment=name,
            name=run.name,
            status=status,
            error=error,
            **run.definition,
            score=run.score,
            **results,
            test={},
            cost=read_costs(self._work_dir(run)),
            made=dict(
                command=self.command(name, run),
                workers=self.workers,
                **(self._origin.get(run.key) or provenance(self.root)),
            ),
        )
        self.store.write(run, record)
