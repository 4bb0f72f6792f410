"""Writes a file whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_ENDING = 32
"""Characters of an ending that a temporary name keeps, so that it is not longer than a file system allows."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give another name in the file's folder to write to, with the same ending; it becomes the file's at the end.

    Where the block raises, what was there before stays, and nothing is left behind. Missing folders are made. A link
    stays one: the file that it leads to is written. A device or a pipe gets the content once it is whole.
    """
    target = Path(os.path.realpath(path))
    ending = target.suffix if len(target.suffix) <= LONGEST_ENDING else ''
    if target.exists() and not target.is_file():
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder, f'part{ending}')
            yield part
            with part.open('rb') as content, target.open('wb') as device:
                shutil.copyfileobj(content, device)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f'.{uuid.uuid4().hex}{ending}')
    try:
        yield part
        with part.open('rb+') as written:
            os.fsync(written.fileno())  # else a crash of the system may leave the new name without the content
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def is_input(path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]) -> bool:
    """Whether a file to write is one of those that are read, whatever it is called."""
    if not os.path.isfile(path):
        return False
    return any(name is not None and os.path.isfile(name) and os.path.samefile(name, path) for name in inputs)
