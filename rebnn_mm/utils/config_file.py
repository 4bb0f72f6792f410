"""Finds and reads configs: a file that is not there or is broken, or a misspelt key, is a RebnnError."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import reprlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from rebnn_mm.errors import RebnnError, did_you_mean

READ_BESIDE_ARGUMENTS = (
    'activation_checkpointing', 'compile', 'custom_imports', 'detect_anomalous_params', 'efficient_conv_bn_eval',
    'find_unused_parameters', 'init_weights_for_test_or_val', 'model_wrapper_cfg', 'runner_type', 'strategy',
    'sync_bn', 'tta_model', 'tta_pipeline',
)  # fmt: skip
"""Keys that runners and tools read in a config, in addition to the arguments of mmengine's Runner."""


def get_config_dir() -> Path:
    """Folder of the configs that come with the package: inside it when installed, next to it in a clone."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / '.mim' / 'configs', package.parent / 'configs'):
        if (folder / '_base_').is_dir():
            return folder.resolve()
    raise FileNotFoundError(
        f'rebnn_mm: no configs in {package} or next to it. Reinstall the package: pip install --force-reinstall '
        '--no-deps rebnn_mm.'
    )


SCOPE = 'rebnn_mm::'
"""Prefix of the name of a config that is part of the package, wherever that is installed."""

BASES = re.compile(r"^_base_ = (\[.*?\]|'.*?')", re.MULTILINE | re.DOTALL)
"""The bases of a config, as its text has them."""

VARIABLE = re.compile(r'\{\{\$(\w+):(\w*)\}\}')
"""A part of a config that the environment chooses, with its default; mmengine fills it in."""


def read_config(path: str | Path, options: Mapping[str, Any] | None = None) -> Config:
    """Read a config and put options into it, as ``--cfg-options`` does."""
    path = check_config_file(path)
    try:
        cfg = Config.fromfile(path)
    except Exception as error:
        raise RebnnError(f'{path} cannot be read: {_reason(path, error)}.') from error
    check_keys(cfg, options or {})
    cfg.merge_from_dict(dict(options or {}))
    return cfg


def check_config_file(path: str | Path) -> Path:
    """Find the config that a user named, and the bases of it that variables of the environment choose."""
    path = config_path(path)
    if path.is_file():
        _check_choices(path)
        return path
    scoped = str(path).startswith(SCOPE)
    folder = next(parent for parent in (*path.parents, Path()) if parent.is_dir())
    here = folder in (Path(), Path('/'))
    near = sorted(Path().glob('*.py') if here else folder.rglob('*.py'))  # a whole home may lie below here
    ours = get_config_dir()
    places = [
        [] if scoped else [str(file) for file in near],
        [] if scoped else [str(file) for file in sorted(Path('configs').rglob('*.py'))],
        [f'{SCOPE}{file.relative_to(ours)}' for file in sorted(ours.rglob('*.py'))],
    ]
    stem = Path(str(path).removeprefix(SCOPE)).stem
    close = next(filter(None, (_close(stem, files) for files in places)), [])
    raise RebnnError(f'no config file at {path}.', fix=f'Did you mean {" or ".join(close[:3])}?' if close else '')


def _close(stem: str, files: Iterable[str]) -> list[str]:
    """The files whose names are close: those with which the name begins, the longest first, then the closest."""
    known: dict[str, list[str]] = {}
    for file in dict.fromkeys(files):
        known.setdefault(Path(file.removeprefix(SCOPE)).stem, []).append(file)
    begun = sorted((name for name in known if stem.startswith(f'{name}_')), key=len, reverse=True)
    names = dict.fromkeys([*begun, *difflib.get_close_matches(stem, known, n=3)])
    return [file for name in names for file in known[name]]


def config_path(text: str | Path) -> Path:
    """The file that a user's words name: a path, or ``rebnn_mm::`` and the name of a config of the package."""
    name = str(text).removeprefix(SCOPE)
    if name == str(text):
        return Path(text)
    path = get_config_dir() / name
    return path if path.is_file() else Path(text)


