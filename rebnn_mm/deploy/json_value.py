"""Reads metadata that holds JSON."""

from __future__ import annotations

import json
from typing import Any

from .errors import ModelFileError


def parse_json(text: str, kind: type, key: str) -> Any:
    """The value of a metadata key that holds a JSON object or list.

    Example:
        >>> parse_json('["cat", "dog"]', list, 'rebnn.classes')
        ['cat', 'dog']
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise ModelFileError(f'{key} must be a JSON {"object" if kind is dict else "list"}, not {text[:60]!r}')
    return value
