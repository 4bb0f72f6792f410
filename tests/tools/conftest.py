"""Runs a tool the way a user does: as a subprocess, from the repository root."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope='session')
def run_tool() -> Run:
    """``run_tool('tools/x.py', '--flag')`` gives the finished process with its text output."""

    def run(script: str, *args: object) -> subprocess.CompletedProcess:
        command = [sys.executable, script, *map(str, args)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    return run
