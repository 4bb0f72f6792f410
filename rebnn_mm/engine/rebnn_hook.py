"""The mmengine hook that makes training resilient."""

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from mmengine.dist import broadcast
from mmengine.hooks import Hook, LoggerHook
from mmengine.logging import print_log
from mmengine.model import BaseModel, is_model_wrapper
from mmengine.optim import OptimWrapper
from mmengine.registry import HOOKS
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import nn

from ..layers import BinaryLayer, calibrate_shifts
from ..layers.report import layer_report
from ..quantizers import ActivationQuantizer
from .resilient_gradient import ResilientGradient, fused_message
from .roles import WITHOUT_DECAY, parameter_roles

CHECKPOINT_KEY = 'rebnn_flip_windows'


@HOOKS.register_module()
class ReBNNHook(Hook):
    """Carries ReBNN through an mmengine run: ``custom_hooks=[dict(type='ReBNNHook')]``.

    - Logs once, in training, validation and testing, which layers are binary, which are real and why.
    - Before training: starts alpha from the weights as loaded, unless a checkpoint brought it; starts the shifts of
      swapped layers from one batch of training data (:func:`rebnn_mm.layers.calibrate_shifts`), likewise.
    - Around every optimizer step: the reconstruction term and the update of gamma
      (:class:`rebnn_mm.engine.ResilientGradient`).
    - Every ``interval`` iterations: the numbers of :meth:`ResilientGradient.statistics` under ``rebnn/``, into the log
      and every visualizer backend.

    Args:
        interval: iterations between two logged statistics; None takes the LoggerHook's.
        calibrate: whether shifts are started from data.

    Raises:
        ValueError: the optimizer is one under which gamma would be wrong (fused with AMP, sharded parameters), or
            ``flip_window='epoch'`` is used with a loop that has no epochs.

    Example:
        >>> ReBNNHook(interval=10).interval
        10
    """

    # Before the LoggerHook (BELOW_NORMAL), which prints what this hook writes.
    priority = 'NORMAL'

    def __init__(self, interval: int | None = None, calibrate: bool = True) -> None:
        self.interval = interval
        self.calibrate = calibrate
        self.resilient: ResilientGradient | None = None
        self._saved_windows: dict[str, Any] = {}
        self._reported = False

    def before_run(self, runner: Runner) -> None:
        """Log the table of layers."""
        if not self._reported:
            print_log(f'binary and real layers:\n{layer_report(_unwrapped(runner.model))}', logger='current')
            self._reported = True

    def before_train(self, runner: Runner) -> None:
        """Check, initialise and install the optimizer hooks."""
        model = _unwrapped(runner.model)
        if not any(isinstance(module, BinaryLayer) and module.binary for module in model.modules()):
            _warn(
                "ReBNNHook: the model has no binary layer; set conv_cfg=dict(type='ReBNNConv2d') where you want some."
            )
            return
        wrappers = _optim_wrappers(runner)
        for wrapper in wrappers:
            _check_optimizer(wrapper)
        _check_constructor(model, wrappers)
        self.resilient = ResilientGradient(model)
        if self.calibrate:
            self._calibrate(runner, model)
        if any(layer.quantizer.flip_window == 'epoch' for layer in self.resilient.layers) and not isinstance(
            runner.train_loop, EpochBasedTrainLoop
        ):
            raise ValueError(
                "ReBNNHook: flip_window='epoch' needs a train loop with epochs (train_cfg by_epoch=True); give a "
                'number of steps instead.'
            )
        for wrapper in wrappers:
            self.resilient.attach(wrapper.optimizer)
        self.resilient.load_state_dict(self._saved_windows)
        if self.interval is None:
            logger_hooks = [hook for hook in runner.hooks if isinstance(hook, LoggerHook)]
            self.interval = logger_hooks[0].interval if logger_hooks else 10

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
    ) -> None:
        """Write statistics for the LoggerHook."""
        if self.resilient is None or not self.every_n_train_iters(runner, self.interval or 10):
            return
        for name, value in self.resilient.statistics().items():
            runner.message_hub.update_scalar(f'train/rebnn/{name}', value)

    def after_train_epoch(self, runner: Runner) -> None:
        """Renew gamma where flips are counted per epoch."""
        if self.resilient is not None:
            self.resilient.close_epoch()

    def after_train(self, runner: Runner) -> None:
        """Take the optimizer hooks away."""
        if self.resilient is not None:
            self.resilient.detach()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Save open flip windows; there are none with the default window of one step."""
        windows = self.resilient.state_dict() if self.resilient is not None else {}
        if windows:
            checkpoint[CHECKPOINT_KEY] = windows

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Keep open flip windows until training starts."""
        if getattr(runner, '_resume', False):
            self._saved_windows = checkpoint.get(CHECKPOINT_KEY, {})

    def _calibrate(self, runner: Runner, model: nn.Module) -> None:
        waiting = [m for m in model.modules() if isinstance(m, ActivationQuantizer) and m.needs_calibration]
        if not waiting:
            return
        with _same_random_state():
            batch = _sample_batch(runner)
            missed = calibrate_shifts(model, lambda: _forward(cast(BaseModel, model), batch))
        for module in waiting:
            for parameter in module.parameters(recurse=False):
                broadcast(parameter.data, src=0)
        print_log(
            f'ReBNNHook: started the shifts of {len(waiting) - len(missed)} layers at the mean of their input.',
            logger='current',
        )
        if missed:
            _warn(
                f'ReBNNHook: {len(missed)} layers were not reached by the calibration batch and start at 0: {missed}'
            )


