"""The shell scripts hand over the right command: a stand-in for the interpreter writes it down."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launch(tmp_path):
    (tmp_path / 'python').write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    (tmp_path / 'python').chmod(0o755)

    def run(command, **env):
        path = f'{tmp_path}{os.pathsep}{os.environ["PATH"]}'
        clean = {key: value for key, value in os.environ.items() if key not in ('PYTHON', 'PORT', 'NNODES', 'GPUS')}
        env = {**clean, 'PATH': path, **env}
        return subprocess.run(
            ['bash', *shlex.split(command)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )

    return run


def test_dist_train(launch):
    done = launch('tools/dist_train.sh my.py 4 --amp --cfg-options \'a="[(1, 2)]"\'', PORT='29501')
    assert done.stdout.splitlines()[1:] == [
        '-m', 'torch.distributed.run', '--nnodes=1', '--node_rank=0', '--master_addr=127.0.0.1', '--master_port=29501',
        '--nproc_per_node=4', 'tools/train.py', 'my.py', '--launcher', 'pytorch', '--amp', '--cfg-options',
        'a="[(1, 2)]"',
    ]  # fmt: skip


def test_dist_test_on_two_machines(launch):
    done = launch('tools/dist_test.sh my.py my.pth 8', NNODES='2', NODE_RANK='1', MASTER_ADDR='10.0.0.1')
    assert done.stdout.splitlines()[3:] == [
        '--nnodes=2', '--node_rank=1', '--master_addr=10.0.0.1', '--master_port=29500', '--nproc_per_node=8',
        'tools/test.py', 'my.py', 'my.pth', '--launcher', 'pytorch',
    ]  # fmt: skip


@pytest.mark.parametrize('script', ['dist_train', 'dist_test'])
def test_too_few_arguments_print_the_usage(launch, script):
    done = launch(f'tools/{script}.sh my.py')
    assert done.returncode == 2
    assert done.stderr.startswith(f'usage: bash tools/{script}.sh') and done.stdout == ''
