"""What a check says."""

from collections.abc import Callable
from typing import Any

from rebnn_mm.errors import RebnnError


def refusal(check: Callable[..., Any], *args: Any, **options: Any) -> str | None:
    """The sentence with which it refuses, None if it lets pass."""
    try:
        check(*args, **options)
    except RebnnError as error:
        return str(error)
    return None
