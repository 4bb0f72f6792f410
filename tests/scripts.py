"""Runs scripts as ``python SCRIPT ARGUMENTS`` does, without the seconds that importing OpenMMLab takes each time.

This file is also the program after it: it imports the large libraries once, then gives every script a fork of itself.
rebnn_mm is not imported ahead, so a script that relies on it without importing it fails here as well.
"""

import atexit
import functools
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
# None of them may start a thread, which a fork would not have; onnxruntime starts one.
LARGE = (
    *('cv2', 'torch', 'torch.onnx._internal.exporter._core', 'matplotlib.pyplot', 'onnx'),
    *('mmengine.runner', 'mmdet.apis', 'mmpretrain.apis'),
)
LIMIT_S = 500
"""A script that takes longer is ended by SIGALRM."""


def run_script(script: str | Path, *args: object, cwd: str | Path = ROOT) -> subprocess.CompletedProcess:
    """The finished process with its text output; the script and ``cwd`` are relative to the repository's root.

    ``'rebnn ops'`` is that command of this tree.

    For what a start without anything imported shows, use :func:`run_fresh`.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = [str(Path(folder, name)) for name in ('out', 'err')]
        script, *words = (
            f'rebnn_command.py {str(script)[6:]}'.split() if str(script).startswith('rebnn ') else [script]
        )
        argv = [str(ROOT / script) if cwd != ROOT else str(script), *words, *map(str, args)]
        request = dict(argv=argv, cwd=str(cwd), output=output, env=environment())
        server = start_server()
        print(json.dumps(request), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        assert answer, f'{__file__} has ended, see its error'
        code = int(answer)
        out, err = (Path(path).read_text() for path in output)
    return subprocess.CompletedProcess(argv, code, out, err)


def run_code(code: str) -> subprocess.CompletedProcess:
    """The same of a few lines, for what needs a process of its own and not one without the large libraries."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, 'code.py')
        script.write_text(code)
        return run_script(script)


def run_fresh(script: str | Path, *args: object) -> subprocess.CompletedProcess:
    """The same in an interpreter of its own."""
    command = [sys.executable, str(script), *map(str, args)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def run_here(command: str, *args: object) -> None:
    """Run a script or a command such as ``'rebnn ops'`` in this process, without the seconds of importing."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        if command.startswith('rebnn '):
            patch.setattr(sys, 'argv', [command, *map(str, args)])
            importlib.import_module('rebnn_command').start(command.removeprefix('rebnn '))
        else:
            patch.setattr(sys, 'argv', [str(ROOT / command), *map(str, args)])
            runpy.run_path(str(ROOT / command), run_name='__main__')


def run_main(main: Callable[[], None], *args: object) -> int:
    """Call a tool's ``main`` in this process with these arguments; its exit code."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'argv', [main.__module__, *map(str, args)])
        try:
            main()
        except SystemExit as end:
            return end.code
    return 0


def load_script(script: str | Path) -> ModuleType:
    """The script as a module, for what a test calls in this process; the path is relative to the repository's root."""
    spec = importlib.util.spec_from_file_location('loaded', ROOT / script)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str((ROOT / script).parent))  # as Python does for a script
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def environment() -> dict[str, str]:
    """This tree is found, whatever is installed; figures open no window."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
    return {'MPLBACKEND': 'Agg', **os.environ, 'PYTHONPATH': path}


@functools.cache
def start_server() -> subprocess.Popen:
    """One for each worker; it ends with its input."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def serve() -> dict | None:
    """Give every request a fork: returns in the fork, and at the end of the requests without one."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # importing prints
    for name in LARGE:
        with suppress(ImportError):
            importlib.import_module(name)
    once = importlib.import_module('once')  # this folder is the first of the path
    once.read_index_once()
    once.fill_onnx_registry_once().from_torchlib()
    for package in filter(None, map(sys.modules.get, ('mmdet', 'mmpretrain'))):
        with suppress(ValueError):  # there is no such config
            importlib.import_module('mmengine.config.utils')._get_cfg_metainfo(package.__path__[0], '')
    sys.stdout.flush()  # or every fork would print what importing has left in the buffer
    gc.freeze()  # a collection would copy all these objects into the fork
    gc.set_threshold(50_000, 10, 10)  # as in conftest.py
    while line := sys.stdin.readline():
        process = os.fork()
        if not process:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), file=answers, flush=True)
    return None


def become(argv: list[str], cwd: str, output: list[str], env: dict[str, str]) -> None:
    """Make this process what the interpreter is when it starts with a script."""
    signal.alarm(LIMIT_S)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    files = [(os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_CREAT) for path in output)]
    for number, (path, mode) in enumerate(files):
        os.dup2(os.open(path, mode), number)
    sys.argv = argv
    sys.path[0] = str(Path(argv[0]).resolve().parent)


if __name__ == '__main__' and (request := serve()):
    become(**request)
    runpy.run_path(sys.argv[0], run_name='__main__')
