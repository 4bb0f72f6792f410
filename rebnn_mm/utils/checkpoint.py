"""Compares checkpoints with models, and explains one that cannot be read.

mmengine loads checkpoints non-strictly: parameters that the file lacks keep their random values, and the run goes on.
A binary layer and a real one in its place have weights of the same name and shape, so the real one would be filled
with latent weights: what the quantizers have besides the weight tells the two apart.
"""

from __future__ import annotations

import functools
import os.path as osp
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError

import numpy as np
import torch
from mmengine.model import BaseTTAModel
from mmengine.runner import CheckpointLoader, find_latest_checkpoint
from mmengine.runner.checkpoint import (
    load_from_http,
    load_from_local,
    load_from_mmcls,
    load_from_openmmlab,
    load_from_torchvision,
)
from torch import Tensor, nn

from rebnn_mm.errors import RebnnError, did_you_mean

STARTS = Path(__file__).resolve().parents[1] / 'starts'
"""Trained backbones and detectors, ``<name>.npz`` with its card ``<name>.md``; ``rebnn://<name>`` names one."""

SCALE = 'scale of '
"""Begins the name of the factor, in the file of a start, by which int8 values or signs are multiplied."""

SIGNS = 'signs of '
"""Begins the name of signs there, eight input channels a byte, 1 for a weight of at least 0."""

QUANTIZER = re.compile(r'(?:(?P<layer>.+?)\.)?\w+_quantizer\.')
"""How the key of a quantizer's state begins, after the name of its layer."""

USE_ITS_CONFIG = 'Use the config it was trained with (it is next to it, in the work dir).'


class KeyMatch(NamedTuple):
    """How a state dict fits a model; buffers count only where they are a quantizer's."""

    matched: list[str]  # parameters of the model that the state dict holds in the same shape
    missing: list[str]  # parameters that it lacks
    reshaped: list[str]  # parameters that it holds in another shape, as 'key (checkpoint shape, model shape)'
    unexpected: list[str]  # keys of the state dict that the model does not have


def check_checkpoint_file(path: str) -> None:
    """Check that a checkpoint is a file or a URL."""
    if '://' not in path and not osp.isfile(osp.expanduser(path)):
        raise RebnnError(f'no checkpoint at {path}.')


