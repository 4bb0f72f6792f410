"""Says in one sentence that a config file does not exist and which existing ones are meant most likely."""

from __future__ import annotations

import difflib
from pathlib import Path


def missing_config(path: str | Path, number: int = 3) -> str | None:
    """One sentence on a config that is not there, with close matches, or ``None`` if it is a file.

    Close matches are searched in the nearest existing folder above ``path`` and in ``configs``, by file name.

    Args:
        path: the config file as given by the user.
        number: how many close matches to name.

    Example:
        >>> print(missing_config('nowhere/faster_rcnn.py', number=0))
        no config file at nowhere/faster_rcnn.py.
    """
    path = Path(path)
    if path.is_file():
        return None
    folder = next(parent for parent in (*path.parents, Path()) if parent.is_dir())
    folders = [Path('configs')] if folder in (Path(), Path('/')) else [folder, Path('configs')]
    known: dict[str, list[str]] = {}
    for file in dict.fromkeys(file for folder in folders for file in sorted(folder.rglob('*.py'))):
        known.setdefault(file.stem, []).append(str(file))
    close = [file for stem in difflib.get_close_matches(path.stem, known, n=max(number, 1)) for file in known[stem]]
    hint = f' Did you mean {" or ".join(close[:number])}?' if close[:number] else ''
    return f'no config file at {path}.{hint}'
