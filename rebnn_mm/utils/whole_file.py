"""Writes a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Another name in the file's folder to write to, with the same ending; what is written gets its own at the end.

    Where the block raises, what was there before stays, and nothing is left behind. Missing folders are made.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), 'new', 'page.md')
        >>> with whole_file(target) as part:
        ...     _ = part.write_text('whole')
        >>> target.read_text(), len(list(target.parent.iterdir()))
        ('whole', 1)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'.{os.getpid()}.{path.name}')
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