def find_bases(path: Path) -> Iterator[tuple[str, Path]]:
    """The base files of a config as its text has them, and where the environment says that they are."""
    for base in re.findall(r"'(\S+\.py)'", ''.join(BASES.findall(path.read_text(encoding='utf-8', errors='replace')))):
        yield base, path.parent / VARIABLE.sub(lambda match: os.environ.get(match[1], match[2]), base)


def _check_choices(path: Path) -> None:
    for base, chosen in find_bases(path):
        if chosen.is_file():
            _check_choices(chosen)
        elif VARIABLE.search(base):
            values = ' '.join(f'{name}={os.environ.get(name, default)}' for name, default in VARIABLE.findall(base))
            there = ', '.join(sorted(file.stem for file in chosen.parent.glob('*.py'))) or 'nothing'
            raise RebnnError(f'{path} has no base for {values}: {os.path.normpath(chosen.parent)} holds {there}.')


def _reason(path: Path, error: Exception) -> str:
    """The error of a config that could not be read, with the file that is broken, it or a base, and its line."""
    for _, base in find_bases(path):
        if base.is_file():
            try:
                Config.fromfile(base, import_custom_modules=False)
            except Exception as inner:
                return _reason(base, inner)
    lines = [step.lineno for step in traceback.extract_tb(error.__traceback__) if step.name == '<module>']
    line = f'line {lines[-1]} of ' if lines else ''
    return f'{type(error).__name__}: {str(error).rstrip(".")} ({line}{os.path.normpath(path)})'


NUMBERS = r'optim_wrapper\.optimizer\.|param_scheduler|train_cfg|\w+_dataloader\.(batch_size|num_workers)'


def check_keys(cfg: Config, options: Mapping[str, Any]) -> None:
    """Refuse a key of ``--cfg-options`` that has no place in the config, or a word in the place of a number.

    As in mmengine, a dict of the config may be given new entries, also whole new dicts.
    """
    for key, value in options.items():
        parts, node = key.split('.'), dict(cfg.items())
        for depth, part in enumerate(parts):
            above = '.'.join(parts[:depth])
            if f'{above}._delete_' in options:
                break
            try:
                _check_place(node, part, above, last=depth == len(parts) - 1)
            except RebnnError as error:
                raise RebnnError(str(error), f'--cfg-options {key}') from None
            if isinstance(node, list):
                node = node[int(part)]
            elif part in node:
                node = node[part]
            else:
                break
        else:
            # Elsewhere a word may be meant, such as gamma=adaptive or loss_scale=dynamic.
            if isinstance(node, int | float) and isinstance(value, str) and re.match(NUMBERS, key):
                raise RebnnError(
                    f'it is {node!r} in the config, and {value!r} is a word.', f'--cfg-options {key}', 'Give a number.'
                )


def _check_place(node: Any, part: str, above: str, last: bool) -> None:
    """Check that ``part`` can go into ``node``, which the config has under the key ``above``."""
    if isinstance(node, list):
        if not (part.isdigit() and int(part) < len(node)):
            raise RebnnError(f'{above} is a list of {len(node)}, counted from 0, without an entry {part!r}.')
    elif not isinstance(node, Mapping):
        raise RebnnError(
            f'{above} is {reprlib.repr(node)} and has no entries.',
            fix=f'Add {above}._delete_=True to put a new dict in its place.',
        )
    elif not above:
        known = [*node, *runner_keys(), *READ_BESIDE_ARGUMENTS]
        if part not in known:
            near = did_you_mean(part, known) or 'Nothing reads a new one of that name.'
            raise RebnnError(f'the config has no {part!r}.', fix=near)
    elif part not in node and not last:
        # a name that differs in its number only is that of a sibling, not a misspelling: layer3, layer4
        close = difflib.get_close_matches(part, node, n=1, cutoff=0.8)
        if close and re.sub(r'\d', '', close[0]) != re.sub(r'\d', '', part):
            raise RebnnError(f'{above} has no {part!r}.', fix=f'Did you mean {close[0]!r}?')


def runner_keys() -> list[str]:
    """The arguments of mmengine's Runner, which are the sections of a config."""
    from mmengine.runner import Runner

    return list(inspect.signature(Runner.__init__).parameters)[1:]
