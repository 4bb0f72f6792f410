"""A training that runs in a process of its own, and what it costs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

COSTS = 'costs.jsonl'
"""In the work dir: a line for each time the run was started, with its wall and processor time in seconds."""

LOG = 'run.log'
"""In the work dir: all that the run has printed."""


class Child:
    """A started run.

    It has a session of its own, so that Ctrl-C in the terminal reaches the queue alone, which stops its children.

    Args:
        command: the program and its arguments.
        work_dir: made if it is not there; gets log and costs.
        cwd: where the command runs.
    """

    def __init__(self, command: Sequence[str], work_dir: Path, cwd: Path) -> None:
        self.work_dir = work_dir
        work_dir.mkdir(parents=True, exist_ok=True)
        self._begin = time.monotonic()
        with (work_dir / LOG).open('ab') as log:
            self._process = subprocess.Popen(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def finished(self) -> int | None:
        """Exit code, or None while it runs."""
        if self._process.returncode is None:
            # wait4 and not poll(), because it also tells the processor time, that of data loaders included.
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._note(status, usage.ru_utime + usage.ru_stime)
        return self._process.returncode

    def terminate(self) -> None:
        """Ask the run to end, without waiting for it."""
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)

    def stop(self, patience: float = 10.0) -> None:
        """End the run and what it has started; its last checkpoint stays."""
        self.terminate()
        end = time.monotonic() + patience
        while time.monotonic() < end and self.finished() is None:
            time.sleep(0.05)
        if self.finished() is None:
            self._signal(signal.SIGKILL)
            _, status, usage = os.wait4(self._process.pid, 0)
            self._note(status, usage.ru_utime + usage.ru_stime)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _note(self, status: int, cpu_s: float) -> None:
        self._process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - self._begin
        with (self.work_dir / COSTS).open('a') as file:
            file.write(json.dumps(dict(wall_s=round(wall_s, 1), cpu_s=round(cpu_s, 1))) + '\n')


def read_costs(work_dir: Path) -> dict[str, float]:
    """Wall time, processor time and number of starts of a run, all its parts together."""
    path = work_dir / COSTS
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return dict(
        wall_s=round(sum(line['wall_s'] for line in lines), 1),
        cpu_s=round(sum(line['cpu_s'] for line in lines), 1),
        parts=len(lines),
    )


def last_line(work_dir: Path) -> str:
    """The last line that a run has printed and that says something: of a traceback the error itself."""
    path = work_dir / LOG
    text = path.read_text(errors='replace') if path.is_file() else ''
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else 'it printed nothing'