def explain_failure(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a loader of mmengine's checkpoints, which raises a RebnnError then where the user has to act."""

    @functools.wraps(load)
    def run(filename: str, map_location: Any = None, **options: Any) -> Any:
        try:
            return load(filename, map_location=map_location, **options)
        except URLError as error:
            raise RebnnError(
                f'{filename!r} cannot be downloaded: {error.reason}.',
                fix='Download it where there is a network, and name the file in its place.',
            ) from error
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            if not osp.isfile(osp.expanduser(filename)):
                raise
            reason = (str(error).splitlines() or ['it is empty'])[0].split('. ')[0].rstrip('.')
            size = osp.getsize(osp.expanduser(filename))
            raise RebnnError(
                f'{filename} cannot be read as a checkpoint: {reason} ({size} bytes). It is cut off, or another kind '
                'of file.',
                fix='Copy or download it again, or take an earlier one.',
            ) from error

    return run


def load_start(filename: str, map_location: Any = None) -> dict[str, dict[str, Tensor]]:
    """Load a start of the package as a checkpoint; mmengine calls it for names that begin with ``rebnn://``."""
    name = filename.removeprefix('rebnn://')
    known = sorted(path.stem for path in STARTS.glob('*.npz'))
    if name not in known:
        near = did_you_mean(name, known) or f'There is {", ".join(known) or "none"}.'
        raise RebnnError(f'the package has no start {name!r}.', filename, near)
    with np.load(STARTS / f'{name}.npz') as stored:
        arrays = {key: np.unpackbits(stored[key], axis=1) if key.startswith(SIGNS) else stored[key] for key in stored}
    values = {key: torch.from_numpy(array).to(map_location) for key, array in arrays.items()}
    scales = {key.removeprefix(SCALE): values.pop(key) for key in list(values) if key.startswith(SCALE)}
    for key in [key for key in values if key.startswith(SIGNS)]:
        values[key.removeprefix(SIGNS)] = values.pop(key).float() * 2 - 1
    return dict(state_dict=values | {key: values[key] * scale for key, scale in scales.items()})


CheckpointLoader.register_scheme('rebnn://', load_start, force=True)
for _prefixes, _load in (
    ('', load_from_local),
    (('http://', 'https://'), load_from_http),
    (('modelzoo://', 'torchvision://'), load_from_torchvision),
    (('open-mmlab://', 'openmmlab://'), load_from_openmmlab),
    ('mmcls://', load_from_mmcls),
):
    CheckpointLoader.register_scheme(_prefixes, explain_failure(_load), force=True)


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """The last checkpoint written to a work dir, None if none was; also where the folder has been moved since."""
    path: str | None = find_latest_checkpoint(str(work_dir))
    if path is None or osp.isfile(path):
        return path
    moved = Path(work_dir, osp.basename(path))
    return str(moved) if moved.is_file() else path


def match_keys(model: nn.Module, state_dict: Mapping[str, Tensor]) -> KeyMatch:
    """Compare the parameters of ``model`` and the buffers of its quantizers with a state dict, as mmengine does."""
    found = {re.sub(r'^module\.', '', key): value for key, value in state_dict.items()}
    matched, missing, reshaped = [], [], []
    own = model.state_dict()
    needed = dict(model.named_parameters()) | {key: own[key] for key in own if QUANTIZER.match(key)}
    for name, parameter in needed.items():
        if name not in found:
            missing.append(name)
        elif found[name].shape != parameter.shape:
            reshaped.append(f'{name} ({_shape(found[name])} in the checkpoint, {_shape(parameter)} in the model)')
        else:
            matched.append(name)
    unexpected = sorted(set(found) - set(own))
    return KeyMatch(matched, missing, reshaped, unexpected)


def check_checkpoint(model: nn.Module, path: str, *, partial: bool = False) -> None:
    """Check that a checkpoint fills a model and both have the same quantizers; if ``partial``, that it fills some."""
    checkpoint = CheckpointLoader.load_checkpoint(path, map_location='cpu', logger='silent')
    check_state(model, checkpoint.get('state_dict', checkpoint), path, partial=partial)


def check_state(model: nn.Module, state_dict: Mapping[str, Tensor], path: str, *, partial: bool = False) -> None:
    """Check the state dict of a checkpoint, as :func:`check_checkpoint`."""
    model = model.module if isinstance(model, BaseTTAModel) else model
    match = match_keys(model, state_dict)
    wrong = [*match.missing, *match.reshaped]
    if partial and match.matched:
        return
    if all(QUANTIZER.match(key) for key in wrong):
        deeper = of_longer_stacks(model, match.unexpected)
        check_quantizers(match, path)
        if deeper:
            raise RebnnError(f'{path} is of a deeper network: this model has no {deeper[0]}.', fix=USE_ITS_CONFIG)
        return
    total = len(match.matched) + len(wrong)
    parts = [f'{path} fills {len(match.matched)} of the {total} parameters of this model']
    for name, keys in (
        ('missing', match.missing),
        ('of another shape', match.reshaped),
        ('unexpected', match.unexpected),
    ):
        if keys:
            parts.append(f'{name}: {", ".join(keys[:3])}{", ..." if len(keys) > 3 else ""}')
    raise RebnnError('; '.join(parts), fix=USE_ITS_CONFIG)


def of_longer_stacks(model: nn.Module, keys: Iterable[str]) -> list[str]:
    """Select keys of layers beyond the end of a stack; others, as of a head for masks, do not change the result."""
    modules = dict(model.named_modules())

    def around(key: str) -> nn.Module:
        path = key
        while path not in modules:
            path = path.rpartition('.')[0]
        return modules[path]

    return [key for key in keys if isinstance(around(key), nn.Sequential | nn.ModuleList)]


def check_quantizers(match: KeyMatch, path: str) -> None:
    """Check that a checkpoint and a model whose weights fit have the same quantizers."""
    for keys, cause in (
        (match.unexpected, 'with a quantizer that this model does not give it ({} is in the checkpoint only)'),
        (match.missing, 'without a quantizer that this model gives it ({} is in the model only)'),
        (match.reshaped, 'with a quantizer of another shape: {}'),
    ):
        found = {key: at['layer'] or 'itself' for key in keys if (at := QUANTIZER.match(key))}
        if found:
            key, layer = next(iter(found.items()))
            others = len(set(found.values())) - 1
            also = f', as {others} more,' if others else ''
            raise RebnnError(f'the layer {layer}{also} was trained {cause.format(key)}.', path, USE_ITS_CONFIG)


def _shape(tensor: Tensor) -> str:
    return 'x'.join(map(str, tensor.shape)) or 'scalar'
