"""What `pip install` of a built package gives: all modules, the configs, the command."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rebnn_mm.version import __version__

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope='module')
def installed(tmp_path_factory) -> Path:
    """The unpacked wheel, built from a copy so that the clone stays clean."""
    source = tmp_path_factory.mktemp('source')
    for name in ('setup.py', 'pyproject.toml', 'rebnn_check_env.py', 'README.md', 'LICENSE'):
        shutil.copy(ROOT / name, source)
    for name in ('rebnn_mm', 'configs'):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns('__pycache__'))
    wheels = tmp_path_factory.mktemp('wheels')
    build = [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-w', str(wheels), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = wheels.glob(f'rebnn_mm-{__version__}-py3-none-any.whl')
    target = tmp_path_factory.mktemp('site-packages')
    zipfile.ZipFile(wheel).extractall(target)
    return target


def files(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern) if '__pycache__' not in path.parts}


def test_wheel_holds_every_module_and_config(installed):
    configs = files(ROOT / 'configs', '*.py')
    modules = files(ROOT / 'rebnn_mm', '*.py')
    assert 'faster_rcnn_r18_rebnn_coco.py' in configs
    assert files(installed / 'rebnn_mm' / 'configs', '*.py') == configs
    assert files(installed / 'rebnn_mm', '*.py') == modules | {f'configs/{name}' for name in configs}


def test_installed_package_finds_its_own_configs(installed):
    path = installed / 'rebnn_mm' / 'utils' / 'config_dir.py'
    spec = importlib.util.spec_from_file_location('config_dir_of_the_wheel', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.get_config_dir() == installed / 'rebnn_mm' / 'configs'


def test_installed_command_runs_where_nothing_else_is_installed(installed):
    command = f'import sys; sys.path.insert(0, {str(installed)!r}); import rebnn_check_env; rebnn_check_env.main()'
    done = subprocess.run([sys.executable, '-I', '-S', '-c', command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'error: not installed: torch, mmengine, mmcv' in done.stdout
    assert done.stderr == ''
