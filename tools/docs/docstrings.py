"""Makes Markdown of what docstrings have of reStructuredText: roles, formulas, literal blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe


def as_markdown(text: str) -> str:
    r"""A docstring for Markdown.

    Example:
        >>> as_markdown('Like :func:`~rebnn_mm.functional.sign`, with :math:`x^2`::\n\n    code')
        'Like `sign`, with `#!math x^2`:\n\n    code'
    """
    text = re.sub(r'^( *)\.\. math::(.*(?:\n(?:\1 +\S.*| *$))*)', _fence, text, flags=re.MULTILINE)
    text = re.sub(r':math:`([^`]+)`', r'`#!math \1`', text)
    text = re.sub(r':[a-z]+:`~[^`]*?(\w+)`', r'`\1`', text)
    text = re.sub(r':[a-z]+:`([^`]+)`', r'`\1`', text)
    # griffe knows examples by the plural; what is not a session is a block of code by its indentation
    text = re.sub(r'^( *)Example::$', r'\1**Example**', text, flags=re.MULTILINE)
    text = re.sub(r'^( *)Example:$', r'\1Examples:', text, flags=re.MULTILINE)
    return re.sub(r'::$', ':', text, flags=re.MULTILINE)


def _fence(found: re.Match[str]) -> str:
    indent, body = found.groups()
    lines = [line.strip() for line in body.strip().splitlines()]
    return '\n'.join(indent + line for line in ['```math', *filter(None, lines), '```', '']) + '\n'


class Docstrings(griffe.Extension):
    """Changes each docstring before it is read, and shows what packages import from their modules."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_module_members(self, *, mod: Any, **_: Any) -> None:
        """Take for public what a package imports from its own modules and others of ours."""
        if mod.is_init_module and mod.exports is None:
            mod.exports = [name for name, target in mod.imports.items() if target.startswith(f'{mod.package.path}.')]
