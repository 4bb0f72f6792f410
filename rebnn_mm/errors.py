"""The error that a user can put right, and how a command ends with it. Imports the standard library only."""

from __future__ import annotations

import argparse
import difflib
import functools
import io
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended, as shells have it."""

UNREAD = 141
"""Exit code of one whose output nobody reads any more, as shells have it."""


class RebnnError(ValueError):
    """A mistake of the user: what is wrong, where, and how to fix it; one sentence each.

    Args:
        what: what is wrong.
        where: the layer, file, key or flag; begins the message.
        fix: what to do; ends the message.

    Example:
        >>> raise RebnnError('no layer of that name', where='conv9', fix='Did you mean conv1?')
        Traceback (most recent call last):
        rebnn_mm.errors.RebnnError: conv9: no layer of that name. Did you mean conv1?
    """

    def __init__(self, what: str, where: str = '', fix: str = '') -> None:
        self.what, self.where, self.fix = what, where, fix
        text = f'{where}: {what}' if where else what
        super().__init__(f'{text.removesuffix(".")}. {fix}' if fix else text)


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Ask for the nearest of the known names, in either case of letters; '' if none is near."""
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1, cutoff=cutoff)
    return f'Did you mean {lower[close[0]]!r}?' if close else ''


class CommandParser(argparse.ArgumentParser):
    """Parse the words of a command; a mistake is one line, and an option has to be written in full."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """End with one line, which names the option that was probably meant."""
        if message.startswith(('unrecognized', 'the following')):
            known = self._option_string_actions
            given = [word.partition('=')[0].rstrip(',') for word in message.split() if word.startswith('-')]
            near = did_you_mean(next((word for word in given if word not in known), ''), known)
            message += f'. {near or f"{self.prog} --help lists what it takes."}'
        self.exit(2, f'{self.prog}: {message}\n')


def report_errors(main: Callable[..., None]) -> Callable[..., None]:
    """Have a command end with one line on stderr where a :class:`RebnnError`, the system or Ctrl-C stops it.

    With ``--traceback`` in the command line, which the command itself does not see, they keep their traceback.
    """

    @functools.wraps(main)
    def run(*args: object, **kwargs: object) -> None:
        with_traceback = '--traceback' in sys.argv
        sys.argv = [word for word in sys.argv if word != '--traceback']
        for name in ('stdout', 'stderr'):
            if getattr(sys, name) is None:  # closed, as by >&-
                setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, 'w')))
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == 'strict':
            # names of files and classes may hold letters that the terminal has not
            sys.stdout.reconfigure(errors='backslashreplace')
        try:
            main(*args, **kwargs)
            print(end='', flush=True)  # what fails later, Python tells in its own way
        except (RebnnError, OSError, KeyboardInterrupt) as error:
            if with_traceback:
                raise
            if isinstance(error, KeyboardInterrupt):
                stop('stopped.', INTERRUPTED)
            if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
                stop('', UNREAD)
            text = str(error)
            if 'Original Traceback (most recent call last)' in text:  # of a loader's worker, which tells all its lines
                text = text.rstrip().rpartition('\n')[2].partition(': ')[2]
            stop(text)

    return run


def stop(text: str, code: int = 1) -> NoReturn:
    """End the program with one line on stderr, if any; of a distributed run, only the first process prints it."""
    try:
        print(end='', flush=True)
    except OSError:  # what is still buffered must not raise again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if text and int(os.environ.get('RANK', os.environ.get('SLURM_PROCID', 0))) == 0:
        folder, name = os.path.split(sys.argv[0])
        # An installed command is known by its name, a script by where it is.
        program = name if os.path.basename(folder) == 'bin' else os.path.relpath(sys.argv[0])
        print(f'{program}: {text}', file=sys.stderr)
    sys.exit(code)
