"""A few hundred damaged models and inputs; run_fuzz.sh does it by the ten thousand under sanitizers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import run_script

FOLDER = Path(__file__).parents[2] / 'runtime' / 'ort' / 'tests'


def outcomes(done: subprocess.CompletedProcess) -> dict[str, int]:
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'no crash, no wrong answer' in done.stdout
    return {what: int(number) for number, what in re.findall(r'^ +(\d+) (.+)$', done.stdout, flags=re.MULTILINE)}


PROGRAMS = ['fuzz_models.py', 'fuzz_functions.py']


@pytest.mark.parametrize('program', PROGRAMS)
def test_wrong_models_and_inputs_end_in_an_error_or_in_the_right_answer(program):
    found = outcomes(run_script(FOLDER / program, '--count', 300, '--seed', 1))
    assert sum(found.values()) == 300
    assert found['right'] > 30
    assert found['refused by the operator'] > 60


@pytest.mark.slow
@pytest.mark.parametrize('program', PROGRAMS)
def test_the_same_under_sanitizers(program):
    build = os.environ.get('REBNN_SANITIZER_BUILD')
    if not build:
        pytest.skip('compiles for a minute; REBNN_SANITIZER_BUILD names a folder to do it in')
    command = ['bash', str(FOLDER / 'run_fuzz.sh'), sys.executable, build, program, '--count', '300', '--seed', '1']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sum(outcomes(done).values()) == 300
