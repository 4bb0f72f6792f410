"""Writes a matplotlib figure to a file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.command_line import check_writable


def check_picture(path: str | Path) -> None:
    """Check that a file can be written and that matplotlib knows its format.

    Raises:
        RebnnError: one of the two is not so.

    Example:
        >>> check_picture('detections.doc')
        Traceback (most recent call last):
        rebnn_mm.errors.RebnnError: cannot write a picture to detections.doc. End the name in .png, .jpg, .svg or .pdf.
    """
    if Path(path).suffix.lower() not in ('.png', '.jpg', '.jpeg', '.svg', '.pdf'):
        raise RebnnError(f'cannot write a picture to {path}', fix='End the name in .png, .jpg, .svg or .pdf.')
    check_writable(path)


def save_picture(figure: Figure, path: str | Path, dpi: int) -> None:
    """Write a figure, in the format that the name ends in; folders that are missing are made.

    An interrupted call leaves an older picture of that name as it was.

    Args:
        figure: what to write.
        path: file name, see :func:`check_picture`.
        dpi: pixels per inch, of formats that have pixels.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), 'new', 'empty.png')
        >>> save_picture(Figure(figsize=(2, 1)), target, dpi=50)
        >>> target.read_bytes()[1:4], len(list(target.parent.iterdir()))
        (b'PNG', 1)
    """
    with whole_file(path) as part:
        figure.savefig(part, dpi=dpi)
