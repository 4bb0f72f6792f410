"""The terminal: names of files, layers and classes are printed as they are, also one such as [red]."""

from typing import Any

from rich.console import Console


def plain_console(**options: Any) -> Console:
    """Give rich's console, which takes nothing in a text for a colour, an emoji or a number to paint."""
    return Console(markup=False, emoji=False, highlight=False, **options)
