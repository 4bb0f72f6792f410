"""Finds the mistakes that an OpenMMLab installation invites, and names the fix of each.

This file imports nothing but the standard library until a check asks for more, so that it runs where torch, mmcv or
rebnn_mm itself do not import, and in a Python too old for the rest: ``rebnn check``, or
``python tools/misc/check_env.py``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

# What `make setup` installs and the tests run on, by distribution name.
TESTED = {
    'torch': '2.13.0',
    'torchvision': '0.28.0',
    'onedl-mmengine': '0.10.12',
    'onedl-mmcv': '2.3.6',
    'onedl-mmdetection': '3.5.1',
    'onedl-mmpretrain': '1.3.6',
    'pycocotools': '2.0.11',
    'numpy': '2.2.6',
    'opencv-python': '4.12.0.88',
    'opencv-python-headless': '4.12.0.88',
    'onnx': '1.23.2',
    'onnxscript': '0.7.2',
    'onnxruntime': '1.31.1',
    'tflite': '2.18.0',
    'transformers': '5.23.0',
    'scikit-learn': '1.9.1',
    'scipy': '1.17.1',
}
# Import name to its distribution in both families; the two of a row write into the same folder.
FAMILIES = {
    'mmengine': ('mmengine', 'onedl-mmengine'),
    'mmcv': ('mmcv', 'onedl-mmcv'),
    'mmdet': ('mmdet', 'onedl-mmdetection'),
    'mmpretrain': ('mmpretrain', 'onedl-mmpretrain'),
}
ORIGINALS = [original for original, _ in FAMILIES.values()]
DISTRIBUTIONS = {'torch': ('torch',), 'torchvision': ('torchvision',), **FAMILIES}
# The full package and the one for boards, which write the same files.
OURS = ('rebnn_mm', 'rebnn-runtime')
# Layers, hooks and constructors work without these; what needs them is one kind of model.
OPTIONAL = ('torchvision', 'mmdet', 'mmpretrain')
OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 12)

INSTALL = 'run `make setup` in a clone, or follow docs/install.md'
# Module, what its failure means, fix; each needs some of those before it.
IMPORTS = (
    ('torch', 'torch does not import', INSTALL),
    (
        'torchvision',
        'torchvision was not made for this torch',
        f'take both from one index: pip install torch==={TESTED["torch"]} torchvision=={TESTED["torchvision"]}',
    ),
    (
        'cv2',
        'OpenCV does not import',
        'write the build that needs no display libraries over it: pip install --force-reinstall --no-deps '
        f'opencv-python-headless=={TESTED["opencv-python-headless"]}',
    ),
    ('mmengine', 'mmengine does not import', INSTALL),
    ('mmcv', 'mmcv does not import', INSTALL),
    (
        'mmcv._ext',
        'mmcv has no compiled ops, so NMS and RoIAlign fail',
        'build them in an environment that has torch: pip install --no-build-isolation --no-cache-dir '
        f'--force-reinstall --no-deps onedl-mmcv=={TESTED["onedl-mmcv"]}',
    ),
    ('mmdet', 'mmdet does not import', INSTALL),
    ('mmpretrain', 'mmpretrain does not import', INSTALL),
)


CARD = Path('/dev/nvidia0')
HIDDEN = ('', '-1')
"""Values of ``CUDA_VISIBLE_DEVICES`` that mean no card."""


@dataclass(frozen=True)
class Problem:
    """One mistake in the environment."""

    level: Literal['error', 'warning']
    what: str
    fix: str

    def __str__(self) -> str:
        return f'{self.level}: {self.what}. Fix: {self.fix}.'


def find_installed_versions() -> dict[str, str]:
    """Version of every distribution that a check or the table asks for, by name; absent ones are left out."""
    versions = {}
    for name in [*TESTED, *ORIGINALS, *OURS, 'setuptools']:
        try:
            version = metadata.version(name)
        except (metadata.PackageNotFoundError, KeyError):
            continue
        if version is not None:  # as it is where an interrupted pip left half a package
            versions[name] = version
    return versions


@dataclass(frozen=True)
class Environment:
    """Environment that the checks look at; tests pass another one."""

    # major and minor version of the interpreter
    python: tuple[int, int] = (sys.version_info.major, sys.version_info.minor)
    versions: Mapping[str, str] = field(default_factory=find_installed_versions)  # distribution name to version
    # imports a module by name, as :func:`importlib.import_module` does
    load: Callable[[str], Any] = importlib.import_module
    # whether the machine has an NVIDIA card that is not hidden from this process
    card: bool = field(default_factory=lambda: CARD.exists() and os.environ.get('CUDA_VISIBLE_DEVICES') not in HIDDEN)

    def has(self, name: str) -> bool:
        """Whether a distribution with the importable package ``name`` is installed."""
        return any(distribution in self.versions for distribution in DISTRIBUTIONS[name])

    def before(self, name: str, version: str) -> bool:
        """Whether distribution ``name`` is installed in a release older than ``version``."""
        return name in self.versions and _release(self.versions[name]) < _release(version)

    def import_error(self, name: str) -> str | None:
        """Say why module ``name`` does not import, ``None`` if it does."""
        try:
            self.load(name)
            if name == 'torchvision':  # some versions import without their operators
                _ = self.load('torch').ops.torchvision.nms
        except Exception as error:  # a broken binary raises nearly anything: ImportError, RuntimeError, AttributeError
            return _in_a_line(error)
        return None


def _in_a_line(error: Exception) -> str:
    return f'{type(error).__name__}: {(str(error).strip().splitlines() or ["no message"])[0]}'


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``'2.13.0+cu130'`` gives ``(2, 13, 0)``."""
    match = re.match(r'\d+(\.\d+)*', version)
    return tuple(int(part) for part in match[0].split('.')) if match else ()


