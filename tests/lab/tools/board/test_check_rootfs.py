"""What the check in an arm64 root file system refuses; the check itself takes an hour's emulation the first time."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / 'lab' / 'tools' / 'board' / 'check_rootfs.sh'


def run(*arguments, **variables):
    return subprocess.run(
        ['bash', TOOL, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **variables}
    )


@pytest.mark.parametrize('arguments', [(), ('model.onnx',), ('a.onnx', 'a.jpg', 'b.onnx')])
def test_models_and_images_come_in_pairs(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert 'bash lab/tools/board/check_rootfs.sh MODEL.onnx IMAGE' in done.stderr


def test_a_missing_file_is_named(tmp_path):
    done = run(tmp_path / 'none.onnx', TOOL)
    assert (done.returncode, done.stderr) == (2, f'[rootfs] there is no file {tmp_path / "none.onnx"}.\n')


def test_missing_tools_skip_the_check(tmp_path):
    if os.getuid() != 0:
        pytest.skip('the tools are looked for as root')
    # Everything but debootstrap.
    for name in ('bash', 'dirname', 'realpath', 'id', 'sed'):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = run(TOOL, TOOL, PATH=str(tmp_path), FOLDER=str(tmp_path / 'board'))
    assert done.returncode == 77 and 'apt-get install debootstrap' in done.stderr
    assert not (tmp_path / 'board').exists()
