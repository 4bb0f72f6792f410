"""Shared parts of tools and demos: common flags, the config they give, and what they write."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction
from mmengine.registry import MODELS, init_default_scope

from rebnn_mm.deploy.whole_file import is_input
from rebnn_mm.errors import RebnnError, did_you_mean
from rebnn_mm.utils.config_file import config_path, read_config
from rebnn_mm.utils.console import quiet


def config_file(text: str) -> str:
    """The path of a config that a user named, for ``type=`` of an argument; :func:`check_config_file` judges it."""
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


LAUNCHERS = {'none': 'LOCAL_RANK', 'pytorch': 'RANK', 'slurm': 'SLURM_PROCID', 'mpi': 'OMPI_COMM_WORLD_LOCAL_RANK'}
"""A variable that each sets for the processes that it starts."""


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--work-dir``, ``--cfg-options``, ``--launcher`` and ``--local_rank`` with mmdet's meaning."""
    parser.add_argument(
        '--work-dir', help='folder for logs, metrics and checkpoints; default: work_dirs/<config name>'
    )
    add_options(parser)
    parser.add_argument('--launcher', choices=list(LAUNCHERS), default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0, help='set by the launcher')


def load_config(args: argparse.Namespace, sections: Sequence[str] = ()) -> Config:
    """Read ``args.config``, apply the common flags, and check that it has these sections."""
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    cfg = read_config(args.config, args.cfg_options)
    cfg.launcher = args.launcher
    if LAUNCHERS[args.launcher] not in os.environ:
        what = f'it has not started this process, which {LAUNCHERS[args.launcher]} would tell'
        raise RebnnError(what, f'--launcher {args.launcher}', 'Leave it out, or start the command by it.')
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        cfg.work_dir = f'./work_dirs/{Path(args.config).stem}'
    check_writable(cfg.work_dir, is_folder=True)
    check_sections(cfg, sections)
    if sections:  # for a runner
        check_loops(cfg)
    return cfg


def import_scope(cfg: Config) -> None:
    """Import the library that a config builds on, without its notes on missing extras, and look names up in it."""
    scope = cfg.get('default_scope') or 'mmengine'
    if scope not in MODELS.children and not find_spec(scope):
        near = did_you_mean(scope, ('mmdet', 'mmpretrain')) or 'Install it, or register it by custom_imports.'
        raise RebnnError('no installed library has this name.', f'default_scope={scope!r}', near)
    if scope in ('mmdet', 'mmpretrain') and find_spec(scope):
        with quiet():
            importlib.import_module(f'{scope}.utils').register_all_modules(init_default_scope=False)
    init_default_scope(scope)


LOOPS = (
    ('train_dataloader', 'train_cfg', 'optim_wrapper'),
    ('val_dataloader', 'val_cfg', 'val_evaluator'),
    ('test_dataloader', 'test_cfg', 'test_evaluator'),
)
"""Keys of which mmengine takes all or none."""

TRAINING = ('model', *LOOPS[0])
TESTING = ('model', 'test_dataloader', 'test_evaluator')
"""Keys that a config needs for training, and for scoring."""


def check_sections(
    cfg: Config, names: Sequence[str], fix: str = 'Take them over from a config that has them (_base_).'
) -> None:
    """Check that a config has these sections."""
    missing = [name for name in names if cfg.get(name) is None]
    if missing:
        what = f'{cfg.filename or "the config"} has no {" and no ".join(missing)}'
        raise RebnnError(what, fix=fix)


def check_loops(cfg: Config) -> None:
    """Check that a config has all or none of the keys of each loop, as mmengine's runner asks, and what it counts."""
    for loop in LOOPS:
        if any(cfg.get(name) is not None for name in loop):
            check_sections(cfg, loop, f'{", ".join(loop)} go together: set all, or each to None.')
        for name, key in ((loop[0], 'batch_size'), (loop[1], 'val_interval')):
            value = (cfg.get(name) or {}).get(key)
            if isinstance(value, int) and value < 1:
                raise RebnnError('it must be at least 1', f'{name}.{key}={value}', 'Set it to a positive number.')


def check_writable(path: str | Path, *, inputs: Iterable[str | Path | None] = (), is_folder: bool = False) -> None:
    """Check that an output can be written: it is tried, and nothing is left behind."""
    path = Path(path)
    where = f'cannot write to {path}'
    if not is_folder and path.is_dir():
        raise RebnnError('it is a folder.', where, 'Name a file.')
    if is_input(path, inputs):
        raise RebnnError('it is an input.', where, 'Name another file.')
    target = path.absolute() if is_folder else path.absolute().parent
    folder = next(place for place in (target, *target.parents) if os.path.exists(place))
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(4096))
    except OSError as error:
        raise RebnnError(f'{error.strerror} ({folder}).', where) from error
    if path.exists() and not os.access(path, os.W_OK):
        raise RebnnError('it may not be overwritten.', where, 'Name another one.')


def check_predictions(out: str | None, inputs: Iterable[str]) -> None:
    """Check that predictions can be written to ``--out``, if it is given."""
    if out is not None and not out.endswith(('.pkl', '.pickle')):
        raise RebnnError(f'--out {out} must end in .pkl or .pickle: the predictions are written as a pickle file.')
    if out is not None:
        check_writable(out, inputs=inputs)


def quote_command(argv: Sequence[str] | None = None) -> str:
    """Quote the command as it was given, for those who want to repeat it."""
    program, *arguments = sys.argv if argv is None else argv
    start = program.split() if program.startswith('rebnn ') else ['python', program]
    return shlex.join([*start, *arguments])
