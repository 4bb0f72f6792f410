"""What `pip install` of a built package gives: all modules, the configs, the commands, the compiled runtime."""

import email
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rebnn_mm.version import __version__

ROOT = Path(__file__).parents[1]


ROOMS = [
    '.mim', 'analysis', 'benchmark', 'cli', 'datasets', 'deploy', 'engine', 'evaluation', 'export', 'functional',
    'layers', 'methods', 'models', 'quantizers', 'starts', 'utils', 'zoo',
]  # fmt: skip
LIBRARIES = ['librebnn.so', 'librebnn_ort.so']


def copy_sources(target: Path) -> None:
    """What git holds of the package: building in a copy keeps the clone clean."""
    for pattern in ('*.py', '*.md', '*.toml', '*.in', '*.yml', 'LICENSE'):
        for file in ROOT.glob(pattern):
            shutil.copy(file, target)
    for name in ('rebnn_mm', 'configs', 'lab/study', 'runtime', 'tools'):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns('__pycache__', '*.so'))


def build(source: Path, target: Path, **environment: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        '-m',
        'pip',
        'wheel',
        '--no-deps',
        '--no-build-isolation',
        '-w',
        str(target),
        str(source),
    ]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.fixture(scope='module')
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('source')
    copy_sources(folder)
    return folder


@pytest.fixture(scope='module')
def compiler(tmp_path_factory) -> Path:
    """The C++ compiler, which here optimises nothing, so that it is soon done."""
    path = tmp_path_factory.mktemp('compiler') / 'c++'
    own = os.environ.get('CXX') or next(filter(shutil.which, ('c++', 'g++', 'clang++')), 'g++')
    path.write_text(f'#!/bin/sh\nexec {own} "$@" -O0\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope='module')
def wheel(source, tmp_path_factory) -> Path:
    """Without the runtime, which takes long to compile; what else is in it does not depend on that."""
    target = tmp_path_factory.mktemp('wheels')
    done = build(source, target, REBNN_SKIP_RUNTIME='1')
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob('*.whl')
    return path


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory) -> Path:
    return unpack(wheel, tmp_path_factory.mktemp('site-packages'))


def unpack(wheel: Path, target: Path) -> Path:
    zipfile.ZipFile(wheel).extractall(target)
    return target


def files(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern) if '__pycache__' not in path.parts}


def test_wheel_holds_every_module_and_config(installed):
    configs = files(ROOT / 'configs', '*.py')
    modules = files(ROOT / 'rebnn_mm', '*.py')
    assert 'coco/faster_rcnn_r18_rebnn_coco.py' in configs
    assert files(installed / 'rebnn_mm' / '.mim' / 'configs', '*.py') == configs
    doors = files(installed / 'rebnn_mm' / '.mim' / 'tools', '*.py')
    assert files(installed / 'rebnn_mm', '*.py') == modules | {
        *(f'.mim/configs/{name}' for name in configs),
        *(f'.mim/tools/{name}' for name in doors),
    }


def test_wheel_holds_the_doors_to_the_commands_and_no_other_script(installed):
    doors = files(installed / 'rebnn_mm' / '.mim' / 'tools', '*.py')
    assert doors == {'train.py', 'test.py', 'export.py'}
    modules = {(installed / 'rebnn_mm' / '.mim' / 'tools' / name).read_text().splitlines()[2] for name in doors}
    assert all(re.fullmatch(r'from rebnn_mm\.cli\.\w+ import main', line) for line in modules)
    assert len(modules) == len(doors)


def test_wheel_holds_these_rooms_and_no_laboratory(installed):
    assert sorted(path.name for path in (installed / 'rebnn_mm').iterdir() if path.is_dir()) == ROOMS
    others = [path.name for path in installed.iterdir() if not path.name.endswith('.dist-info')]
    assert sorted(others) == ['rebnn_command.py', 'rebnn_mm']


def test_wheel_holds_starts_each_with_its_card(installed):
    starts = files(installed / 'rebnn_mm' / 'starts', '*')
    names = 'one_bit_tiny', 'one_bit_tiny_photos', 'one_bit_tiny_photos_1bit'
    assert starts == {f'{name}{end}' for name in names for end in ('.md', '.npz')}


