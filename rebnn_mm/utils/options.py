"""Refuses options that nobody reads, and says which one was meant."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import RebnnError, did_you_mean
from ..registry import list_classes


def check_options(
    where: str, names: Iterable[str], taker: type | Callable[..., Any], family: type | None = None
) -> None:
    """Check that a class, with its bases where it takes ``**kwargs``, or a function has parameters of these names."""
    known = parameters(taker)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise find_unknown_options(where, unknown, taker, family)


def find_unknown_options(
    where: str, names: Iterable[str], taker: type | Callable[..., Any], family: type | None = None
) -> RebnnError:
    """Make the error for options that a class or function does not have, with the classes of ``family`` that do."""
    names = list(names)
    relatives: dict[str, type] = list_classes(family) if family else {}
    others = {name: parameters(cls) for name, cls in relatives.items()}
    left = [name for name in names if any(name in options for options in others.values())]
    if left:
        owners = [other for other, options in others.items() if any(name in options for name in left)]
        return RebnnError(
            f'{where}: no option {", ".join(left)} (of {", ".join(owners)}); remove what is left of the other type '
            f'or, where a base config sets it, add _delete_=True next to type={getattr(taker, "__name__", where)!r}.'
        )
    known = parameters(taker)
    fix = f'{did_you_mean(names[0], known)} Known: {", ".join(known)}'.lstrip()
    return RebnnError(f'no option {names[0]!r}', where, fix)


def parameters(taker: type | Callable[..., Any]) -> list[str]:
    """The parameters of a function or of the constructor of a class, with those that it hands on to its bases."""
    if isinstance(taker, type):
        # Without self, and without object's own, which takes anything.
        inits = [base.__dict__['__init__'] for base in taker.__mro__[:-1] if '__init__' in base.__dict__]
        signatures = [list(inspect.signature(init).parameters.values())[1:] for init in inits]
    else:
        signatures = [list(inspect.signature(taker).parameters.values())]
    names: dict[str, None] = {}
    for signature in signatures:
        names.update((p.name, None) for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        if not any(p.kind == p.VAR_KEYWORD for p in signature):
            break
    return list(names)
