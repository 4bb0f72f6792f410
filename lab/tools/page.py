"""The parts of a Markdown page that commands write."""

from __future__ import annotations

from collections.abc import Mapping

from rebnn_mm.errors import RebnnError


def renew(page: str, parts: Mapping[str, str]) -> str:
    """Put other text between a page's lines ``<!-- begin NAME -->`` and ``<!-- end NAME -->``."""
    for name, text in parts.items():
        lines = [f'<!-- {which} {name} -->\n' for which in ('begin', 'end')]
        head, begin, rest = page.partition(lines[0])
        _, end, tail = rest.partition(lines[1])
        if not (begin and end) or any(line in tail for line in lines):
            raise RebnnError(f'the page needs the lines {lines[0].strip()} and {lines[1].strip()}, once each.')
        page = f'{head}{begin}{text}{end}{tail}'
    return page
