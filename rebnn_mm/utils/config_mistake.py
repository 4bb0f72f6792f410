"""Puts a mistake in a config, a broken checkpoint or a full disk into one sentence, and leaves bugs their traceback.

OpenMMLab builds everything from the config while the program runs, so a misspelt word of it shows as an exception deep
in a library. Which exceptions are the user's to put right is told by where they were raised, not by what they say.
"""

from __future__ import annotations

import difflib
import dis
import errno
import inspect
import io
import os
import pickle
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.error import URLError

from mmengine.config import Config

from .config_file import missing_config
from .options import check_options

READ_BESIDE_ARGUMENTS = (
    'activation_checkpointing',
    'compile',
    'custom_imports',
    'detect_anomalous_params',
    'efficient_conv_bn_eval',
    'find_unused_parameters',
    'init_weights_for_test_or_val',
    'model_wrapper_cfg',
    'runner_type',
    'strategy',
    'sync_bn',
    'tta_model',
    'tta_pipeline',
)
"""Keys that runners and tools read in a config, in addition to the arguments of mmengine's Runner."""

BUILDERS = ('mmengine.registry.build_functions', 'mmcv.cnn.bricks.')
"""The modules whose functions ``build_...`` make an object from a dict with ``type``."""

UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")
MISSING = re.compile(r'missing \d+ required [\w-]+ arguments?: (.+)')

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""Errors of the file system that only the user can put right; those of the second kind where they name the file."""


class Mistake(ValueError):
    """One sentence for the user: which key, option or file, what is wrong, how to put it right."""


class Build(NamedTuple):
    """Object that was being built from a config.

    Attributes:
        kind: the ``type``, a name or the class itself; None if there was none.
        options: what else its dict holds.
        registry: where the name was looked up; None for a class.
    """

    kind: Any
    options: Mapping[str, Any]
    registry: Any


@contextmanager
def explained(cfg: Config | None = None, output: str | Path | None = None) -> Iterator[None]:
    """Turn the user's mistakes that show in the block into one sentence each; any other exception passes.

    They are: a ``type`` that no registry has, an option that the class of a ``type`` does not take or needs and does
    not get, a dict without ``type``, a value that a class of ours refuses, a checkpoint that cannot be
    read or downloaded, a disk that cannot be written.

    Args:
        cfg: the config in use, to name the key.
        output: what the block writes, to be named where the system does not say what could not be written.

    Raises:
        Mistake: one of these.

    Example:
        >>> from mmengine.registry import HOOKS
        >>> with explained(Config(dict(custom_hooks=[dict(type='EMAHok')]))):
        ...     HOOKS.build(dict(type='EMAHok'))
        Traceback (most recent call last):
            ...
        rebnn_mm.utils.config_mistake.Mistake: custom_hooks.0.type='EMAHok' is not registered (hook). Did you mean ...?
    """
    try:
        yield
    except Exception as error:
        sentence = _sentence(error, cfg, output)
        if sentence is None:
            raise
        raise Mistake(sentence) from error


def misspelt_key(cfg: Config, options: Mapping[str, Any]) -> str | None:
    """One sentence on the first key of ``--cfg-options`` that has no place in the config, ``None`` if all have one.

    As in mmengine, a dict of the config may be given new entries, also whole new dicts. A key is refused if it is new
    on the top level and nothing reads it there, if the name of a new dict nearly is that of an existing one, or if
    what it goes into is no dict and no list of that length.

    Example:
        >>> print(misspelt_key(Config(dict(model=dict(type='SSD'))), {'modle.x': 1}))
        --cfg-options modle.x: the config has no 'modle'. Did you mean 'model'?
        >>> misspelt_key(Config(dict(model=dict(type='SSD'))), {'model.with_cp': True, 'randomness.seed': 1})
    """
    for key in options:
        parts, node = key.split('.'), dict(cfg.items())
        for depth, part in enumerate(parts):
            above = '.'.join(parts[:depth])
            if f'{above}._delete_' in options:
                break
            problem = _no_place(node, part, above, last=depth == len(parts) - 1)
            if problem is not None:
                return f'--cfg-options {key}: {problem}'
            if isinstance(node, list):
                node = node[int(part)]
            elif part in node:
                node = node[part]
            else:
                break
    return None


def fitting_config(path: str | Path, options: Mapping[str, Any] | None = None) -> Config:
    """Read a config and put options into it, as ``--cfg-options`` does.

    Raises:
        ValueError: the file or the place of an option is not there, or the file is broken: it is a program, and may
            raise anything. One sentence says which.

    Example:
        >>> fitting_config('configs/cifar10/resnet20_cifar10.py', {'train_cfg.max_epochs': 3}).train_cfg.max_epochs
        3
    """
    problem = missing_config(path)
    if problem is not None:
        raise ValueError(problem)
    try:
        cfg = Config.fromfile(path)
    except Exception as error:
        raise ValueError(broken_config(path, error)) from error
    problem = misspelt_key(cfg, options or {})
    if problem is not None:
        raise ValueError(problem)
    cfg.merge_from_dict(dict(options or {}))
    return cfg


def broken_config(path: str | Path, error: Exception) -> str:
    """One sentence on a config that could not be read, with the file that is broken, it or a base, and its line.

    Example:
        >>> broken_config('my.py', NameError("name 'epochs' is not defined"))
        "my.py cannot be read: NameError: name 'epochs' is not defined."
    """
    places = []
    for step in _trail(error):
        frame = step.tb_frame
        if frame.f_code.co_name == '_file2dict':  # mmengine's, once for the config and each base above the mistake
            places.append(os.path.normpath(frame.f_locals['filename']))
        elif frame.f_code.co_name == '<module>':
            places.append(f'line {step.tb_lineno} of {frame.f_code.co_filename}')
    at = f' ({places[-1]})' if places else ''
    return f'{path} cannot be read: {type(error).__name__}: {str(error).rstrip(".")}{at}.'


def _no_place(node: Any, part: str, above: str, last: bool) -> str | None:
    """Why ``part`` cannot go into ``node``, which the config has under the key ``above``."""
    if isinstance(node, list):
        if part.isdigit() and int(part) < len(node):
            return None
        return f'{above} is a list of {len(node)}, counted from 0, without an entry {part!r}.'
    if not isinstance(node, Mapping):
        return (
            f'{above} is {reprlib.repr(node)} and has no entries. Add {above}._delete_=True to put a new dict in its '
            'place.'
        )
    if part in node:
        return None
    if not above:
        known = [*node, *_runner_keys()]
        near = _near(part, known) or 'Nothing reads a new one of that name.'
        return None if part in known else f'the config has no {part!r}. {near}'
    if last:
        return None
    # a name that differs in its number only is that of a sibling, not a misspelling: layer3, layer4
    close = difflib.get_close_matches(part, node, n=1, cutoff=0.8)
    if not close or re.sub(r'\d', '', close[0]) == re.sub(r'\d', '', part):
        return None
    return f'{above} has no {part!r}. Did you mean {close[0]!r}?'


def _runner_keys() -> list[str]:
    from mmengine.runner import Runner

    return [*list(inspect.signature(Runner.__init__).parameters)[1:], *READ_BESIDE_ARGUMENTS]


def _sentence(error: Exception, cfg: Config | None, output: str | Path | None) -> str | None:
    trail = list(_trail(error))
    last = trail[-1]
    if isinstance(error, OSError):
        if error.errno in FULL or (error.errno in FORBIDDEN and error.filename):
            return f'cannot write to {error.filename or output or _open_file(last) or "a file"}: {error.strerror}.'
        return _no_download(error, trail, cfg) if isinstance(error, URLError) else None
    if isinstance(error, RuntimeError | EOFError | pickle.UnpicklingError):
        return _broken_checkpoint(error, trail)
    if type(error) in (KeyError, ValueError) and _raised_by_us(last):
        return str(error.args[0])
    build = next((found for found in map(_build, reversed(trail)) if found is not None), None)
    if build is None:
        return None
    if isinstance(error, KeyError) and _build(last) is not None:
        return _unknown_type(build, last.tb_frame.f_locals['cfg'], cfg)
    missing = MISSING.search(str(error)) if isinstance(error, TypeError) and _build(last) is not None else None
    if missing:
        key = _key_in(cfg, lambda value: isinstance(value, Mapping) and value.get('type') == build.kind)
        return f'{key or "a dict"} with type={_name_of(build.kind)!r} lacks {missing[1]}, which it needs.'
    rejected = UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    return _unknown_option(build, rejected[1], cfg) if rejected else None


def _trail(error: Exception) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _build(step: TracebackType) -> Build | None:
    """Name what the function in a traceback was building; None if it builds nothing."""
    frame = step.tb_frame
    module = frame.f_globals.get('__name__', '')
    if not (module.startswith(BUILDERS) and frame.f_code.co_name.startswith('build_')):
        return None
    seen = frame.f_locals
    kind = next((seen[name] for name in ('obj_type', 'layer_type', 'padding_type') if name in seen), None)
    return Build(kind, seen.get('cfg_', seen.get('args')) or {}, seen.get('registry'))


def _unknown_type(build: Build, built: Any, cfg: Config | None) -> str | None:
    if build.kind is None:
        return f'{_key_in(cfg, lambda value: value == built) or built} has no type, which says what to build.'
    key = _key_in(cfg, lambda value: value == build.kind)
    near = _near(build.kind, _names(build.registry))
    return (
        f'{key or "type"}={build.kind!r} is not registered ({build.registry.name}). '
        f'{near or "Correct the name, or import the module that registers it (custom_imports)."}'
    )


def _name_of(kind: Any) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def _unknown_option(build: Build, option: str, cfg: Config | None) -> str | None:
    if option not in build.options:
        return None
    cls = build.registry.get(build.kind) if isinstance(build.kind, str) else build.kind
    key = _key_in(
        cfg, lambda value: isinstance(value, Mapping) and value.get('type') == build.kind and option in value
    )
    try:
        check_options(f'{key} of type {cls.__name__}' if key else cls.__name__, [option], cls)
    except ValueError as error:
        return f'{error}.'
    return None  # the class does take it, so the mistake is in its code


def _names(registry: Any) -> Iterator[str]:
    """The names that a config may use where this registry is asked: its own, its parents', and others with scope."""
    while registry is not None:
        yield from registry.module_dict
        if registry.parent is None:
            yield from (f'{scope}.{name}' for scope, child in registry.children.items() for name in child.module_dict)
        registry = registry.parent


