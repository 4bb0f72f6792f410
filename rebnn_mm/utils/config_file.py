"""Finds the configs that come with the package, and says in one sentence that a config file does not exist."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path


def get_config_dir() -> Path:
    """Folder of the configs that come with the package: inside it when installed, next to it in a clone.

    Raises:
        FileNotFoundError: neither place holds them.

    Example:
        >>> get_config_dir().name
        'configs'
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / '.mim' / 'configs', package.parent / 'configs'):
        if (folder / '_base_').is_dir():
            return folder.resolve()
    raise FileNotFoundError(
        f'rebnn_mm: no configs in {package} or beside it. Reinstall the package: pip install --force-reinstall '
        '--no-deps rebnn_mm.'
    )


SCOPE = 'rebnn_mm::'
"""Prefix of the name of a config that is part of the package, wherever that is installed."""

BASES = re.compile(r"^_base_ = (\[.*?\]|'.*?')", re.MULTILINE | re.DOTALL)
"""The bases of a config, as its text has them."""

VARIABLE = re.compile(r'\{\{\$(\w+):(\w*)\}\}')
"""A part of a config that the environment chooses, with its default; mmengine fills it in."""


def missing_config(path: str | Path) -> str | None:
    """One sentence on a config that is not there, with close matches, or ``None`` if it is a file.

    The same for a base of it that variables of the environment choose.

    Close matches are searched by file name: in the nearest existing folder above ``path``, then in ``configs``, then
    among those that come with the package, and the first place that has one counts; for a name with the scope only the
    last.

    Args:
        path: the config file as given by the user.

    Example:
        >>> print(missing_config('nowhere/zzz.py'))
        no config file at nowhere/zzz.py.
    """
    path = config_path(path)
    if path.is_file():
        return _missing_choice(path)
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
    hint = f' Did you mean {" or ".join(close[:3])}?' if close else ''
    return f'no config file at {path}.{hint}'


def _close(stem: str, files: Iterable[str]) -> list[str]:
    """The files whose names are close, the closest first."""
    known: dict[str, list[str]] = {}
    for file in dict.fromkeys(files):
        known.setdefault(Path(file.removeprefix(SCOPE)).stem, []).append(file)
    return [file for name in difflib.get_close_matches(stem, known, n=3) for file in known[name]]


def config_path(text: str | Path) -> Path:
    """The file that a user's words name: a path, or ``rebnn_mm::`` and the name of a config of the package.

    Example:
        >>> config_path('rebnn_mm::bccd/faster_rcnn_r18_rebnn_bccd.py').is_file()
        True
        >>> config_path('my.py')
        PosixPath('my.py')
    """
    name = str(text).removeprefix(SCOPE)
    if name == str(text):
        return Path(text)
    path = get_config_dir() / name
    return path if path.is_file() else Path(text)


def _missing_choice(path: Path) -> str | None:
    bases = ''.join(BASES.findall(path.read_text()))
    for base in re.findall(r"'(\S+\.py)'", bases):
        chosen = path.parent / VARIABLE.sub(lambda match: os.environ.get(match[1], match[2]), base)
        if chosen.is_file():
            problem = _missing_choice(chosen)
            if problem is not None:
                return problem
        elif VARIABLE.search(base):
            values = ' '.join(f'{name}={os.environ.get(name, default)}' for name, default in VARIABLE.findall(base))
            there = ', '.join(sorted(file.stem for file in chosen.parent.glob('*.py'))) or 'nothing'
            return f'{path} has no base for {values}: {os.path.normpath(chosen.parent)} holds {there}.'
    return None
