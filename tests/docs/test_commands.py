"""Every command of the pages is one that its program takes, and is run by a test or listed with the reason why not.

``commands.yml`` is the list.
"""

import argparse
import ast
import contextlib
import functools
import importlib
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from mmengine.config import Config

from rebnn_command import COMMANDS
from rebnn_mm.utils.config_file import check_keys
from tests.docs.pages import LAB, PAGES
from tests.refusal import refusal
from tests.scripts import ROOT, environment, load_script, run_script

LIST: dict[str, str] = yaml.safe_load(Path(__file__).with_name('commands.yml').read_text())
HERE = re.compile('runs (slowly )?here(?: with (.*))?')
FOLDERS = ('configs', 'demo', 'docs', 'lab', 'rebnn_mm', 'runtime', 'tests', 'tools')
# What a page writes into these folders is kept in the repository, so it has to be there like what a command reads.
OURS = re.compile(rf'(?:^|=|-I|/clone/)((?:{"|".join(FOLDERS)})/[^\s=]*|rebnn_mm::[^\s=]*)')
PHOTOS = 'demo/blood_cells/images'
# What readers have, for the commands that run here; the folders of the repository stand for themselves.
STAND_INS = {
    **{name: name for name in FOLDERS},
    **dict.fromkeys(('bccd.onnx', 'cells.onnx', 'mine.onnx', 'model.onnx'), 'rebnn_mm/zoo/blood-cells.onnx'),
    **dict.fromkeys(('image.jpg', 'photo.jpg'), f'{PHOTOS}/BloodImage_00021.jpg'),
    **{
        f'data/bccd/images/{name}': f'{PHOTOS}/{name}'
        for name in (f'BloodImage_000{n}.jpg' for n in ('07', '11', '21'))
    },
    'data/bccd/annotations': 'demo/blood_cells/annotations',
    'my_images': 'demo/coco_sample',
    'build/hand/ort': 'rebnn_mm/deploy/lib',
}


class Command(NamedTuple):
    """A command as it is written, and its words without variables of the environment and comments."""

    text: str
    words: list[str]

    @property
    def name(self) -> str:
        return ' '.join(self.words)


def read(text: str) -> Command:
    """The words of the command; those of a synopsis, such as ``[--out FILE]``, are as if they were given."""
    words = shlex.split(re.sub(r' \[([^]=]+)\]', r' \1', text), comments=True)
    while len(words) > 1 and re.fullmatch(r'\w+=[^$]*', words[0]):
        del words[0]
    return Command(text, [words[0].removeprefix('.venv/bin/'), *words[1:]])