def _near(name: str, names: Iterable[str]) -> str:
    """A question that gives the nearest name, '' if none is near."""
    lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return f'Did you mean {lower[close[0]]!r}?' if close else ''


def _key_in(cfg: Config | None, wanted: Callable[[Any], bool]) -> str:
    """The dotted key of the first value of the config that is wanted, '' if there is none."""
    sections = dict(cfg.items()) if cfg is not None else {}
    read = _runner_keys()
    # a variable of the config that a section was made from comes after the section
    for name in sorted(sections, key=lambda name: name not in read):
        for key, value in _values(sections[name], name):
            if wanted(value):
                return key
    return ''


def _values(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    yield key, node
    if isinstance(node, Mapping):
        for name, inner in node.items():
            yield from _values(inner, f'{key}.{name}')
    elif isinstance(node, list | tuple):
        for index, inner in enumerate(node):
            yield from _values(inner, f'{key}.{index}')


def _broken_checkpoint(error: Exception, trail: Iterable[TracebackType]) -> str | None:
    from mmengine.runner.checkpoint import load_from_local

    for step in trail:
        if step.tb_frame.f_code is load_from_local.__code__:
            path = step.tb_frame.f_locals['filename']
            reason = (str(error).splitlines() or ['it is empty'])[0].split('. ')[0].rstrip('.')
            return (
                f'{path} cannot be read as a checkpoint: {reason} ({os.path.getsize(path)} bytes). It is cut off, or '
                'another kind of file. Copy or download it again, or take an earlier one.'
            )
    return None


def _no_download(error: URLError, trail: Iterable[TracebackType], cfg: Config | None) -> str | None:
    seen = [step.tb_frame.f_locals for step in trail]
    named = next((names['filename'] for names in seen if isinstance(names.get('filename'), str)), None)
    address = next((names['url'] for names in seen if isinstance(names.get('url'), str)), None)
    if named is None or address is None:
        return None
    key = _key_in(cfg, lambda value: value == named)
    return (
        f'{f"{key}=" if key else ""}{named!r} cannot be downloaded from {address}: {error.reason}. Download it where '
        f'there is a network, and name the file{f" as {key}" if key else ""}.'
    )


def _raised_by_us(step: TracebackType) -> bool:
    """Whether one of our own modules said ``raise``: what it says then is a sentence for the user."""
    frame = step.tb_frame
    ours = frame.f_globals.get('__name__', '').startswith('rebnn_mm.')
    return ours and dis.opname[frame.f_code.co_code[step.tb_lasti]] == 'RAISE_VARARGS'


def _open_file(step: TracebackType) -> str | None:
    """The file that a function had opened when it failed; a failed write does not say which it was."""
    files = (getattr(value, 'name', None) for value in step.tb_frame.f_locals.values() if isinstance(value, io.IOBase))
    return next((name for name in files if isinstance(name, str)), None)
