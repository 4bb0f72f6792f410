"""The command ``rebnn``: quick where it can be, and each subcommand is what its script in tools is."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

import rebnn_command
from rebnn_command import COMMANDS
from rebnn_mm.version import __version__
from tests.scripts import ROOT, run_fresh, run_script

WHAT_IS_LOADED = """
import sys
import rebnn_command
sys.argv = ['rebnn', *sys.argv[1:]]
try:
    rebnn_command.main()
finally:
    print([name for name in ('torch', 'mmengine', 'numpy') if name in sys.modules])
"""


WITHOUT_PYTORCH = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in ('torch', 'mmengine') else find(name, *rest)
import rebnn_command
rebnn_command.main()
"""


def loaded_by(*arguments: str) -> list[str]:
    """Which large packages a call loads, in an interpreter of its own."""
    command = [sys.executable, '-c', WHAT_IS_LOADED, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return eval(done.stdout.splitlines()[-1])


def test_help_lists_every_command_and_loads_nothing():
    assert loaded_by('--help') == []
    listed = run_fresh('rebnn_command.py').stdout
    assert [line.split()[0] for line in listed.splitlines() if line.startswith('  ')] == list(COMMANDS)
    assert max(map(len, listed.splitlines())) <= 88


def test_version():
    done = run_fresh('rebnn_command.py', '--version')
    assert (done.returncode, done.stdout) == (0, f'rebnn_mm {__version__}\n')


@pytest.mark.parametrize('arguments', [('run', '--help'), ('zoo',), ('new-config', '--help'), ('fit', '--help')])
def test_what_runs_packed_files_or_only_helps_loads_no_pytorch(arguments):
    assert loaded_by(*arguments) == ['numpy']


def test_the_help_of_a_command_names_it_and_its_options():
    done = run_fresh('rebnn_command.py', 'new-config', '--help')
    assert done.returncode == 0 and done.stdout.startswith('usage: rebnn new-config [-h] --data DATA')
    flags = '--teacher', '--augment {photos,microscope,none}', '--no-negatives', '--start'
    assert [flag for flag in flags if flag not in done.stdout] == []


def test_the_help_of_run_names_the_door_that_was_taken():
    """``rebnn-run`` is the same command."""
    assert run_fresh('rebnn_command.py', 'run', '--help').stdout.startswith('usage: rebnn run [-h]')
    done = run_fresh('-c', 'import rebnn_command; rebnn_command.run()', '--help')
    assert done.stdout.startswith('usage: rebnn-run [-h]')


def test_what_is_missing_names_no_argument_that_may_be_left_out():
    done = run_fresh('rebnn_command.py', 'run')
    assert done.stderr == (
        'rebnn run: the following arguments are required: model, input. rebnn run --help lists what it takes.\n'
    )


def test_unknown_command_is_one_sentence():
    done = run_fresh('rebnn_command.py', 'trian')
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == "rebnn: there is no command 'trian'. Did you mean 'train'?\n"


@pytest.mark.parametrize('name', COMMANDS)
def test_every_command_has_its_module(name):
    assert find_spec(f'rebnn_mm.{COMMANDS[name].module}') is not None
    assert callable(__import__(f'rebnn_mm.{COMMANDS[name].module}', fromlist=['main']).main)


def test_command_and_script_stop_with_the_same_sentence(tmp_path):
    words = ['train', 'tools/train.py']
    ours = run_script('rebnn_command.py', 'train', 'rebnn_mm::nothing.py', cwd=tmp_path)
    script = run_script('tools/train.py', 'rebnn_mm::nothing.py')
    assert ours.returncode == script.returncode == 1
    sentence = ours.stderr.splitlines()[-1].removeprefix('rebnn train: ')
    assert sentence == 'no config file at rebnn_mm::nothing.py.'
    assert script.stderr.splitlines()[-1] == f'{words[1]}: {sentence}'


def test_config_by_scope_works_in_any_folder(tmp_path):
    done = run_script('rebnn_command.py', 'ops', 'rebnn_mm::cifar10/resnet20.py', '--format', 'json', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"name": "backbone.layer1.0.conv1"' in done.stdout


def test_without_its_libraries_it_says_what_to_install():
    command = [sys.executable, '-S', 'rebnn_command.py', 'run', 'zoo:blood-cells-tiny', 'a.jpg']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    sentence = 'rebnn run: numpy is not installed. Run: pip install numpy onnxruntime pillow\n'
    assert (done.returncode, done.stderr) == (1, sentence)


def test_a_library_that_a_command_misses_at_work_is_one_sentence():
    command = [sys.executable, '-c', WITHOUT_PYTORCH, 'fit', 'demo/blood_cells']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    sentence = 'rebnn fit: mmengine is not installed. rebnn check says what is missing\n'
    assert (done.returncode, done.stderr) == (1, sentence)
    done = subprocess.run([*command, '--traceback'], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.startswith('Traceback')


def test_check_of_a_clone_without_pytorch_tests_the_board():
    command = [sys.executable, '-c', WITHOUT_PYTORCH, 'check']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    first, *_, last = done.stdout.splitlines()
    assert (done.returncode, last) == (0, 'no problems found'), done.stdout + done.stderr
    assert 'these commands work: run, zoo, push, seal, check. For the others: Run `make setup` in a clone' in first
    assert 'model      zoo:blood-cells-tiny finds ' in done.stdout


@pytest.fixture
def light(tmp_path, monkeypatch):
    """The part of the package that the light wheel has."""
    (tmp_path / 'rebnn_mm').mkdir()
    (tmp_path / 'rebnn_mm' / '__init__.py').touch()
    (tmp_path / 'rebnn_mm' / 'deploy').symlink_to(ROOT / 'rebnn_mm' / 'deploy')
    monkeypatch.setattr(rebnn_command, 'package', lambda: find_spec_in(tmp_path))


def test_part_of_the_package_says_what_is_missing(light):
    with pytest.raises(
        SystemExit, match='^rebnn train: needs the whole of rebnn_mm; what .* Run `make setup` in a clone'
    ):
        rebnn_command.start('train')


def test_the_help_of_the_light_install_lists_what_works_there(light):
    lines = rebnn_command.usage().splitlines()
    assert [line.split()[0] for line in lines if line.startswith('  ')] == ['run', 'zoo', 'push', 'seal', 'check']
    others = ' '.join(lines).partition('Not installed here: ')[2]
    assert others.startswith('fit, new-config, train, test, ') and 'Run `make setup` in a clone' in others
    assert max(map(len, lines)) <= 88


def find_spec_in(folder):
    from importlib.machinery import PathFinder

    return PathFinder.find_spec('rebnn_mm', [str(folder)])
