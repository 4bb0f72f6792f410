"""Says in one sentence that a checkpoint does not exist or belongs to another architecture.

mmengine loads checkpoints non-strictly: parameters that the file lacks keep their random values, and the run goes on.
A binary layer and a real one in its place have weights of the same name and shape, so the real one would be filled
with latent weights: what the quantizers have beside the weight tells the two apart.
"""

from __future__ import annotations

import os.path as osp
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.model import BaseTTAModel
from mmengine.runner import CheckpointLoader, Runner, find_latest_checkpoint
from torch import Tensor, nn

QUANTIZER = re.compile(r'(?:(?P<layer>.+?)\.)?\w+_quantizer\.')
"""How the key of a quantizer's state begins, behind the name of its layer."""

USE_ITS_CONFIG = 'Use the config it was trained with (it lies beside it, in the work dir).'


class KeyMatch(NamedTuple):
    """How a state dict fits a model; buffers count only where they are a quantizer's.

    Attributes:
        matched: parameters of the model that the state dict holds in the same shape.
        missing: parameters that it lacks.
        reshaped: parameters that it holds in another shape, as 'key (checkpoint shape, model shape)'.
        unexpected: keys of the state dict that the model does not have.
    """

    matched: list[str]
    missing: list[str]
    reshaped: list[str]
    unexpected: list[str]


def missing_checkpoint(path: str) -> str | None:
    """One sentence on a local checkpoint that is not there, ``None`` if it is a file or a URL.

    Example:
        >>> print(missing_checkpoint('nowhere/epoch_1.pth'))
        no checkpoint at nowhere/epoch_1.pth.
    """
    if '://' in path or osp.isfile(osp.expanduser(path)):
        return None
    return f'no checkpoint at {path}.'


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """The last checkpoint that was written to a work dir, None if none was.

    mmengine notes its whole path; where the folder has been moved since, the file of that name in it is meant.
    """
    path: str | None = find_latest_checkpoint(str(work_dir))
    if path is None or osp.isfile(path):
        return path
    beside = Path(work_dir, osp.basename(path))
    return str(beside) if beside.is_file() else path


def match_keys(model: nn.Module, state_dict: Mapping[str, Tensor]) -> KeyMatch:
    """Compare the parameters of ``model`` with a state dict; buffers are not required, save those of quantizers.

    The prefix ``module.`` of distributed training is ignored, and a test-time-augmentation wrapper is looked through,
    as mmengine does when it loads.
    """
    if isinstance(model, BaseTTAModel):
        model = model.module
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


def mismatched_checkpoint(model: nn.Module, path: str, *, partial: bool = False) -> str | None:
    """One sentence on a checkpoint that does not fill the parameters of ``model``, ``None`` if it does.

    Quantizers that only one of the two has are such a mismatch too, whichever has them.

    Args:
        model: the built model.
        path: a local file or anything else mmengine loads.
        partial: accept a checkpoint that fills only some of the parameters, as fine-tuning does, and one with other
            quantizers, as a first stage or a real network has.

    Returns:
        How many parameters match, some of those that do not, and what to do about it.
    """
    checkpoint = CheckpointLoader.load_checkpoint(path, map_location='cpu')
    match = match_keys(model, checkpoint.get('state_dict', checkpoint))
    wrong = [*match.missing, *match.reshaped]
    if partial and match.matched:
        return None
    if all(QUANTIZER.match(key) for key in wrong):
        deeper = of_longer_stacks(model.module if isinstance(model, BaseTTAModel) else model, match.unexpected)
        return other_quantizers(match, path) or (
            f'{path} is of a deeper network: this model has no {deeper[0]}. {USE_ITS_CONFIG}' if deeper else None
        )
    total = len(match.matched) + len(wrong)
    parts = [f'{path} fills {len(match.matched)} of the {total} parameters of this model']
    for name, keys in (
        ('missing', match.missing),
        ('of another shape', match.reshaped),
        ('unexpected', match.unexpected),
    ):
        if keys:
            parts.append(f'{name}: {", ".join(keys[:3])}{", ..." if len(keys) > 3 else ""}')
    return f'{"; ".join(parts)}. {USE_ITS_CONFIG}'


def unfit_state(runner: Runner, checkpoint: Mapping[str, Any]) -> str | None:
    """Half a sentence on a checkpoint from which a training cannot go on as its config says, ``None`` if it can.

    mmengine takes optimizer and schedules as they were saved, whatever the config has by now.

    Args:
        runner: with its optimizer and its schedules built.
        checkpoint: as it was loaded.
    """
    groups = (checkpoint.get('optimizer') or {}).get('param_groups')
    # Several optimizers have a wrapper each; a wrapper adds the rate that it logs to its groups.
    own: Any = getattr(getattr(runner.optim_wrapper, 'optimizer', None), 'param_groups', None)
    if groups and own:
        if [len(group['params']) for group in groups] != [len(group['params']) for group in own]:
            return f'has {len(groups)} groups of parameters in its optimizer, and this config makes {len(own)} others'
        for key in ('betas', 'momentum'):
            if (key in groups[0]) != (key in own[0]):
                which = ('with', 'without') if key in groups[0] else ('without', 'with')
                return f'is of an optimizer {which[0]} {key}, and the one of this config is {which[1]}'
    states, own = checkpoint.get('param_schedulers'), runner.param_schedulers
    if states and isinstance(states, list) and isinstance(own, list):
        length = len(runner.train_dataloader)
        lasts = [s['end'] * (length if s['by_epoch'] else 1) for s in states if 'end' in s]
        asked = max((s.end * (length if s.by_epoch else 1) for s in own), default=0)
        steps = min(asked, runner.max_iters)
        if lasts and steps - max(lasts) > steps // 20:
            return (
                f'has schedules that end after {max(lasts)} steps, where this config trains {runner.max_iters}: they '
                'would stay as they are, and the rate at its last value'
            )
    return None


def of_longer_stacks(model: nn.Module, keys: Iterable[str]) -> list[str]:
    """Missing keys of layers beyond the end of a stack.

    Others, such as those of a head for masks, change nothing of what the model computes.
    """
    modules = dict(model.named_modules())

    def around(key: str) -> nn.Module:
        path = key
        while path not in modules:
            path = path.rpartition('.')[0]
        return modules[path]

    return [key for key in keys if isinstance(around(key), nn.Sequential | nn.ModuleList)]


def other_quantizers(match: KeyMatch, path: str) -> str | None:
    """One sentence on the quantizers that differ between a checkpoint and a model whose weights fit."""
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
            return f'{path}: the layer {layer}{also} was trained {cause.format(key)}. {USE_ITS_CONFIG}'
    return None


def _shape(tensor: Tensor) -> str:
    return 'x'.join(map(str, tensor.shape)) or 'scalar'
