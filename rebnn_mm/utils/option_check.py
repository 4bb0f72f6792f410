"""Refuses options that nobody reads, and says which one was meant."""

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def check_options(where: str, names: Iterable[str], taker: type | Callable[..., Any]) -> None:
    """Check that a class or function has parameters of these names.

    A class that hands ``**kwargs`` on to its bases has their parameters, too.

    Args:
        where: what the options are given to, to begin the message with.
        names: names of the options.
        taker: the class or function that takes them.

    Raises:
        ValueError: one has no such parameter; the message names the nearest and all others.

    Example:
        >>> def paint(colour, width=1): ...
        >>> check_options('paint', ['color'], paint)
        Traceback (most recent call last):
        ValueError: paint: no option 'color'. Did you mean 'colour'? Known: colour, width
    """
    known = _parameters(taker)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'Did you mean {close[0]!r}? ' if close else ''
            raise ValueError(f'{where}: no option {name!r}. {hint}Known: {", ".join(known)}')


def _parameters(taker: type | Callable[..., Any]) -> list[str]:
    if isinstance(taker, type):
        # Without self, and without object's own, which takes anything.
        inits = [base.__dict__['__init__'] for base in taker.__mro__[:-1] if '__init__' in base.__dict__]
        signatures = [list(inspect.signature(init).parameters.values())[1:] for init in inits]
    else:
        signatures = [list(inspect.signature(taker).parameters.values())]
    names: dict[str, None] = {}
    for parameters in signatures:
        names.update((p.name, None) for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            break
    return list(names)
