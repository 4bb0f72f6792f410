"""Train a model from a config, with the flags of mmdet's tools/train.py.

    rebnn train configs/coco/faster_rcnn_r18_rebnn_coco.py

It prints the network, the data and a line for each epoch, with a bar for the time left. The log in the work dir has
the rest: environment, config, layers, and all numbers.
"""

from __future__ import annotations

import argparse
import math
import signal
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner

from rebnn_mm.analysis.rate_schedule import rate_schedule
from rebnn_mm.cli.checks.environment import require_environment
from rebnn_mm.cli.checks.labels import check_batches, check_classes, check_labels
from rebnn_mm.cli.checks.model import check_model
from rebnn_mm.cli.checks.resume import ResumeCheck
from rebnn_mm.cli.progress import show_progress
from rebnn_mm.cli.test import build_runner, enable_painting
from rebnn_mm.engine.bfloat16_optim_wrapper import multiplies_bfloat16
from rebnn_mm.engine.binary_hook import has_epochs
from rebnn_mm.engine.loss_check_hook import LossCheckHook
from rebnn_mm.errors import INTERRUPTED, CommandParser, RebnnError, report_errors, stop
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file, latest_checkpoint
from rebnn_mm.utils.command_line import TRAINING, add_common_arguments, config_file, import_scope, load_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.encoders import check_encoders


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
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
        help='continue from this checkpoint; without a path: from the latest one in the work dir, if there is one',
    )
    parser.add_argument('--log-to', nargs='+', choices=BACKENDS, default=[], help='also log there')
    parser.add_argument('--val-pictures', action='store_true', help='also log painted images of each validation')
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
            raise RebnnError(f'--log-to {name} needs a package that is not installed. Run: pip install {package}')
        if cfg.get('visualizer') is None:
            cfg.visualizer = dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')])
        cfg.visualizer.vis_backends = [*(cfg.visualizer.get('vis_backends') or []), dict(type=kind)]
    if args.val_pictures:
        enable_painting(cfg, '--val-pictures')


def check_amp(cfg: Config) -> None:
    """Refuse mixed precision where it cannot be had."""
    if cfg.optim_wrapper.get('type') == 'AmpOptimWrapper' and get_device() in ('cpu', 'mps'):
        raise RebnnError(
            f'AmpOptimWrapper, the mixed precision of mmengine, needs a GPU, and this machine offers {get_device()}.',
            fix="Train with optim_wrapper.type='OptimWrapper' and without --amp; on a processor with AVX512_BF16 or "
            'AMX, --amp takes bfloat16 instead.',
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
            raise RebnnError(
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


class InterruptHook(Hook):
    """Ends a training on Ctrl-C between two steps, where nothing is half written; on a second one at once."""

    def __init__(self) -> None:
        self.asked = False

    def before_train(self, runner: Runner) -> None:
        signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def after_train_iter(self, runner: Runner, *_: Any, **__: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt

    after_val_iter = after_train_iter

    def after_train(self, runner: Runner) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check_schedule(cfg: Config, runner: Runner) -> None:
    """Refuse a learning rate that falls to nothing well before the training ends."""
    given = cfg.get('param_scheduler') or []
    entries = [given] if isinstance(given, dict) and 'type' in given else given
    lr = (cfg.optim_wrapper.get('optimizer') or {}).get('lr')
    if not lr or isinstance(entries, dict):  # several optimizers, each with a schedule of its own
        return
    epochs = runner.max_epochs if has_epochs(runner) else None
    length, steps = len(runner.train_dataloader), runner.max_iters
    lasts = [entry.get('end', steps) * (length if epochs and entry.get('by_epoch', True) else 1) for entry in entries]
    if max(lasts, default=steps) >= steps:  # the usual case; to go through a long schedule takes seconds
        return
    moving = rate_schedule(entries, lr, steps, length, epochs).moving
    if moving is None or steps - moving <= steps // 20:
        return
    unit, key = (length, 'max_epochs') if epochs else (1, 'max_iters')
    fits, asked = math.ceil(moving / unit), steps // unit
    raise RebnnError(
        f'the rate falls to 0 after {fits} of {asked} {key[4:]}, and nothing is learned in the rest.',
        'param_scheduler',
        f'Make its entries as long as the training (end, T_max, milestones), or set train_cfg.{key}={fits}.',
    )


@report_errors
def main() -> None:
    args = parse_args()
    cfg = load_config(args, TRAINING)
    apply_flags(cfg, args)
    apply_views(cfg, args)
    splits = ['train', 'val'] if cfg.get('val_cfg') is not None else ['train']
    check_data(cfg, splits)
    check_encoders(cfg, splits)
    checkpoint = starting_checkpoint(cfg)
    if checkpoint is not None:
        check_checkpoint_file(checkpoint)
        cfg.load_from = checkpoint
    require_environment()
    import_scope(cfg)
    check_labels(cfg)
    check_model(cfg)
    check_amp(cfg)

    with user_errors(cfg), ExitStack() as stack:
        runner = build_runner(cfg, args.verbose)
        stack.enter_context(show_progress(runner))
        model = getattr(runner.model, 'module', runner.model)
        if checkpoint is not None:
            check_checkpoint(model, checkpoint, partial=not cfg.get('resume'))
        check_classes(model, runner.train_dataloader.dataset)
        if has_epochs(runner):  # else batches go on over the end of the data
            check_batches(runner.train_dataloader)
        check_schedule(cfg, runner)
        if cfg.get('resume') and checkpoint is not None:
            runner.register_hook(ResumeCheck(checkpoint))
        for hook in (LossCheckHook(), InterruptHook()):
            runner.register_hook(hook)
        try:
            runner.train()
        except KeyboardInterrupt:
            latest = latest_checkpoint(cfg.work_dir)
            how = f'. With --resume it continues from {latest}.' if latest else ' before its first checkpoint.'
            stop(f'stopped{how}', INTERRUPTED)
