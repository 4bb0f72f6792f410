"""Every command starts in an interpreter that has imported nothing before."""

import pytest

from tests.scripts import ROOT, run_fresh

COMMANDS = sorted(
    str(path.relative_to(ROOT))
    for folder in ('demo', 'tools')
    for path in (ROOT / folder).rglob('*.py')
    if "__name__ == '__main__'" in (text := path.read_text()) and ('argparse' in text or 'rebnn_mm.cli' in text)
)


@pytest.mark.slow
@pytest.mark.parametrize('command', COMMANDS)
def test_command_says_how_to_use_it(command):
    done = run_fresh(command, '--help')
    assert done.returncode == 0, done.stderr
    assert f'usage: {command.rsplit("/", 1)[-1]}' in done.stdout


def test_there_are_commands():
    assert {'tools/train.py', 'tools/test.py', 'tools/export.py', 'demo/compare.py'} <= set(COMMANDS)
