"""Write the page of all commands, docs/commands.md, from what they print for --help.

python -m tools.docs.commands
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
import textwrap
from unittest import mock

from demo.run_demo import ROOT
from rebnn_command import COMMANDS

PAGE = ROOT / 'docs/commands.md'
HEAD = """# Commands

Each command of `rebnn` with its arguments and an example. `rebnn COMMAND --help` explains every option.
This page is written by `python -m tools.docs.commands`.
"""


def read_help(name: str) -> str:
    """Read what ``rebnn <name> --help`` prints."""
    command = COMMANDS[name]
    module = importlib.import_module(f'rebnn_mm.{"cli.checks.environment" if name == "check" else command.module}')
    printed = io.StringIO()
    with (
        mock.patch.object(sys, 'argv', [f'rebnn {name}', '--help']),
        mock.patch.dict(os.environ, COLUMNS='80'),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        module.main()
    return printed.getvalue()


def fold(text: str, end: str = '') -> str:
    """Break a line at 80 characters, outside of quotation marks, and end all parts but the last with ``end``."""
    words = [word.replace(' ', '\0') for word in re.findall(r'"[^"]*"|\S+', text)]
    lines = textwrap.wrap(' '.join(words), 80 - len(end), subsequent_indent='    ', break_on_hyphens=False)
    return f'{end}\n'.join(lines).replace('\0', ' ')


def write_page() -> str:
    """Write the page: a heading, a line, the usage and the first example of each command."""
    parts = [HEAD]
    for name, command in COMMANDS.items():
        about = command.about[0].upper() + command.about[1:]
        usage, _, rest = read_help(name).partition('\n\n')
        usage = '\n    '.join(fold(line) for line in usage.removeprefix('usage: ').splitlines())
        parts.append(f'## rebnn {name}\n\n{about}.\n\n```sh\n{usage}\n```\n')
        if example := re.search(rf'^ *(rebnn[ -]{name} .*(?:\n {{6,}}\S.*)*)', rest, re.MULTILINE):
            parts.append(f'```shell\n{fold(example[1], " " + chr(92))}\n```\n')
    return '\n'.join(parts)


def main() -> None:
    PAGE.write_text(write_page(), encoding='utf-8')
    print(f'page: {PAGE}')


if __name__ == '__main__':
    main()