def _check_python(env: Environment) -> Iterator[Problem]:
    if not OLDEST_PYTHON <= env.python <= NEWEST_PYTHON:
        found, oldest, newest = ('.'.join(map(str, v)) for v in (env.python, OLDEST_PYTHON, NEWEST_PYTHON))
        yield Problem(
            'error',
            f'Python {found} is outside {oldest} to {newest}',
            f'make the environment with one of those: make setup BASE_PYTHON=python{newest}',
        )


def _check_missing(env: Environment) -> Iterator[Problem]:
    missing = [name for name in DISTRIBUTIONS if not env.has(name)]
    needed = ', '.join(name for name in missing if name not in OPTIONAL)
    optional = ', '.join(name for name in missing if name in OPTIONAL)
    if needed:
        yield Problem('error', f'not installed: {needed}', INSTALL)
    if optional:
        yield Problem('warning', f'not installed, so that models built on them fail: {optional}', INSTALL)


def _check_families(env: Environment) -> Iterator[Problem]:
    again = {pair: f'install one of them again ({pair[1]} is the tested one)' for pair in FAMILIES.values()}
    for name, pair in {**FAMILIES, 'rebnn_mm': OURS}.items():
        if all(distribution in env.versions for distribution in pair):
            yield Problem(
                'error',
                f'{" and ".join(pair)} are both installed and have overwritten each other in the folder {name}/',
                f'pip uninstall -y {" ".join(pair)}, then {again.get(pair, "install the one you need")}',
            )


def _check_original_family(env: Environment) -> Iterator[Problem]:
    if not env.before('mmengine', '0.10.8'):
        return
    mmengine = f'mmengine {env.versions["mmengine"]}'
    if 'torch' in env.versions and not env.before('torch', '2.6'):
        yield Problem(
            'error',
            f'{mmengine} cannot load or resume its own checkpoints with torch {env.versions["torch"]}',
            'pip install "torch<2.6" with the torchvision made for it, or move to the onedl packages',
        )
    if 'setuptools' in env.versions and not env.before('setuptools', '82'):
        yield Problem(
            'error',
            f'{mmengine} needs pkg_resources, which setuptools {env.versions["setuptools"]} no longer has',
            'pip install "setuptools<82", or move to the onedl packages',
        )


