"""Shared parts of tools and demos: common flags, the config they give, and how they stop."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from rebnn_mm.deploy.whole_file import is_input
from rebnn_mm.utils.check_env import check_environment
from rebnn_mm.utils.config_file import config_path
from rebnn_mm.utils.config_mistake import Mistake, explained, fitting_config

#: Exit code of a program that Ctrl-C has ended, as shells have it.
INTERRUPTED = 130


def config_file(text: str) -> str:
    """The path of a config that a user named, for ``type=`` of an argument; :func:`missing_config` judges it."""
    return str(config_path(text))


class Overrides(DictAction):
    """mmengine's action for ``--cfg-options``, which ends the program with one sentence on what it cannot read."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        for text in values or ():
            try:
                if text.partition('=')[2].lstrip('\'"').startswith(('dict(', '{')):  # would stay this text
                    raise ValueError
                super().__call__(parser, namespace, [text], option_string)
            except (ValueError, AssertionError, RecursionError):
                parser.error(
                    f'--cfg-options: {text!r} cannot be read. It takes KEY=VALUE with a number, a word, [a,b] or '
                    '(a,b); entries of a dict one by one, as KEY.ENTRY=VALUE.'
                )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--cfg-options`` with mmdet's meaning."""
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=Overrides,
        help='override entries of the config: key=value pairs, for instance optim_wrapper.optimizer.lr=0.01; lists as '
        'key="[a,b]" or key=a,b, nested as key="[(a,b),(c,d)]", with the quotes and without blanks',
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--work-dir``, ``--cfg-options``, ``--launcher`` and ``--local_rank`` with mmdet's meaning."""
    parser.add_argument(
        '--work-dir', help='folder for logs, metrics and checkpoints; default: work_dirs/<config name>'
    )
    add_options(parser)
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0, help='set by the launcher')


def read_config(path: str, options: dict[str, Any] | None = None) -> Config:
    """Read a config and apply ``--cfg-options``; what is not there, misspelt or broken ends the program."""
    try:
        return fitting_config(path, options)
    except ValueError as error:
        stop_if(str(error))
        raise


def load_config(args: argparse.Namespace) -> Config:
    """Read ``args.config`` and apply ``--cfg-options``, ``--launcher``, ``--work-dir`` and ``--local_rank``.

    The work dir is the flag's, else the config's, else ``work_dirs/<config name>``. A config that does not exist, an
    option that has no place in it, and a work dir that cannot be written end the program with one sentence.
    """
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    cfg = read_config(args.config, args.cfg_options)
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        cfg.work_dir = f'./work_dirs/{Path(args.config).stem}'
    stop_if(unwritable(cfg.work_dir, is_folder=True))
    return cfg


TRAINING = ('train_dataloader', 'train_cfg', 'optim_wrapper')
TESTING = ('test_dataloader', 'test_evaluator')
"""Keys that a config needs for training, and for scoring."""


def missing_sections(cfg: Config, names: Sequence[str]) -> str | None:
    """One sentence on what the config lacks of ``names``, ``None`` if it has them all.

    Example:
        >>> print(missing_sections(Config(dict(train_cfg=dict())), TRAINING))
        the config has no train_dataloader and no optim_wrapper. Take them over from a config that has them (_base_).
    """
    missing = [name for name in names if cfg.get(name) is None]
    if not missing:
        return None
    name = cfg.filename or 'the config'
    return f'{name} has no {" and no ".join(missing)}. Take them over from a config that has them (_base_).'


def unwritable(path: str | Path, *, inputs: Iterable[str | Path | None] = (), is_folder: bool = False) -> str | None:
    """One sentence on an output that cannot be written, ``None`` if it can: it is tried, and nothing is left behind.

    Args:
        path: the file or folder to write; missing folders count as writable if they can be made.
        inputs: files that are read, none of which it may be.
        is_folder: whether it is a folder.

    Example:
        >>> print(unwritable('/'))
        cannot write to /: it is a folder. Name a file.
    """
    path = Path(path)
    if not is_folder and path.is_dir():
        return f'cannot write to {path}: it is a folder. Name a file.'
    if is_input(path, inputs):
        return f'cannot write to {path}: it is an input. Name another file.'
    target = path.absolute() if is_folder else path.absolute().parent
    folder = next(place for place in (target, *target.parents) if os.path.exists(place))
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(4096))
    except OSError as error:
        return f'cannot write to {path}: {error.strerror} ({folder}).'
    if path.exists() and not os.access(path, os.W_OK):
        return f'cannot write to {path}: it may not be overwritten. Name another one.'
    return None


@contextmanager
def stopping_on_mistakes(cfg: Config | None = None, output: str | Path | None = None) -> Iterator[None]:
    """End the program with one sentence on Ctrl-C, and on a mistake that ``config_mistake.explained`` knows."""
    try:
        with explained(cfg, output):
            yield
    except Mistake as mistake:
        stop_if(str(mistake))
    except KeyboardInterrupt:
        stop_if('stopped.', code=INTERRUPTED)


def stop_if(problem: str | None, code: int = 1) -> None:
    """End the program with this exit code and one sentence on stderr, if there is a problem.

    In a distributed run only the first process prints.
    """
    if problem is None:
        return
    if int(os.environ.get('RANK', os.environ.get('SLURM_PROCID', 0))) == 0:
        print(f'{os.path.relpath(sys.argv[0])}: {problem}', file=sys.stderr)
    sys.exit(code)


def given_command(argv: Sequence[str] | None = None) -> str:
    """The command as it was given, for those who want to repeat it.

    Args:
        argv: its words; default: ``sys.argv``.

    Example:
        >>> given_command(['rebnn choose', 'my config.py']), given_command(['tools/choose.py', 'mine.py'])
        ("rebnn choose 'my config.py'", 'python tools/choose.py mine.py')
    """
    program, *arguments = sys.argv if argv is None else argv
    start = program.split() if program.startswith('rebnn ') else ['python', program]
    return shlex.join([*start, *arguments])


def stop_on_broken_environment(cfg: Config) -> None:
    """Print what :func:`rebnn_mm.utils.check_env.check_environment` finds, and end the program if it is an error."""
    problems = check_environment(cfg)
    for problem in problems:
        if problem.level == 'warning':
            print(problem, file=sys.stderr)
    stop_if(' '.join(str(problem) for problem in problems if problem.level == 'error') or None)
