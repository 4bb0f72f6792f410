"""The engines that the exporter writes files for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..options import Options
    from ..source import Source

Writer = Callable[['Source', Path, 'Options', 'Console'], None]
"""Writes a source to a path. What it has to say it prints."""

ENGINES = {'onnx': '.packed', 'lce': '.lce.write'}
"""The modules with a function ``write``, by the names that ``rebnn export --format`` takes."""


def find_writer(engine: str) -> Writer:
    """Import the function that writes the file of an engine, which may need packages of its own."""
    module: Any = import_module(ENGINES[engine], __name__)
    writer: Writer = module.write
    return writer
