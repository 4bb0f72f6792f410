"""Replaces generated parts of a page and leaves the rest alone."""

import re
from collections.abc import Mapping


def replace_sections(page: str, sections: Mapping[str, str]) -> str:
    r"""The page with new text between its markers.

    A part stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, each on a line of its own.

    Args:
        page: Markdown.
        sections: new text by name.

    Raises:
        ValueError: the page has no such markers, or has them twice.

    Example:
        >>> replace_sections('<!-- begin a -->\nold\n<!-- end a -->\n', {'a': 'new\n'})
        '<!-- begin a -->\nnew\n<!-- end a -->\n'
    """
    for name, text in sections.items():
        begin, end = f'<!-- begin {name} -->\n', f'<!-- end {name} -->\n'
        pattern = re.escape(begin) + '.*?' + re.escape(end)
        found = len(re.findall(pattern, page, flags=re.DOTALL))
        if found != 1:
            raise ValueError(
                f'the page has {found} parts between {begin.strip()} and {end.strip()}, and one is needed. '
                'Put both lines where the part belongs.'
            )
        page = re.sub(pattern, lambda _: begin + text + end, page, flags=re.DOTALL)  # noqa: B023
    return page