def _check_imports(env: Environment) -> Iterator[Problem]:
    """The first module that is missing or fails ends the search, because it explains those after it."""
    for module, meaning, fix in IMPORTS:
        package = 'mmcv' if module == 'cv2' else module.partition('.')[0]
        if not env.has(package):
            if package in OPTIONAL:
                continue
            return
        reason = env.import_error(module)
        if reason is not None:
            yield Problem('error', f'{meaning} ({reason})', fix)
            return


def _check_gpu(env: Environment) -> Iterator[Problem]:
    if not env.card or env.import_error('torch') or env.load('torch').cuda.is_available():
        return
    try:
        env.load('torch').cuda.init()
        reason = 'no message'
    except Exception as error:  # RuntimeError of the driver, AssertionError of a build without CUDA
        reason = _in_a_line(error)
    yield Problem(
        'warning',
        f'this machine has an NVIDIA card that torch cannot use, so everything runs on the CPU ({reason})',
        'look at nvidia-smi and at what else holds the card; CUDA_VISIBLE_DEVICES= says that the CPU is meant',
    )


def _check_gpu_ops(env: Environment) -> Iterator[Problem]:
    if env.import_error('torch') or env.import_error('mmcv._ext'):
        return
    cuda_of_ops = env.load('mmcv._ext').get_compiling_cuda_version()
    if env.load('torch').cuda.is_available() and cuda_of_ops == 'not available':
        yield Problem(
            'warning',
            'torch sees a GPU, but the ops of mmcv were compiled without CUDA, so NMS and RoIAlign fail on the GPU',
            'install a CUDA toolkit (nvcc) of the version in torch.version.cuda and build mmcv again: docs/install.md',
        )


def check_environment(env: Environment) -> list[Problem]:
    """List what is wrong with the installed packages, worst first."""
    checks = (
        _check_python,
        _check_missing,
        _check_families,
        _check_original_family,
        _check_imports,
        _check_gpu,
        _check_gpu_ops,
    )
    problems = [problem for check in checks for problem in check(env)]
    return sorted(problems, key=lambda problem: problem.level != 'error')


def require_environment() -> None:
    """Print the warnings of :func:`check_environment` to stderr, and refuse its errors."""
    from rebnn_mm.errors import RebnnError

    problems = check_environment(Environment())
    for problem in problems:
        if problem.level == 'warning':
            print(problem, file=sys.stderr)
    errors = [str(problem) for problem in problems if problem.level == 'error']
    if errors:
        raise RebnnError(' '.join(errors))


def version_table(env: Environment) -> str:
    """One line per package: name, installed version, tested version."""
    shown = {name: (env.versions.get(name, '-'), tested) for name, tested in TESTED.items()}
    shown.update({name: (env.versions[name], '-') for name in ORIGINALS if name in env.versions})
    python = '.'.join(map(str, env.python))
    rows = [
        ('package', 'installed', 'tested'),
        ('python', python, '3.11'),
        *((name, *row) for name, row in shown.items()),
    ]
    return '\n'.join(f'{name:<24}{installed:<16}{tested}' for name, installed, tested in rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the versions and the problems; the exit code is 1 if one of them is an error."""
    parser = argparse.ArgumentParser(
        prog='rebnn check', description='Check the installed packages, and time a packed model.', allow_abbrev=False
    )
    # `rebnn check` takes it, as every command does; here every error is a line of the list.
    parser.add_argument('--traceback', action='store_true', help=argparse.SUPPRESS)
    parser.parse_args(arguments)
    env = Environment()
    print(version_table(env), end='\n\n')
    problems = check_environment(env)
    print('\n'.join(map(str, problems)) or 'no problems found')
    return int(any(problem.level == 'error' for problem in problems))


if __name__ == '__main__':
    sys.exit(main())
