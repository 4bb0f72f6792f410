"""Writes a matplotlib figure to a file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.utils.command_line import unwritable


def unfit_picture(path: str | Path) -> str | None:
    """One sentence on a file that cannot be written or that matplotlib knows no format for, ``None`` if it is fit.

    Example:
        >>> print(unfit_picture('detections.doc'))
        cannot write a picture to detections.doc. End the name in .png, .jpg, .svg or .pdf.
    """
    if Path(path).suffix.lower() in ('.png', '.jpg', '.jpeg', '.svg', '.pdf'):
        return unwritable(path)
    return f'cannot write a picture to {path}. End the name in .png, .jpg, .svg or .pdf.'


def save_picture(figure: Figure, path: str | Path, dpi: int) -> None:
    """Write a figure, in the format that the name ends in; folders that are missing are made.

    An interrupted call leaves an older picture of that name as it was.

    Args:
        figure: what to write.
        path: file name, see :func:`unfit_picture`.
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
