"""Names of layers inside a model, and the patterns that pick them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def name_matches(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that names the layer, or None.

    A pattern is one component of the dotted name or several in a row, such as ``'downsample'``, ``'layer1.*.conv1'``;
    each may hold ``*`` and ``?``.
    """
    parts = name.split('.')
    for pattern in patterns:
        wanted = pattern.split('.')
        for start in range(len(parts) - len(wanted) + 1):
            if all(fnmatchcase(part, want) for part, want in zip(parts[start:], wanted, strict=False)):
                return pattern
    return None
