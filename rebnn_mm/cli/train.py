"""Train a model from a config, with the flags of mmdet's tools/train.py.

    rebnn train configs/faster_rcnn_r18_rebnn_coco.py

It shows what is trained on what, a bar with the time left, and a line for each epoch. The log in the work dir has the
rest: environment, config, layers, and all numbers.
"""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.registry import RUNNERS
from mmengine.runner import Runner

from rebnn_mm.analysis.rate_schedule import rate_schedule
from rebnn_mm.cli.test import enable_painting
from rebnn_mm.engine.bfloat16_optim_wrapper import multiplies_bfloat16
from rebnn_mm.engine.binary_hook import has_epochs
from rebnn_mm.engine.loss_check_hook import LossCheckHook
from rebnn_mm.engine.progress_hook import ProgressHook, QuietRunner
from rebnn_mm.utils.checkpoint_check import (
    latest_checkpoint,
    mismatched_checkpoint,
    missing_checkpoint,
    unfit_state,
)
from rebnn_mm.utils.command_line import (
    INTERRUPTED,
    TRAINING,
    add_common_arguments,
    config_file,
    load_config,
    missing_sections,
    stop_if,
    stop_on_broken_environment,
    stopping_on_mistakes,
)
from rebnn_mm.utils.dataset_check import missing_data, no_batch, shifted_labels, too_few_classes
from rebnn_mm.utils.encoder_check import missing_encoder
from rebnn_mm.utils.model_check import unfit_model


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', type=config_file, help='config file; mmdet and mmpretrain configs work alike')
    parser.add_argument(
        '--amp',
        action='store_true',
        help='automatic mixed precision: on a GPU by AmpOptimWrapper, on a processor with bfloat16 by '
        'Bfloat16OptimWrapper',
    )
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate by batch size / auto_scale_lr.base_batch_size',
    )
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        help='go on from this checkpoint; without a path: from the latest one in the work dir, if there is one',
    )
    parser.add_argument(
        '--log-to', nargs='+', choices=BACKENDS, default=[], help='also log to TensorBoard or Weights & Biases'
    )
    parser.add_argument(
        '--val-pictures', action='store_true', help='also log painted images of each validation, by its hook'
    )
    parser.add_argument('--verbose', action='store_true', help='print the whole log, as mmengine does')
    add_common_arguments(parser)
    return parser.parse_args()


BACKENDS = {'tensorboard': ('TensorboardVisBackend', 'tensorboard'), 'wandb': ('WandbVisBackend', 'wandb')}
"""Values of ``--log-to``: mmengine's class, and the package that it needs."""


def apply_views(cfg: Config, args: argparse.Namespace) -> None:
    """Write ``--log-to`` and ``--val-pictures`` into the config."""
    for name in args.log_to:
        kind, package = BACKENDS[name]
        if find_spec(package) is None:
            stop_if(f'--log-to {name} needs a package that is not installed. Run: pip install {package}')
        if cfg.get('visualizer') is None:
            cfg.visualizer = dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')])
        cfg.visualizer.vis_backends = [*(cfg.visualizer.get('vis_backends') or []), dict(type=kind)]
    if args.val_pictures:
        enable_painting(cfg, '--val-pictures')


def amp_problem(cfg: Config) -> str | None:
    """One sentence if the config wants mixed precision where it cannot be had, ``None`` otherwise."""
    if cfg.optim_wrapper.get('type') != 'AmpOptimWrapper' or get_device() not in ('cpu', 'mps'):
        return None
    return (
        'AmpOptimWrapper, the mixed precision of mmengine, needs a GPU, and this machine offers '
        f"{get_device()}. Train with optim_wrapper.type='OptimWrapper' and without --amp; on a processor with "
        'AVX512_BF16 or AMX, --amp takes bfloat16 instead.'
    )


def apply_flags(cfg: Config, args: argparse.Namespace) -> None:
    """Write ``--amp``, ``--auto-scale-lr`` and ``--resume`` into the config."""
    if args.amp and get_device() == 'cpu' and multiplies_bfloat16():
        cfg.optim_wrapper.type = 'Bfloat16OptimWrapper'
        for key in ('loss_scale', 'dtype'):  # of AmpOptimWrapper
            cfg.optim_wrapper.pop(key, None)
    elif args.amp:
        cfg.optim_wrapper.type = 'AmpOptimWrapper'
        cfg.optim_wrapper.loss_scale = 'dynamic'
    if args.auto_scale_lr:
        if 'base_batch_size' not in (cfg.get('auto_scale_lr') or {}):
            stop_if(
                '--auto-scale-lr needs to know the batch size the learning rate was made for, and the config does not '
                'say. Add auto_scale_lr = dict(base_batch_size=...) to it.'
            )
        cfg.auto_scale_lr.enable = True
    if args.resume == 'auto':
        # mmengine forgets load_from where it looks for a checkpoint to resume, and there may be none yet.
        latest = latest_checkpoint(cfg.work_dir)
        cfg.resume, cfg.load_from = latest is not None, latest or cfg.get('load_from')
    elif args.resume is not None:
        cfg.resume, cfg.load_from = True, args.resume


def starting_checkpoint(cfg: Config) -> str | None:
    """The checkpoint that training will start from, if any."""
    if cfg.get('resume') and cfg.get('load_from') is None:
        return latest_checkpoint(cfg.work_dir)
    return cfg.get('load_from')


