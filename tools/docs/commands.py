"""Write the page of all commands, docs/commands.md, from what they print for --help.

python -m tools.docs.commands
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import textwrap
from unittest import mock

from demo.run_demo import ROOT
from rebnn_command import COMMANDS

PAGE = ROOT / 'docs/commands.md'
HEAD = """# Commands

Every command of `rebnn` with its options, as `rebnn COMMAND --help` prints them. In a clone,
`python tools/train.py` and the other scripts of `tools` take the same options.
Written by `python -m tools.docs.commands`.
"""


def read_help(name: str) -> str:
    """Read what ``rebnn <name> --help`` prints, its lines broken at 80 characters."""
    command = COMMANDS[name]
    module = importlib.import_module('rebnn_check_env' if name == 'check' else f'rebnn_mm.{command.module}')
    printed = io.StringIO()
    with (
        mock.patch.object(sys, 'argv', [f'rebnn {name}', '--help']),
        mock.patch.dict(os.environ, COLUMNS='80'),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        module.main()
    lines = []
    for line in printed.getvalue().strip().splitlines():
        indent = ' ' * (len(line) - len(line.lstrip()) + 2 * line.startswith(' '))
        lines += textwrap.wrap(line, 80, subsequent_indent=indent, break_on_hyphens=False) or ['']
    return '\n'.join(lines)


def write_page() -> str:
    """Write the page: a heading, a line and the help of each command."""
    parts = [HEAD]
    for name, command in COMMANDS.items():
        about = command.about[0].upper() + command.about[1:]
        parts.append(f'## rebnn {name}\n\n{about}.\n\n```text\n{read_help(name)}\n```\n')
    return '\n'.join(parts)


def main() -> None:
    PAGE.write_text(write_page(), encoding='utf-8')
    print(f'page: {PAGE}')


if __name__ == '__main__':
    main()
