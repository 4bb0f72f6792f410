"""Explains the exceptions with which OpenMMLab answers a mistake in a config, and leaves bugs their traceback."""

from __future__ import annotations

import errno
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mmengine.registry
from mmengine.config import Config
from mmengine.registry import Registry

from ..errors import RebnnError, did_you_mean
from .config_file import runner_keys
from .options import check_options

UNREGISTERED = re.compile(r'(\S+) is not in the \S+?::(.+?) registry|Cannot find .+ in registry')
UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")
MISSING = re.compile(r'(\w+)(?:\.__init__)?\(\) missing \d+ required [\w-]+ arguments?: (.+)')
REFUSED = re.compile(r'Invalid (learning rate|lr|momentum|weight_decay|beta|epsilon)\b')
"""Begins what PyTorch's optimizers raise."""

NOTHING = 'need at least one array to concatenate'
"""What mmengine's data sets raise that hold no entry."""

UNREADABLE = 'failed to load image: '
"""What mmcv's loader raises, before the path, for a file that OpenCV cannot read."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""Errors of the file system that only the user can put right; those of the second kind where they name the file."""


@contextmanager
def user_errors(cfg: Config | None = None, output: str | Path | None = None) -> Iterator[None]:
    """Raise a :class:`RebnnError` for what the user can put right in the block; any other exception passes.

    That is a ``type`` that no registry has, an option that its class does not take or needs and does not get, a dict
    without ``type``, a number that an optimizer refuses, a data set that holds nothing, an image that cannot be read,
    and a disk that cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL or (error.errno in FORBIDDEN and error.filename):
            name = error.filename or output or (cfg or {}).get('work_dir') or 'a file'
            raise RebnnError(f'cannot write to {name}: {error.strerror}.') from error
        raise
    except ValueError as error:
        if REFUSED.match(str(error)):
            raise RebnnError(f'PyTorch refuses it: {error}.', 'optim_wrapper.optimizer') from error
        files = {value for key, value in _values(cfg or Config()) if key.endswith('.ann_file') and value}
        if str(error) == NOTHING and files:
            what = 'a data set has no entry, or none that its filter_cfg keeps'
            raise RebnnError(what, ' or '.join(sorted(files)), 'Name data that have some.') from error
        raise
    except AssertionError as error:
        _, unreadable, path = str(error).rpartition(UNREADABLE)  # behind the traceback of a loader's worker
        if unreadable:
            what = 'it cannot be read as an image'
            raise RebnnError(
                what, path.strip(), 'Copy or download it again, or leave it out of the labels.'
            ) from error
        raise
    except (KeyError, TypeError) as error:
        mistake = _mistake(str(error.args[0]) if error.args else '', cfg or Config())
        if mistake is None:
            raise
        raise mistake from error


def _mistake(text: str, cfg: Config) -> RebnnError | None:
    """Find what is wrong with the config where mmengine or mmcv raises a KeyError or a TypeError of this text."""
    parts = [(key, part) for key, part in _values(cfg) if isinstance(part, Mapping)]
    if found := UNREGISTERED.search(text):
        name, kind = found.groups()
        if name is None:  # mmcv does not say which
            name = next(
                (part['type'] for _, part in parts if 'type' in part and not _classes(part['type'], cfg)), None
            )
        return None if name is None else _explain_unregistered(name, kind or 'model', cfg)
    if 'must contain the key "type"' in text:
        untyped = [key for key, part in parts if 'type' not in part and (str(part) in text or key.endswith('_cfg'))]
        return RebnnError(f'{untyped[0]} has no type, which says what to build.') if untyped else None
    if found := UNEXPECTED.search(text):
        for key, part in parts:
            classes = _classes(part.get('type'), cfg) if found[1] in part else []
            if len(classes) == 1:
                check_options(f'{key} of type {classes[0].__name__}', [found[1]], classes[0])
    if found := MISSING.search(text):
        for key, part in parts:
            bases = [base.__name__ for cls in _classes(part.get('type'), cfg) for base in cls.__mro__]
            if found[1] in bases:
                return RebnnError(f'{key} with type={part["type"]!r} lacks {found[2]}, which it needs.')
    return None


def _explain_unregistered(name: str, kind: str, cfg: Config) -> RebnnError:
    key = next((key for key, value in _values(cfg) if value == name), 'type')
    names: list[str] = []
    for registry in _registries():
        if kind not in (registry.name, *(child.name for child in registry.children.values())):
            continue
        names += registry.module_dict
        for scope, child in registry.children.items():
            prefix = '' if scope == cfg.get('default_scope') else f'{scope}.'
            names += (f'{prefix}{each}' for each in child.module_dict)
    near = did_you_mean(name, names)
    fix = near or 'Correct the name, or import the module that registers it (custom_imports).'
    return RebnnError(f'{key}={name!r} is not registered ({kind})', fix=fix)


def _registries() -> list[Registry]:
    return [each for each in vars(mmengine.registry).values() if isinstance(each, Registry)]


def _classes(kind: Any, cfg: Config) -> list[type]:
    """The classes that a ``type`` may mean; a part does not say in which registry it is looked up."""
    if not isinstance(kind, str):
        return [kind] if inspect.isclass(kind) else []
    found = {getattr(sys.modules.get('mmcv.ops'), kind, None)}
    for root in _registries():
        with root.switch_scope_and_registry(cfg.get('default_scope')) as registry:
            found.add(registry.get(kind))
    return [cls for cls in found if inspect.isclass(cls)]


def _values(cfg: Config) -> Iterator[tuple[str, Any]]:
    sections, read = dict(cfg.items()), runner_keys()
    # a variable of the config that a section was made from comes after the section
    for name in sorted(sections, key=lambda name: name not in read):
        yield from values_below(sections[name], name)


def values_below(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """A value of a config and all within it, from the outside in, each with its dotted key."""
    yield key, node
    entries = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list | tuple) else ()
    for name, inner in entries:
        yield from values_below(inner, f'{key}.{name}')