def _unwrapped(model: nn.Module) -> nn.Module:
    return cast(nn.Module, model.module) if is_model_wrapper(model) else model


def _optim_wrappers(runner: Runner) -> Sequence[OptimWrapper]:
    wrapper = runner.optim_wrapper
    return list(wrapper.optim_wrappers.values()) if hasattr(wrapper, 'optim_wrappers') else [wrapper]


def _check_optimizer(wrapper: OptimWrapper) -> None:
    fused = any(group.get('fused') for group in wrapper.optimizer.param_groups)
    if fused and hasattr(wrapper, 'loss_scaler'):
        raise ValueError(fused_message(wrapper.optimizer))


def _check_constructor(model: nn.Module, wrappers: Sequence[OptimWrapper]) -> None:
    groups = [group for wrapper in wrappers for group in wrapper.optimizer.param_groups]
    if any('role' in group for group in groups):
        return
    roles = parameter_roles(model)
    decayed = sum(
        1
        for group in groups
        if group.get('weight_decay')
        for parameter in group['params']
        if roles.get(id(parameter)) in WITHOUT_DECAY
    )
    harm = f'{decayed} scaling factors, shifts and norms get weight decay' if decayed else 'parameters have no roles'
    _warn(f"ReBNNHook: {harm}. Set optim_wrapper=dict(constructor='ReBNNOptimWrapperConstructor', ...) in the config.")


def _warn(message: str) -> None:
    print_log(message, logger='current', level=logging.WARNING)


def _sample_batch(runner: Runner) -> Any:
    """One batch made beside the data loader, whose sampler and workers stay where they are."""
    loader = runner.train_dataloader
    dataset, size = loader.dataset, loader.batch_size or loader.batch_sampler.batch_size
    if not hasattr(dataset, '__len__'):
        raise ValueError(
            f'ReBNNHook: {type(dataset).__name__} has no length, so no samples can be drawn from it to start the '
            'shifts of swapped layers. Use ReBNNHook(calibrate=False) and rebnn_mm.layers.calibrate_shifts.'
        )
    count = min(size, len(dataset))
    return loader.collate_fn([dataset[index * len(dataset) // count] for index in range(count)])


def _forward(model: BaseModel, batch: Any) -> None:
    data = model.data_preprocessor(batch, True)
    if isinstance(data, dict):
        model(**data, mode='loss')
    else:
        model(*data, mode='loss')


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Leave every random generator as it was found, so that calibration does not change what follows."""
    python, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
    random.setstate(python)
    np.random.set_state(numpy_state)