class ResumeCheck(Hook):
    """Stops where the state of a checkpoint does not fit the config, and says so where nothing is left to train."""

    def __init__(self, path: str) -> None:
        self.path = path

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Before optimizer and schedules are loaded."""
        problem = unfit_state(runner, checkpoint)
        stop_if(
            problem
            and f'--resume: {self.path} {problem}. To go on with the new settings, start from its weights: '
            f'--cfg-options load_from={self.path} without --resume.'
        )
        if 'optimizer' not in checkpoint:
            runner.logger.warning(
                f'--resume: {self.path} has no state of the optimizer (save_optimizer=False of CheckpointHook), whose '
                'momenta start anew.'
            )
        unit, whole = ('epoch', runner.max_epochs) if has_epochs(runner) else ('iter', runner.max_iters)
        done = checkpoint.get('meta', {}).get(unit, 0)
        if done >= whole:
            runner.logger.warning(f'--resume: {self.path} is at {unit} {done} of {whole}; nothing is left to train.')


class InterruptHook(Hook):
    """Ends a training on Ctrl-C between two steps, where no checkpoint is half written and no worker half started.

    A second Ctrl-C ends it at once.
    """

    def __init__(self) -> None:
        self.asked = False

    def before_train(self, runner: Runner) -> None:
        """Wait for Ctrl-C."""
        signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def after_train_iter(self, runner: Runner, *_: Any, **__: Any) -> None:
        """Stop here."""
        if self.asked:
            raise KeyboardInterrupt

    after_val_iter = after_train_iter

    def after_train(self, runner: Runner) -> None:
        """Leave Ctrl-C to what comes next."""
        signal.signal(signal.SIGINT, signal.default_int_handler)


def idle_problem(cfg: Config, runner: Runner) -> str | None:
    """One sentence if the learning rate falls to nothing well before the training ends, ``None`` otherwise.

    So it is where a training is made longer and its schedule is not.
    """
    given = cfg.get('param_scheduler') or []
    entries = [given] if isinstance(given, dict) and 'type' in given else given
    lr = (cfg.optim_wrapper.get('optimizer') or {}).get('lr')
    if not lr or isinstance(entries, dict):  # several optimizers, each with a schedule of its own
        return None
    epochs = runner.max_epochs if has_epochs(runner) else None
    length, steps = len(runner.train_dataloader), runner.max_iters
    lasts = [entry.get('end', steps) * (length if epochs and entry.get('by_epoch', True) else 1) for entry in entries]
    if max(lasts, default=steps) >= steps:  # the usual case; to go through a long schedule takes seconds
        return None
    moving = rate_schedule(entries, lr, steps, length, epochs).moving
    if moving is None or steps - moving <= steps // 20:
        return None
    unit, key = (length, 'max_epochs') if epochs else (1, 'max_iters')
    fits, asked = math.ceil(moving / unit), steps // unit
    return (
        f'param_scheduler: the rate falls to 0 after {fits} of {asked} {key[4:]}, and nothing is learned in the rest. '
        f'Make its entries as long as the training (end, T_max, milestones), or set train_cfg.{key}={fits}.'
    )


def interruption(work_dir: str) -> str:
    """Message on Ctrl-C."""
    latest = latest_checkpoint(work_dir)
    return f'stopped. With --resume it goes on from {latest}.' if latest else 'stopped before its first checkpoint.'


def build_runner(cfg: Config, verbose: bool) -> Runner:
    """The runner of a config; one that a config brings itself logs as it likes."""
    if 'runner_type' in cfg:
        return RUNNERS.build(cfg)
    return (Runner if verbose else QuietRunner).from_cfg(cfg)


@contextmanager
def shown(runner: Runner) -> Iterator[None]:
    """Show the training, if its log is not printed."""
    if not isinstance(runner, QuietRunner):
        yield
        return
    progress = ProgressHook(runner.console)
    runner.register_hook(progress)
    with runner.quiet(), progress.bar:
        yield


def main() -> None:
    args = parse_args()
    cfg = load_config(args)
    stop_if(missing_sections(cfg, TRAINING))
    apply_flags(cfg, args)
    apply_views(cfg, args)
    splits = ['train', 'val'] if cfg.get('val_cfg') is not None else ['train']
    stop_if(missing_data(cfg, splits))
    stop_if(missing_encoder(cfg, splits))
    checkpoint = starting_checkpoint(cfg)
    if checkpoint is not None:
        stop_if(missing_checkpoint(checkpoint))
        cfg.load_from = checkpoint
    stop_on_broken_environment(cfg)
    stop_if(shifted_labels(cfg))
    stop_if(unfit_model(cfg))
    stop_if(amp_problem(cfg))

    with stopping_on_mistakes(cfg), ExitStack() as stack:
        runner = build_runner(cfg, args.verbose)
        stack.enter_context(shown(runner))
        model = getattr(runner.model, 'module', runner.model)
        if checkpoint is not None:
            stop_if(mismatched_checkpoint(model, checkpoint, partial=not cfg.get('resume')))
        stop_if(too_few_classes(model, runner.train_dataloader.dataset))
        if has_epochs(runner):  # else batches go on over the end of the data
            stop_if(no_batch(runner.train_dataloader))
        stop_if(idle_problem(cfg, runner))
        if cfg.get('resume') and checkpoint is not None:
            runner.register_hook(ResumeCheck(checkpoint))
        for hook in (LossCheckHook(), InterruptHook()):
            runner.register_hook(hook)
        try:
            runner.train()
        except KeyboardInterrupt:
            stop_if(interruption(cfg.work_dir), code=INTERRUPTED)
