"""The set-up stops before its first download, with one sentence, on a machine that lacks something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def set_up(venv: Path, python: Path | str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ['bash', 'tools/setup_env.sh', str(venv), str(python)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def python_without(tmp_path):
    """``python_without('Python.h')`` is this interpreter, but code that mentions the word fails."""

    def make(word: str) -> Path:
        path = tmp_path / 'python'
        path.write_text(f'#!/bin/sh\ncase "$*" in *{word}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
        path.chmod(0o755)
        return path

    return make


def sentence(done: subprocess.CompletedProcess) -> str:
    """What the set-up said last; it must have failed, and said nothing else."""
    assert done.returncode == 1
    assert done.stdout == ''
    (line,) = done.stderr.strip().splitlines()
    return line


def test_python_of_another_version(tmp_path, python_without):
    python = python_without('version_info')
    said = sentence(set_up(tmp_path / 'venv', python))
    assert said.startswith(f'[setup] needs Python 3.10, 3.11 or 3.12, and {python} is Python 3.')


def test_python_that_does_not_exist(tmp_path):
    said = sentence(set_up(tmp_path / 'venv', tmp_path / 'python'))
    assert said.startswith(f'[setup] needs Python 3.10, 3.11 or 3.12, and {tmp_path / "python"} is no Python. ')


def test_python_without_venv(tmp_path, python_without):
    said = sentence(set_up(tmp_path / 'venv', python_without('ensurepip')))
    assert said.endswith('cannot make environments. Install its venv module (Debian: apt-get install python3-venv).')


def test_python_without_headers(tmp_path, python_without):
    said = sentence(set_up(tmp_path / 'venv', python_without('Python.h')))
    assert said.endswith(
        'lacks the header Python.h, which the ops of mmcv need. Install it (Debian: apt-get install python3-dev).'
    )


def test_no_compiler(tmp_path):
    said = sentence(set_up(tmp_path / 'venv', sys.executable, CXX='no-such-compiler'))
    assert 'needs a C++ compiler for the ops of mmcv, and no-such-compiler is not there' in said


def test_folder_that_is_no_environment_is_left_alone(tmp_path):
    photo = tmp_path / 'photo.jpg'
    photo.write_text('precious')
    done = set_up(tmp_path, sys.executable)
    assert done.returncode == 1
    assert f'{tmp_path} holds other things than a virtual environment' in done.stderr
    assert photo.read_text() == 'precious'