def lines_of(page: str) -> Iterator[str]:
    """The lines of its blocks of commands; one that is continued, or in which a quotation is, comes as a whole."""
    blocks = re.findall(r'^( *)```(?:shell|bash)\n(.*?)^\1```', (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    whole = ''
    for line in '\n'.join(block for _, block in blocks).replace('\\\n', ' ').splitlines():
        whole += line
        try:
            given = shlex.split(whole, comments=True)
        except ValueError:  # no closing quotation
            whole += '\n'
            continue
        yield from whole.split(' && ') if '&&' in given else filter(None, [given and whole])
        whole = ''


def commands_of(page: str) -> list[Command]:
    """Filled in are variables of the page whose values are plain words."""
    found, values = [], {}
    for line in lines_of(page):
        given = shlex.split(line, comments=True)
        if '$(' not in line and all(re.match(r'\w+=|export$', word) for word in given):
            values |= dict(word.split('=', 1) for word in given if re.fullmatch(r'\w+=[\w./ -]+', word))
        else:
            for name, value in values.items():
                line = re.sub(rf'\${name}\b', value, line)
            found.append(read(line))
    return found


def entry_of(command: Command) -> str | None:
    return next((expression for expression in LIST if re.match(expression, command.name)), None)


def script_of(words: list[str]) -> tuple[str, list[str]] | None:
    """The program of ours that a command starts, and its arguments."""
    doors = {'rebnn': [], 'rebnn-run': ['run']}
    if words[0] in doors:
        return 'rebnn_command.py', [*doors[words[0]], *words[1:]]
    if not {'python', 'python3', 'torchrun'} & set(words):
        return None
    if '-m' in words:
        place = words.index('-m') + 1
        file = words[place].replace('.', '/')
        file += '/__main__.py' if (ROOT / file).is_dir() else '.py'
    else:
        place = next((place for place, word in enumerate(words) if word.endswith('.py')), 0)
        file = words[place] if '/' in words[place] else f'tools/{words[place]}'  # copied to a board
    is_ours = file.startswith(FOLDERS) or file == 'rebnn_command.py'
    return (file, words[place + 1 :]) if is_ours and (ROOT / file).is_file() else None


@functools.cache
def main_of(script: str) -> Callable[[], None]:
    if script.startswith(('rebnn_mm', 'lab')):
        return inspect.unwrap(importlib.import_module(script.removesuffix('.py').replace('/', '.')).main)
    return inspect.unwrap(load_script(script).main)


class ParsedError(BaseException):
    """Ends a program after its parser; no program catches it."""


def parse(script: str, arguments: list[str]) -> argparse.Namespace:
    """What the program's own parser makes of the arguments.

    Raises:
        SystemExit: it refuses them.
    """
    if script == 'rebnn_command.py':
        name, *arguments = arguments
        if name in ('--help', '--version'):
            return argparse.Namespace()
        if name not in COMMANDS:
            raise SystemExit(f'there is no rebnn {name}')
        script = f'rebnn_mm/{COMMANDS[name].module.replace(".", "/")}.py'
    main, own = main_of(script), argparse.ArgumentParser.parse_args

    def stop(*args: Any) -> None:
        raise ParsedError(own(*args))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'argv', [script, *arguments])
        if 'parse_args' in main.__globals__:
            return main.__globals__['parse_args']()
        patch.setattr(argparse.ArgumentParser, 'parse_args', stop)
        with pytest.raises(ParsedError) as parsed:
            main()
    return parsed.value.args[0]


def problems(command: Command) -> Iterator[str]:
    """What is wrong with it, a sentence each."""
    words = command.words
    for path in (path for word in words for path in OURS.findall(word)):
        if not list(ROOT.glob(path.replace('rebnn_mm::', 'configs/'))):
            yield f'there is no {path}'
    if words[0] == 'make' and not re.search(rf'^{words[1]}:', (ROOT / 'Makefile').read_text(), re.MULTILINE):
        yield f'the Makefile has no {words[1]}'
    if words[0] == 'bash' and (ROOT / words[1]).is_file():
        usage = re.search(rf'# +bash {words[1]}([^[\n]*)', (ROOT / words[1]).read_text())[1].split()
        asked, given = ([Path(word).suffix for word in some] for some in (usage, words[2:]))
        if len(given) < len(asked) or any(a not in ('', b) for a, b in zip(asked, given, strict=False)):
            yield f'{words[1]} takes {" ".join(usage)}'
    if script := script_of(words):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                args = parse(*script)
        except SystemExit as end:
            yield (said.getvalue() or str(end.code)).splitlines()[-1]
            return
        for config in [*getattr(args, 'configs', []), getattr(args, 'config', None)]:
            if getattr(args, 'cfg_options', None) and config and Path(config).is_file():
                yield from filter(None, [refusal(check_keys, Config.fromfile(config), args.cfg_options)])


def run(command: Command, more: list[str], folder: Path) -> subprocess.CompletedProcess:
    script = script_of(command.words)
    if script and command.text.startswith(command.words[0]):
        return run_script(script[0], *script[1], *more, cwd=folder)
    env = environment()
    env['PATH'] = f'{Path(sys.executable).parent}{os.pathsep}{env["PATH"]}'
    given = ['bash', '-c', command.text]
    return subprocess.run(given, cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False)


ALL = {page: found for page in [*PAGES, *LAB, 'demo/README.md'] if (found := commands_of(page))}


def pages_that_run_here() -> Iterator[Any]:
    for page, commands in ALL.items():
        found = {command.name: (command, HERE.fullmatch(LIST.get(entry_of(command), ''))) for command in commands}
        todo = [(command, shlex.split(how[2] or '')) for command, how in found.values() if how]
        slow = [pytest.mark.slow] if any(how and how[1] for _, how in found.values()) else []
        if todo:
            yield pytest.param(todo, id=page, marks=slow)


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend('demo')  # as python does for a script of it


@pytest.mark.parametrize('page', ALL)
def test_programs_take_the_commands(page):
    wrong = {command.name: list(problems(command)) for command in ALL[page]}
    assert {name: said for name, said in wrong.items() if said} == {}


def test_every_command_is_run_or_has_a_reason_and_every_entry_a_command():
    entries = {command.name: entry_of(command) for commands in ALL.values() for command in commands}
    assert [name for name, entry in entries.items() if entry is None] == []
    assert [entry for entry in LIST if entry not in entries.values()] == []


def test_the_tests_of_the_list_exist():
    named = {match for text in LIST.values() for match in re.findall(r'(tests/\S+)::(\w+)', text)}
    for file, name in sorted(named):
        functions = [step.name for step in ast.parse((ROOT / file).read_text()).body if hasattr(step, 'name')]
        assert name in functions, f'{file} has no {name}'


@pytest.mark.parametrize('todo', [*pages_that_run_here()])
def test_commands_run(todo, tmp_path):
    for name, source in STAND_INS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_file():  # a link could be written through
            shutil.copy(ROOT / source, tmp_path / name)
        else:
            (tmp_path / name).symlink_to(ROOT / source)
    for command, more in todo:
        done = run(command, more, tmp_path)
        assert done.returncode == 0, f'{command.name}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}'
        for flag, value in pairwise(command.words):
            assert flag not in ('--out', '--folder') or (tmp_path / value).exists(), f'{command.name} wrote no {value}'


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('rebnn export mine.py mine.pth -o mine.onnx --no-such-flag', 'unrecognized arguments: --no-such-flag'),
        ('TASK=sst2 python tools/export.py mine.py -o mine.onnx', 'arguments are required: checkpoint'),
        ('rebnn flips', 'arguments are required'),
        ('rebnn oscillation', 'arguments are required'),
        ('rebnn exprot mine.py', 'there is no rebnn exprot'),
        ('python tools/nothing.py', 'there is no tools/nothing.py'),
        ('rebnn ops rebnn_mm::nothing.py', 'there is no rebnn_mm::nothing.py'),
        ('rebnn train configs/cifar10/cpu/*20_two*.py', None),
        (
            'rebnn train configs/coco/faster_rcnn_r18_rebnn_coco.py --cfg-options modle.x=1',
            "the config has no 'modle'",
        ),
        ('.venv/bin/python -m lab.study.report --no-such-flag', 'unrecognized arguments'),
        ('make coffee', 'the Makefile has no coffee'),
        ('bash runtime/ort/tests/run_fuzz.sh python build --count 600', 'takes PYTHON BUILD_FOLDER fuzz_models.py'),
    ],
)
def test_what_is_wrong_is_found(text, said):
    found = list(problems(read(text)))
    assert found == [] if said is None else len(found) == 1 and said in found[0]


def test_a_command_that_is_not_listed_is_found():
    assert entry_of(read('rebnn trian mine.py')) is None and entry_of(read('rm -rf build')) is None
