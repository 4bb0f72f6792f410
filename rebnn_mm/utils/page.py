"""The parts of a Markdown page that commands write."""

from __future__ import annotations

from collections.abc import Mapping

from rebnn_mm.errors import RebnnError


def renew(page: str, parts: Mapping[str, str]) -> str:
    r"""Put other text between a page's lines ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

    Args:
        page: Markdown.
        parts: new text by name; each ends with a line's end.

    Raises:
        ValueError: the page does not have both lines of a part once.

    Example:
        >>> page = 'Files:\n<!-- begin choice -->\nold\n<!-- end choice -->\n'
        >>> renew(page, {'choice': 'new\n'}) == page.replace('old', 'new')
        True
    """
    for name, text in parts.items():
        lines = [f'<!-- {which} {name} -->\n' for which in ('begin', 'end')]
        head, begin, rest = page.partition(lines[0])
        _, end, tail = rest.partition(lines[1])
        if not (begin and end) or any(line in tail for line in lines):
            raise RebnnError(f'the page needs the lines {lines[0].strip()} and {lines[1].strip()}, once each.')
        page = f'{head}{begin}{text}{end}{tail}'
    return page
