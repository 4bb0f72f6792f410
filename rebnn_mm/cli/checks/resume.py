"""Refuses to resume from a checkpoint whose state does not fit the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner

from rebnn_mm.errors import RebnnError


class ResumeCheck(Hook):
    """Stops where the state of a checkpoint does not fit the config."""

    def __init__(self, path: str) -> None:
        self.path = path

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Before optimizer and schedules are loaded."""
        _check_state(runner, checkpoint, self.path)
        if 'optimizer' not in checkpoint:
            runner.logger.warning(
                f'--resume: {self.path} has no state of the optimizer (save_optimizer=False of CheckpointHook), whose '
                'momenta start again.'
            )


def _check_state(runner: Runner, checkpoint: Mapping[str, Any], path: str) -> None:
    """Refuse other optimizers and schedules, which mmengine takes as they were saved, whatever the config has now."""
    where = f'--resume: {path}'
    fix = f'To go on with the new settings, start from its weights: --cfg-options load_from={path} without --resume.'
    groups = (checkpoint.get('optimizer') or {}).get('param_groups')
    # Several optimizers have a wrapper each; a wrapper adds the rate that it logs to its groups.
    own: Any = getattr(getattr(runner.optim_wrapper, 'optimizer', None), 'param_groups', None)
    if groups and own:
        if [len(group['params']) for group in groups] != [len(group['params']) for group in own]:
            what = f'has {len(groups)} groups of parameters in its optimizer, and this config makes {len(own)} others'
            raise RebnnError(f'{where} {what}', fix=fix)
        for key in ('betas', 'momentum'):
            if (key in groups[0]) != (key in own[0]):
                which = ('with', 'without') if key in groups[0] else ('without', 'with')
                what = f'is of an optimizer {which[0]} {key}, and the one of this config is {which[1]}'
                raise RebnnError(f'{where} {what}', fix=fix)
    states, own = checkpoint.get('param_schedulers'), runner.param_schedulers
    if states and isinstance(states, list) and isinstance(own, list):
        length = len(runner.train_dataloader)
        lasts = [s['end'] * (length if s['by_epoch'] else 1) for s in states if 'end' in s]
        asked = max((s.end * (length if s.by_epoch else 1) for s in own), default=0)
        steps = min(asked, runner.max_iters)
        if lasts and steps - max(lasts) > steps // 20:
            raise RebnnError(
                f'{where} has schedules that end after {max(lasts)} steps, where this config trains '
                f'{runner.max_iters}: they would stay as they are, and the rate at its last value',
                fix=fix,
            )
