"""Writes a matplotlib figure to a file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.command_line import check_writable


def check_picture(path: str | Path) -> None:
    """Check that a file can be written and that matplotlib knows its format."""
    if Path(path).suffix.lower() not in ('.png', '.jpg', '.jpeg', '.svg', '.pdf'):
        raise RebnnError(f'cannot write a picture to {path}', fix='End the name in .png, .jpg, .svg or .pdf.')
    check_writable(path)


def save_picture(figure: Figure, path: str | Path, dpi: int) -> None:
    """Write a figure whole or not at all, in the format that the name ends in; make missing folders."""
    with whole_file(path) as part:
        figure.savefig(part, dpi=dpi)


def plain(text: str) -> str:
    """A text of a user's as it is, in which matplotlib would take what stands between two $ for a formula."""
    return text.replace('$', r'\$')
