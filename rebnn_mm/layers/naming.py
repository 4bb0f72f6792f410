"""Names of layers inside a model, and the patterns that pick them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def name_matches(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that names the layer, or None.

    A pattern is one component of the dotted name or several in a row; each may hold ``*`` and ``?``.

    Example:
        >>> name_matches('backbone.layer2.0.downsample.0', ['conv1', 'downsample'])
        'downsample'
        >>> name_matches('backbone.layer2.0.conv1', ['layer', 'conv'])
    """
    parts = name.split('.')
    for pattern in patterns:
        wanted = pattern.split('.')
        for start in range(len(parts) - len(wanted) + 1):
            if all(fnmatchcase(part, want) for part, want in zip(parts[start:], wanted, strict=False)):
                return pattern
    return None
