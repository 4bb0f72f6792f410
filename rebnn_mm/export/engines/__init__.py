"""The engines that the exporter writes files for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

    from ..options import Options
    from ..source import Source

Writer = Callable[['Source', Path, 'Options', 'Console'], None]
"""Writes a source to a path. What it has to say it prints."""


class Engine(NamedTuple):
    """A kind of file.

    Attributes:
        about: what it is, in one line.
        module: has the function ``write``. It is imported when a file is written: it may need packages of its own.
    """

    about: str
    module: str

    def writer(self) -> Writer:
        """Writer of such a file.

        Raises:
            ImportError: a package that the engine needs is not installed.
        """
        module: Any = import_module(self.module, __name__)
        write: Writer = module.write
        return write


ENGINES = {
    'onnx': Engine('the packed file, for ONNX Runtime with our kernels or without', '.packed'),
    'lce': Engine('a TensorFlow Lite file of an image classifier for larq compute engine', '.lce.write'),
}
"""The engines by the names that ``tools/export.py --format`` takes."""
