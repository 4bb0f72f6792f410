"""Every mistake is staged in an :class:`Environment` of its own; the last tests run the command in the real one."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rebnn_mm.cli.checks import environment
from rebnn_mm.cli.checks.environment import (
    TESTED,
    Environment,
    Problem,
    check_environment,
    find_installed_versions,
    main,
)

ROOT = Path(__file__).parents[3]
HEALTHY = {**TESTED, 'setuptools': '84.2.1'}
ORIGINAL = {
    **{name: version for name, version in TESTED.items() if not name.startswith('onedl')},
    'torch': '2.4.1',
    'torchvision': '0.19.1',
    'mmengine': '0.10.7',
    'mmcv': '2.1.0',
    'mmdet': '3.3.0',
    'mmpretrain': '1.2.0',
    'setuptools': '81.0.0',
}


def no_driver() -> None:
    raise RuntimeError('Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before?')


def loader(gpu: bool = False, cuda_of_ops: str = 'not available', **broken: Exception) -> Callable[[str], Any]:
    """An import function that knows every module but those in ``broken``, where two underscores stand for a dot."""
    modules = {
        'torch': SimpleNamespace(
            ops=SimpleNamespace(torchvision=SimpleNamespace(nms=object())),
            cuda=SimpleNamespace(is_available=lambda: gpu, init=no_driver),
        ),
        'mmcv._ext': SimpleNamespace(get_compiling_cuda_version=lambda: cuda_of_ops),
    }

    def load(name: str) -> Any:
        if name.replace('.', '__') in broken:
            raise broken[name.replace('.', '__')]
        return modules.get(name, SimpleNamespace())

    return load


def found(**changes: Any) -> list[Problem]:
    env = Environment(python=(3, 11), versions=HEALTHY, load=loader(), card=False)
    return check_environment(dataclasses.replace(env, **changes))


def without(*names: str) -> dict[str, str]:
    return {name: version for name, version in HEALTHY.items() if name not in names}


def only(problems: list[Problem]) -> Problem:
    (problem,) = problems
    return problem


def test_healthy_environments_have_no_problem():
    assert found() == []
    assert found(versions=ORIGINAL) == []
    assert found(load=loader(gpu=True, cuda_of_ops='13.0')) == []


@pytest.mark.parametrize('python', [(2, 7), (3, 9), (3, 10), (3, 12), (3, 13)])
def test_python_outside_the_range(python):
    if (3, 10) <= python <= (3, 12):
        assert found(python=python) == []
    else:
        problem = only(found(python=python))
        assert problem.level == 'error'
        assert problem.what == f'Python {python[0]}.{python[1]} is outside 3.10 to 3.12'


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('mmengine', 'onedl-mmengine'),
        ('mmcv', 'onedl-mmcv'),
        ('mmdet', 'onedl-mmdetection'),
        ('mmpretrain', 'onedl-mmpretrain'),
        ('rebnn_mm', 'rebnn-runtime'),
    ],
)
def test_two_distributions_of_one_package(one, other):
    problem = only(found(versions={**HEALTHY, one: '9.0.0', other: '9.0.0'}))
    assert problem.level == 'error'
    assert f'{one} and {other} are both installed' in problem.what
    assert problem.fix.startswith(f'pip uninstall -y {one} {other}')


@pytest.mark.parametrize(
    ('name', 'version', 'what', 'fix'),
    [
        ('torch', '2.6.0', 'cannot load or resume', 'torch<2.6'),
        ('torch', '2.13.0+cu130', 'cannot load or resume', 'torch<2.6'),
        ('setuptools', '82.0.0', 'pkg_resources', 'setuptools<82'),
    ],
)
def test_original_mmengine_with_what_is_too_new_for_it(name, version, what, fix):
    problem = only(found(versions={**ORIGINAL, name: version}))
    assert problem.level == 'error' and what in problem.what and fix in problem.fix
    assert found(versions={**ORIGINAL, 'torch': '2.5.1', 'setuptools': '81.0.0'}) == []


def test_later_original_mmengine_is_not_accused():
    assert found(versions={**ORIGINAL, 'mmengine': '0.11.0rc0', 'torch': '2.13.0', 'setuptools': '84.2.1'}) == []


def test_missing_ops():
    error = ModuleNotFoundError("No module named 'mmcv._ext'")
    problem = only(found(load=loader(mmcv___ext=error)))
    assert problem.level == 'error'
    assert 'no compiled ops' in problem.what
    assert '--no-build-isolation --no-cache-dir --force-reinstall --no-deps onedl-mmcv==2.3.6' in problem.fix


def test_ops_without_cuda_on_a_machine_with_gpu():
    problem = only(found(load=loader(gpu=True)))
    assert problem.level == 'warning'
    assert 'compiled without CUDA' in problem.what


def test_a_card_that_torch_cannot_use(monkeypatch, tmp_path):
    problem = only(found(card=True))
    assert problem.level == 'warning'
    assert 'an NVIDIA card that torch cannot use, so everything runs on the CPU' in problem.what
    assert 'Unexpected error from cudaGetDeviceCount()' in problem.what
    assert found(card=True, load=loader(gpu=True, cuda_of_ops='13.0')) == []
    monkeypatch.setattr(environment, 'CARD', tmp_path)
    assert Environment().card
    for hidden in ('', '-1'):
        monkeypatch.setenv('CUDA_VISIBLE_DEVICES', hidden)
        assert not Environment().card


def test_torchvision_of_another_torch():
    error = RuntimeError('operator torchvision::nms does not exist\nmore lines')
    problem = only(found(load=loader(torchvision=error)))
    assert problem.level == 'error'
    assert problem.what.endswith('(RuntimeError: operator torchvision::nms does not exist)')
    assert 'pip install torch===2.13.0 torchvision==0.28.0' in problem.fix


def test_torchvision_that_imports_without_its_operators():
    def load(name: str) -> Any:
        return (
            SimpleNamespace(ops=SimpleNamespace(torchvision=SimpleNamespace())) if name == 'torch' else complete(name)
        )

    complete = loader(mmcv___ext=ImportError('not reached'))
    problem = only(found(load=load))
    assert 'torchvision was not made for this torch' in problem.what
    assert 'nms' in problem.what


def test_opencv_without_display_libraries():
    error = ImportError('libGL.so.1: cannot open shared object file')
    problem = only(found(load=loader(cv2=error)))
    assert problem.level == 'error'
    assert 'libGL' in problem.what
    assert 'opencv-python-headless' in problem.fix


def test_first_broken_import_is_reported_alone():
    problem = only(found(load=loader(torch=OSError('libcudart'), torchvision=ImportError(), mmcv=ImportError())))
    assert problem.what == 'torch does not import (OSError: libcudart)'


def test_assertion_of_mmdet_on_its_mmcv():
    error = AssertionError('MMCV==2.2.0 is used but incompatible')
    problem = only(found(versions={**ORIGINAL, 'mmcv': '2.2.0'}, load=loader(mmdet=error)))
    assert problem.what == 'mmdet does not import (AssertionError: MMCV==2.2.0 is used but incompatible)'


def test_error_without_a_message():
    assert 'RuntimeError: no message' in only(found(load=loader(mmengine=RuntimeError()))).what


def test_missing_packages():
    absent = ('torch', 'onedl-mmengine', 'onedl-mmdetection', 'onedl-mmpretrain')
    error, warning = found(versions=without(*absent), load=loader(torch=ImportError('no torch')))
    assert (error.level, error.what) == ('error', 'not installed: torch, mmengine')
    assert warning.level == 'warning'
    assert warning.what.endswith('mmdet, mmpretrain')


def test_nothing_installed_is_one_error_and_one_warning():
    def load(name: str) -> Any:
        raise ModuleNotFoundError(name)

    assert [problem.level for problem in found(versions={}, load=load)] == ['error', 'warning']


def test_half_installed_package_counts_as_missing(monkeypatch):
    monkeypatch.setattr('importlib.metadata.version', lambda name: None)
    assert find_installed_versions() == {}


def test_tested_versions_are_the_pinned_ones():
    pinned = dict(re.findall(r'^([\w-]+)={2,3}([\d.]+)$', (ROOT / 'requirements.txt').read_text(), flags=re.MULTILINE))
    assert pinned == TESTED


def test_exit_code_tells_errors(capsys, monkeypatch):
    assert main(['--traceback']) == 0  # which every command takes
    assert capsys.readouterr().out.endswith('no problems found\n')
    monkeypatch.setattr(environment, 'NEWEST_PYTHON', (3, 9))
    assert main([]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    'command',
    [
        ['rebnn_command.py', 'check', '--traceback'],
        ['tools/misc/check_env.py'],
        ['-m', 'rebnn_mm.cli.checks.environment'],
    ],
)
def test_command_in_the_real_environment(command):
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row.split()[0]: row.split()[1:] for row in done.stdout.splitlines() if len(row.split()) == 3}
    assert rows['package'] == ['installed', 'tested']
    assert rows['torch'] == [find_installed_versions()['torch'], TESTED['torch']]
    assert ('\nkernels ' in done.stdout) == ('check' in command)


def test_command_runs_where_nothing_is_installed():
    done = subprocess.run(
        [sys.executable, '-I', '-S', 'tools/misc/check_env.py'], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'error: not installed: torch, mmengine, mmcv. Fix: ' in done.stdout
    assert done.stderr == ''
