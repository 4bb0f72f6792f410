"""The terminal: names of files, layers and classes are printed as they are, also one such as [red]."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from rich.console import Console


def plain_console(**options: Any) -> Console:
    """Give rich's console, which takes nothing in a text for a colour, an emoji or a number to paint."""
    return Console(markup=False, emoji=False, highlight=False, **options)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what libraries print and log of no error from the terminal."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            yield
    finally:
        logging.disable(level)
