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
    return check_environment(env=dataclasses.replace(env, **changes))


def without(*names: str) -> dict[str, str]:
    return {name: version for name, version in HEALTHY.items() if name not in names}


def only(problems: list[Problem]) -> Problem:
    (problem,) = problems
    return problem


def test_healthy_environments_have_no_problem():
    assert found() == []
    assert found(versions=ORIGINAL) == []
    assert found(load=loader(gpu=True, cuda_of_ops='13.0')) == []


@pytest.mark.parametrize('python', [(3, 10), (3, 11), (3, 12)])
def test_python_inside_the_range(python):
    assert found(python=python) == []


@pytest.mark.parametrize('python', [(2, 7), (3, 9), (3, 13)])
def test_python_outside_the_range(python):
    problem = only(found(python=python))
    assert problem.level == 'error'
    assert problem.what == f'Python {python[0]}.{python[1]} is outside 3.10 to 3.12'


@pytest.mark.parametrize(
    ('original', 'onedl'),
    [('mmcv', 'onedl-mmcv'), ('mmdet', 'onedl-mmdetection'), ('mmpretrain', 'onedl-mmpretrain')],
)
def test_both_families_at_once(original, onedl):
    problem = only(found(versions={**HEALTHY, original: ORIGINAL[original]}))
    assert problem.level == 'error'
    assert f'{original} and {onedl} are both installed' in problem.what
    assert f'pip uninstall -y {original} {onedl}' in problem.fix


def test_both_mmengines_at_once():
    problems = found(versions={**HEALTHY, 'mmengine': '0.11.0'})
    assert 'mmengine and onedl-mmengine are both installed' in only(problems).what


def test_board_wheel_beside_the_full_package():
    assert found(versions={**HEALTHY, 'rebnn_mm': '0.1.0'}) == []
    problem = only(found(versions={**HEALTHY, 'rebnn_mm': '0.1.0', 'rebnn-runtime': '0.1.0'}))
    assert problem.level == 'error'
    assert 'rebnn_mm and rebnn-runtime are both installed' in problem.what
    assert problem.fix.startswith('pip uninstall -y rebnn_mm rebnn-runtime')


@pytest.mark.parametrize(('torch', 'number'), [('2.5.1', 0), ('2.6.0', 1), ('2.13.0+cu130', 1)])
def test_original_mmengine_with_new_torch(torch, number):
    problems = found(versions={**ORIGINAL, 'torch': torch})
    assert len(problems) == number
    assert all(problem.level == 'error' and 'cannot load or resume' in problem.what for problem in problems)
    assert all('torch<2.6' in problem.fix for problem in problems)


@pytest.mark.parametrize(('setuptools', 'number'), [('81.0.0', 0), ('82.0.0', 1), ('84.2.1', 1)])
def test_original_mmengine_with_new_setuptools(setuptools, number):
    problems = found(versions={**ORIGINAL, 'setuptools': setuptools})
    assert len(problems) == number
    assert all(problem.level == 'error' and 'pkg_resources' in problem.what for problem in problems)
    assert all('setuptools<82' in problem.fix for problem in problems)


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


def config(wrapper: str = 'AmpOptimWrapper', fused: bool = True, hook: str = 'ReBNNHook') -> dict:
    optim_wrapper = dict(type=wrapper, optimizer=dict(type='AdamW', lr=0.001, fused=fused))
    return dict(optim_wrapper=optim_wrapper, custom_hooks=[dict(type=hook)])


def config_problems(given: Any) -> list[Problem]:
    return check_environment(given, Environment(python=(3, 11), versions=HEALTHY, load=loader()))


@pytest.mark.parametrize('hook', ['ReBNNHook', 'rebnn_mm.BinaryHook'])
def test_fused_optimizer_with_amp(hook):
    problem = only(config_problems(config(hook=hook)))
    assert problem.level == 'error'
    assert problem.what.startswith('optim_wrapper: a fused optimizer with AMP')
    assert problem.fix == 'set optim_wrapper.optimizer.fused=False'


@pytest.mark.parametrize('change', [dict(wrapper='OptimWrapper'), dict(fused=False), dict(hook='EMAHook')])
def test_fused_optimizer_is_fine_without_a_methods_hook_or_amp(change):
    assert config_problems(config(**change)) == []


def test_fused_optimizer_among_several():
    given = config()
    given['optim_wrapper'] = dict(constructor='Several', head=given['optim_wrapper'], neck=dict(optimizer=dict()))
    assert only(config_problems(given)).fix == 'set optim_wrapper.head.optimizer.fused=False'


def test_config_file_is_read(tmp_path):
    path = tmp_path / 'fused.py'
    path.write_text('\n'.join(f'{key} = {value!r}' for key, value in config().items()))
    assert [problem.fix for problem in check_environment(path)] == ['set optim_wrapper.optimizer.fused=False']


def test_configs_are_found_by_their_scope(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text("_base_ = 'rebnn_mm::imagenet/resnet18_rebnn_imagenet.py'\n")
    assert check_environment(path) == check_environment('rebnn_mm::imagenet/resnet18_rebnn_imagenet.py') == []


def test_config_file_that_is_not_there(tmp_path):
    problem = only(check_environment(tmp_path / 'none.py'))
    assert 'none.py cannot be read (FileNotFoundError' in problem.what


def test_tested_versions_are_the_pinned_ones():
    pinned = dict(re.findall(r'^([\w-]+)={2,3}([\d.]+)$', (ROOT / 'requirements.txt').read_text(), flags=re.MULTILINE))
    assert pinned == TESTED


def test_exit_code_tells_errors(capsys, tmp_path):
    assert main(['--traceback']) == 0  # which every command takes
    assert capsys.readouterr().out.endswith('no problems found\n')
    assert main([str(tmp_path / 'none.py')]) == 1


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
