"""The mmengine hook that every binarization method shares."""

import logging
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from mmengine.dist import broadcast
from mmengine.hooks import EMAHook, Hook, LoggerHook
from mmengine.logging import print_log
from mmengine.model import BaseModel, is_model_wrapper
from mmengine.optim import OptimWrapper
from mmengine.registry import HOOKS
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import nn
from torch.optim import SGD, Optimizer

from ..errors import RebnnError
from ..layers import BinaryLayer, calibrate_shifts
from ..layers.report import layer_report
from ..quantizers import ActivationQuantizer, Quantizer
from .method_driver import MethodDriver
from .optim_constructor import LATENT, REFERENCE_MAGNITUDE, WITHOUT_DECAY, apply_relative_rates, parameter_roles

SGD_WAY = 200
"""SGD turns about as many signs as there are where rate times steps is this, with weights of the reference magnitude;
from the SGD rows of lab/reports/flips.md."""

A_TRIAL = 200
"""Trainings of fewer steps are not meant to turn every sign."""


@HOOKS.register_module()
class BinaryHook(Hook):
    """Carries a binarization method through an mmengine run: ``custom_hooks=[dict(type='BinaryHook')]``.

    - Logs once, in training, validation and testing, which layers are binary, which are real and why.
    - Before training: starts scaling factors from the weights as loaded and the shifts of swapped layers from one
      batch of training data (:func:`rebnn_mm.layers.calibrate_shifts`), unless a checkpoint brought them; gives latent
      weights the rates that follow their magnitude (:func:`apply_relative_rates`).
    - During training: schedules, per-epoch updates, rules at the optimizer's step and weight constraints of the method
      (:class:`MethodDriver`).

    A resumed run continues where it stood. ReBNN has a hook that does more, :class:`ReBNNHook`.

    Args:
        calibrate: whether shifts are started from data.
        schedule: how often schedules move: ``'epoch'``, as the methods' papers have it, ``'iter'``, or None for
            epochs where the train loop has epochs.

    Raises:
        ValueError: an unknown ``schedule``, ``'epoch'`` with a loop that has no epochs, or a fused optimizer with AMP.
    """

    # Before the LoggerHook (BELOW_NORMAL), which prints what a subclass may write.
    priority = 'NORMAL'

    def __init__(self, calibrate: bool = True, schedule: str | None = None) -> None:
        if schedule not in (None, 'epoch', 'iter'):
            raise RebnnError(f"{type(self).__name__}: schedule={schedule!r} is unknown; use 'epoch', 'iter' or None")
        self.calibrate = calibrate
        self.schedule = schedule
        self.driver: MethodDriver | None = None
        self._reported = False

    def before_run(self, runner: Runner) -> None:
        if not self._reported:
            table = layer_report(unwrap_model(runner.model))
            print_log(f'binary and full-precision layers:\n{table}', logger='current')
            self._reported = True

    def before_train(self, runner: Runner) -> None:
        self.after_train(runner)  # where an error has ended a training before
        model = unwrap_model(runner.model)
        if not any(isinstance(module, Quantizer) for module in model.modules()):
            self.warn("the model has no binary layer; set conv_cfg=dict(type='ReBNNConv2d') where you want some.")
            return
        if self.schedule == 'epoch' and not has_epochs(runner):
            raise RebnnError(
                f"{type(self).__name__}: schedule='epoch' needs a train loop with epochs (train_cfg by_epoch=True); "
                "use 'iter'."
            )
        wrappers = optim_wrappers(runner)
        self.check(model, wrappers)
        self._warn_of_frozen_parts(model)
        self.driver = MethodDriver(model)
        # With update_buffers=True it would average rotations, and an average of them is none.
        for averaged in (hook.ema_model.module for hook in runner.hooks if isinstance(hook, EMAHook)):
            for own, other in zip(model.modules(), averaged.modules(), strict=True):
                if isinstance(own, Quantizer):
                    other._buffers = own._buffers
        for wrapper in wrappers:
            self.driver.attach(wrapper.optimizer, resumed=runner.iter > 0)
            steps = runner.max_iters // getattr(wrapper, '_accumulative_counts', 1)
            rates = apply_relative_rates(wrapper.optimizer, _schedulers(runner, wrapper), steps)
            if rates is not None:
                print_log(
                    f'{type(self).__name__}: latent weights train at rates of {rates[0]:.2g} to {rates[1]:.2g}, in '
                    'proportion to the mean magnitude of each layer and not more than the number of steps allows.',
                    logger='current',
                )
            self._warn_of_still_signs(model, wrapper.optimizer, steps)
        if self.calibrate:
            self._calibrate(runner, model)

    def before_train_epoch(self, runner: Runner) -> None:
        if self.driver is None or not has_epochs(runner):
            return
        if self.schedule != 'iter':
            self.driver.set_progress(runner.epoch / runner.max_epochs)
        self._begin_epoch(self.driver)

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        """Renew schedules where they move with every step; without epochs, a pass over the data stands for one."""
        if self.driver is None:
            return
        by_epoch = has_epochs(runner)
        if self.schedule == 'iter' or not by_epoch:
            self.driver.set_progress(runner.iter / runner.max_iters)
        if not by_epoch and runner.iter % max(len(runner.train_dataloader), 1) == 0:
            self._begin_epoch(self.driver)

    def after_train(self, runner: Runner) -> None:
        if self.driver is not None:
            self.driver.detach()

    def check(self, model: nn.Module, wrappers: Sequence[OptimWrapper]) -> None:
        """Warn about an optimizer that does not suit the method."""
        groups = [group for wrapper in wrappers for group in wrapper.optimizer.param_groups]
        if any('role' in group for group in groups):
            return
        roles = parameter_roles(model)
        decaying = [parameter for group in groups if group.get('weight_decay') for parameter in group['params']]
        decayed = sum(roles.get(id(parameter)) in WITHOUT_DECAY for parameter in decaying)
        harm = 'parameters have no roles'
        if decayed:
            harm = f'{decayed} scaling factors, shifts and norms get weight decay'
        self.warn(f"{harm}. Set optim_wrapper=dict(constructor='BinaryOptimWrapperConstructor', ...) in the config.")

    def _warn_of_frozen_parts(self, model: nn.Module) -> None:
        """Name what a config of a full-precision network keeps from learning, and a binary one needs."""
        parts = list(model.named_modules())
        layers = [(name, part) for name, part in parts if isinstance(part, BinaryLayer) and part.binary]
        frozen = [
            name
            for name, layer in layers
            if not layer.weight.requires_grad and layer.weight_quantizer and layer.weight_quantizer.follows_weight
        ]
        if frozen:
            self.warn(
                f'{len(frozen)} of {len(layers)} binary layers are frozen, {frozen[0]!r} first: their signs stay '
                'those of the weights as loaded. Unless these were trained as 1-bit ones, set frozen_stages=-1 in '
                'that part of the model.'
            )
        still = [
            name
            for name, part in parts
            if getattr(part, 'norm_eval', False) and any(layer.startswith(f'{name}.') for layer, _ in layers)
        ]
        if still:
            self.warn(
                f'norm_eval=True in {", ".join(still)}: norms keep the statistics they start with. Those of a '
                'full-precision network do not fit a 1-bit one: set norm_eval=False there.'
            )

    def _warn_of_still_signs(self, model: nn.Module, optimizer: Optimizer, steps: int) -> None:
        """Say so where SGD, which does not normalise its steps, is too slow to turn the signs."""
        if not isinstance(optimizer, SGD) or steps < A_TRIAL:
            return
        roles = parameter_roles(model)
        latent = [(w, g) for g in optimizer.param_groups for w in g['params'] if roles.get(id(w)) == LATENT]
        sizes = [(weight.detach().abs().mean(), group.get('initial_lr', group['lr'])) for weight, group in latent]
        rates = [rate * REFERENCE_MAGNITUDE / float(size) for size, rate in sizes if size > 0]
        way = statistics.median(rates) * steps if rates else SGD_WAY
        if 0 < way < SGD_WAY:
            self.warn(
                f'SGD at this rate will leave most signs where they start in {steps:,} steps (rebnn flips measures '
                "it). Set optim_wrapper=dict(constructor='BinaryOptimWrapperConstructor', "
                "optimizer=dict(_delete_=True, type='Adam', lr=5e-4)), or raise the rate of latent weights "
                f'{math.ceil(SGD_WAY / way)} times: paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=...))).'
            )

    def warn(self, message: str) -> None:
        print_log(f'{type(self).__name__}: {message}', logger='current', level=logging.WARNING)

    def _begin_epoch(self, driver: MethodDriver) -> None:
        driver.begin_epoch()
        for quantizer in driver.quantizers:
            for buffer in quantizer.buffers():
                broadcast(buffer, src=0)

    def _calibrate(self, runner: Runner, model: nn.Module) -> None:
        waiting = [m for m in model.modules() if isinstance(m, ActivationQuantizer) and m.needs_calibration]
        if not waiting:
            return
        with same_random_state():
            batch = self._sample_batch(runner)
            network = cast(BaseModel, model)
            missed = calibrate_shifts(
                model, lambda: network._run_forward(network.data_preprocessor(batch, True), mode='loss')
            )
        print_log(
            f'{type(self).__name__}: started the shifts of {len(waiting) - len(missed)} layers at the mean of their '
            'input.',
            logger='current',
        )
        if missed:
            self.warn(f'{len(missed)} layers were not reached by the calibration batch and start at 0: {missed}')

    def _sample_batch(self, runner: Runner) -> Any:
        """One batch made without the data loader, whose sampler and workers stay where they are."""
        loader = runner.train_dataloader
        dataset, size = loader.dataset, loader.batch_size or loader.batch_sampler.batch_size
        if not hasattr(dataset, '__len__'):
            raise RebnnError(
                f'{type(self).__name__}: {type(dataset).__name__} has no length, so no samples can be drawn from it '
                'to start the shifts of swapped layers. Use calibrate=False and rebnn_mm.layers.calibrate_shifts.'
            )
        count = min(size, len(dataset))
        chosen = [index * len(dataset) // count for index in range(count)]
        whole = getattr(dataset, '__getitems__', None)
        return loader.collate_fn(whole(chosen) if whole else [dataset[index] for index in chosen])


def unwrap_model(model: nn.Module) -> nn.Module:
    """Return the model inside DDP's wrapper."""
    return cast(nn.Module, model.module) if is_model_wrapper(model) else model


def part_of(model: nn.Module, name: str, hook: str) -> nn.Module:
    """A part of the model by its dotted name, for a hook of this name."""
    try:
        return model.get_submodule(name)
    except AttributeError:
        names = ', '.join(child for child, _ in model.named_children())
        raise RebnnError(f'{hook}: the model has no part {name!r}. Name one of its modules: {names}.') from None


def optim_wrappers(runner: Runner) -> Sequence[OptimWrapper]:
    """The runner's optimizer wrappers, one or several."""
    wrapper = runner.optim_wrapper
    return list(wrapper.optim_wrappers.values()) if hasattr(wrapper, 'optim_wrappers') else [wrapper]


def logs_now(hook: Hook, runner: Runner, batch_idx: int, interval: int | None = None) -> bool:
    """Whether mmengine's LoggerHook prints after this iteration, or would with this interval."""
    if interval is None:
        interval = next((other.interval for other in runner.hooks if isinstance(other, LoggerHook)), 10)
    loader = runner.train_dataloader
    at_end = len(loader) <= interval and hook.end_of_epoch(loader, batch_idx)
    return hook.every_n_inner_iters(batch_idx, interval) or at_end


def has_epochs(runner: Runner) -> bool:
    return isinstance(runner.train_loop, EpochBasedTrainLoop)


def _schedulers(runner: Runner, wrapper: OptimWrapper) -> list[Any]:
    schedulers = runner.param_schedulers or []
    lists = schedulers.values() if isinstance(schedulers, dict) else [schedulers]
    return [scheduler for group in lists for scheduler in group if scheduler.optimizer is wrapper]


@contextmanager
def same_random_state() -> Iterator[None]:
    """Leave every random generator as it was found, so that calibration does not change what follows."""
    python, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
    random.setstate(python)
    np.random.set_state(numpy_state)