def test_installed_package_finds_its_own_configs(installed):
    path = installed / 'rebnn_mm' / 'utils' / 'config_file.py'
    spec = importlib.util.spec_from_file_location('config_file_of_the_wheel', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.get_config_dir() == installed / 'rebnn_mm' / '.mim' / 'configs'


def test_installed_command_says_what_to_install_where_nothing_is(installed):
    command = f'import sys; sys.path.insert(0, {str(installed)!r}); import rebnn_command; rebnn_command.main()'
    call = [sys.executable, '-I', '-S', '-c', command, 'check']
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith('PyTorch and mmengine are not installed, so these commands work: run, zoo,')
    assert done.stderr == 'rebnn check: numpy is not installed. Run: pip install numpy onnxruntime pillow\n'


@pytest.mark.slow
def test_wheel_holds_the_runtime_and_belongs_to_a_platform_but_to_no_python(source, compiler, tmp_path):
    done = build(source, tmp_path, CXX=str(compiler))
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob('*.whl')
    installed = unpack(wheel, tmp_path / 'installed')
    assert wheel.name.startswith(f'rebnn_mm-{__version__}-py3-none-linux_')
    assert sorted(path.name for path in (installed / 'rebnn_mm' / 'deploy' / 'lib').iterdir()) == LIBRARIES
    assert operators_work(installed)


def operators_work(installed: Path) -> bool:
    """Whether ONNX Runtime takes the operators of this installation, in a process that finds rebnn_mm nowhere else."""
    code = f"""
import sys
import numpy, onnxruntime  # before the path is cut
sys.path[:] = [{str(installed)!r}, *(path for path in sys.path if 'python3' in path and 'site-packages' not in path)]
import importlib.util
source = {str(installed / 'rebnn_mm' / 'deploy' / 'native.py')!r}
spec = importlib.util.spec_from_file_location('native', source)
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
print(native.register(onnxruntime.SessionOptions()))
"""
    done = subprocess.run([sys.executable, '-I', '-c', code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == str(installed / 'rebnn_mm' / 'deploy' / 'lib' / 'librebnn_ort.so')


def test_wheel_without_the_runtime_is_for_any_platform(wheel):
    assert wheel.name == f'rebnn_mm-{__version__}-py3-none-any.whl'
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith('.so')]


def test_missing_compiler_is_one_sentence(source, tmp_path):
    done = build(source, tmp_path, CXX='no-such-compiler')
    assert done.returncode == 1
    (line,) = [line.strip() for line in done.stderr.splitlines() if 'rebnn_mm: ' in line]
    assert line == (
        'rebnn_mm: there is no C++ compiler for the runtime (no-such-compiler). Install one (Debian: apt-get install '
        'g++), or go without packed models: REBNN_SKIP_RUNTIME=1.'
    )
    assert not list(tmp_path.iterdir())


def test_sdist_holds_the_sources_of_the_runtime(source, tmp_path):
    command = [sys.executable, 'setup.py', '--quiet', 'sdist', '--formats', 'zip', '--dist-dir', str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (archive,) = tmp_path.glob('*.zip')
    names = {name.partition('/')[2] for name in zipfile.ZipFile(archive).namelist()}
    assert names >= {
        f'runtime/{name}' for name in files(ROOT / 'runtime', '*.[ch]*') | files(ROOT / 'runtime', '*.txt')
    }


def board_wheel(machine: str, target: Path) -> Path:
    command = ['bash', 'tools/build_board_wheel.sh', machine, str(target)]
    env = {**os.environ, 'PYTHON': sys.executable}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob('*.whl')
    assert done.stdout.strip() == str(path)
    return path


def check_board_wheel(wheel: Path, machine: str, target: Path) -> None:
    unpack(wheel, target)
    assert wheel.name.startswith(f'rebnn_runtime-{__version__}-py3-none-manylinux_2_')
    assert wheel.name.endswith(f'_{machine}.whl')
    modules = {f'deploy/{name}' for name in files(ROOT / 'rebnn_mm' / 'deploy', '*.py')}
    top = {'__init__.py', 'errors.py', 'native_library.py', 'version.py'}
    assert files(target / 'rebnn_mm', '*.py') == modules | top
    assert files(target / 'rebnn_mm' / 'zoo', '*') == files(ROOT / 'rebnn_mm' / 'zoo', '*')
    assert (target / 'rebnn_command.py').is_file()
    assert sorted(path.name for path in (target / 'rebnn_mm' / 'deploy' / 'lib').iterdir()) == LIBRARIES
    (about,) = target.glob('*.dist-info')
    required = email.message_from_string((about / 'METADATA').read_text()).get_all('Requires-Dist')
    assert [line for line in required if 'extra ==' not in line] == ['numpy', 'onnxruntime>=1.17', 'pillow']
    assert 'rebnn-run = rebnn_command:run' in (about / 'entry_points.txt').read_text()


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != 'x86_64', reason='builds the board wheel for x86-64 without a cross compiler'
)
def test_board_wheel(tmp_path):
    wheel = board_wheel('x86_64', tmp_path / 'wheel')
    installed = tmp_path / 'installed'
    check_board_wheel(wheel, 'x86_64', installed)
    assert operators_work(installed)
    # Two owners of one folder are refused, and this Python may have the full package, too.
    shutil.rmtree(next(installed.glob('*.dist-info')))
    done = command_of(installed, 'run', 'zoo:blood-cells-tiny', 'zoo:BloodImage_00021.jpg', '--json', cwd=tmp_path)
    assert done.returncode == 0 and len(json.loads(done.stdout)['result']) > 10, done.stderr
    done = command_of(installed, 'train', 'mine.py', cwd=tmp_path)
    assert 'needs the whole of rebnn_mm; what is installed here only runs packed models' in done.stderr
    done = command_of(installed, 'check', cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith('no problems found\n'), done.stdout


def command_of(installed: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """``rebnn`` of an unpacked wheel, in a folder with nothing of this project."""
    env = {**os.environ, 'PYTHONPATH': str(installed)}
    command = [sys.executable, '-m', 'rebnn_command', *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env, check=False)


@pytest.mark.slow
def test_installed_command_finds_configs_and_zoo_in_an_empty_folder(installed, tmp_path):
    done = command_of(installed, 'zoo', 'blood-cells', '--path', cwd=tmp_path)
    assert done.stdout.strip() == str(installed / 'rebnn_mm' / 'zoo' / 'blood-cells.onnx'), done.stderr
    done = command_of(installed, 'ops', 'rebnn_mm::cifar10/resnet20.py', '--format', 'json', cwd=tmp_path)
    assert done.returncode == 0 and 'backbone.layer1.0.conv1' in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('aarch64-linux-gnu-g++'), reason='needs g++-aarch64-linux-gnu')
def test_board_wheel_for_another_processor(tmp_path):
    wheel = board_wheel('aarch64', tmp_path / 'wheel')
    installed = tmp_path / 'installed'
    check_board_wheel(wheel, 'aarch64', installed)
    header = (installed / 'rebnn_mm' / 'deploy' / 'lib' / 'librebnn_ort.so').read_bytes()[:20]
    assert header[:4] == b'\x7fELF' and int.from_bytes(header[18:20], 'little') == 183  # EM_AARCH64


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec('ziglang') is None, reason='needs ziglang, which compiles for others')
@pytest.mark.parametrize(
    ('system', 'tag', 'end', 'start'),
    [
        ('windows', 'win_amd64', '.dll', b'MZ'),
        ('macos', 'macosx_11_0_arm64', '.dylib', bytes.fromhex('cffaedfe0c000001')),  # Mach-O, ARM of 64 bits
    ],
)
def test_board_wheel_for_another_system(system, tag, end, start, tmp_path):
    wheel = board_wheel(system, tmp_path / 'wheel')
    assert wheel.name == f'rebnn_runtime-{__version__}-py3-none-{tag}.whl'
    unpack(wheel, tmp_path / 'installed')
    libraries = sorted((tmp_path / 'installed' / 'rebnn_mm' / 'deploy' / 'lib').iterdir())
    assert [path.name for path in libraries] == [f'librebnn{end}', f'librebnn_ort{end}']
    assert all(path.read_bytes().startswith(start) for path in libraries)


def test_board_wheel_for_an_unknown_system_is_one_sentence(tmp_path):
    command = ['bash', 'tools/build_board_wheel.sh', 'amiga', str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and 'must be aarch64, x86_64, windows or macos, not amiga.' in done.stderr


@pytest.mark.parametrize(
    ('cmake', 'named'), [('3.5.2', "'cmake>=3.18' 'setuptools>=70.1'"), ('3.31.6', "'setuptools>=70.1'")]
)
def test_board_wheel_with_old_tools_is_one_sentence_before_anything_is_compiled(cmake, named, tmp_path):
    command_of = tmp_path / 'setuptools' / 'command'
    command_of.mkdir(parents=True)
    for folder in (command_of.parent, command_of):  # has no bdist_wheel, as setuptools before 70.1
        (folder / '__init__.py').touch()
    program = tmp_path / 'bin' / 'cmake'
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "cmake version {cmake}" || touch {tmp_path}/compiled\n'
    )
    program.chmod(0o755)
    path = f'{program.parent}{os.pathsep}{os.environ["PATH"]}'
    env = {**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': str(tmp_path), 'PATH': path}
    command = ['bash', 'tools/build_board_wheel.sh', platform.machine(), str(tmp_path / 'wheel')]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1 and not (tmp_path / 'compiled').exists()
    (line,) = done.stderr.strip().splitlines()
    assert line.endswith(f'-m pip install --upgrade {named}') and line.startswith(f'[board wheel] needs {named} for ')


def test_board_wheel_without_a_compiler_is_one_sentence(tmp_path):
    env = {**os.environ, 'CROSS': 'no-such-', 'PYTHON': sys.executable}
    command = ['bash', 'tools/build_board_wheel.sh', 'aarch64', str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1
    assert done.stdout == ''
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith('[board wheel] needs no-such-gcc no-such-g++ no-such-objdump, a C++ compiler for aarch64. ')
    assert not list(tmp_path.iterdir())
