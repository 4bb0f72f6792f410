"""Show a training or a test: some lines on it, a bar, and a line per epoch. The log file has the rest."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import EarlyStoppingHook, Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from mmengine.visualization import Visualizer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from rebnn_mm.engine.binary_hook import has_epochs, unwrap_model
from rebnn_mm.layers.report import layer_rows
from rebnn_mm.utils.console import plain_console
from rebnn_mm.utils.score_table import ap_rows

PLAIN_SECONDS = 60
"""Where there is no terminal for a bar, a line says after so many seconds how far the epoch is."""

SAID_HERE = 'The testing results of the whole dataset is empty|Since `metrics` is an empty dict'
"""Warnings of a validation that found nothing, for which the line of the epoch has words of its own."""

NOT_OURS = (
    'torch.meshgrid: in an upcoming|Skip early stopping process since|The prefix is not set in metric|.*deprecated|'
    'Warning: The (bbox|polygon) is out of bounds'
)
"""Warnings of libraries that a user can do nothing about."""


class QuietRunner(Runner):
    """mmengine's runner, of whose log only warnings reach the terminal; its file has all."""

    console: Console

    def build_logger(self, log_level: int | str = 'INFO', log_file: str | None = None, **options: Any) -> MMLogger:
        """Build mmengine's logger and put a handler for warnings in the place of its handler for the terminal."""
        self.console = plain_console(file=sys.stdout, soft_wrap=True)
        logger = super().build_logger(log_level, log_file, **options)
        for handler in [h for h in logger.handlers if not isinstance(h, logging.FileHandler)]:
            logger.removeHandler(handler)
        logger.addHandler(_Warnings(self.console))
        return logger

    def build_visualizer(self, visualizer: Visualizer | dict[str, Any] | None = None) -> Visualizer:
        """Build a visualizer of this run's own; one of the same name would go on writing where the first did."""
        if isinstance(visualizer, dict):
            visualizer = {**visualizer, 'name': self.experiment_name}
        return super().build_visualizer(visualizer)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Send what libraries print to the log file."""
        files = [h.stream for h in self.logger.handlers if isinstance(h, logging.FileHandler)]
        with warnings.catch_warnings(), open(os.devnull, 'w') as nowhere:
            warnings.filterwarnings('ignore', NOT_OURS)
            with redirect_stdout(files[0] if files else nowhere):  # further processes have no log file
                yield


@contextmanager
def show_progress(runner: Runner) -> Iterator[None]:
    """Show a training or a test, if its log is not printed."""
    if not isinstance(runner, QuietRunner):
        yield
        return
    progress = ProgressHook(runner.console)
    runner.register_hook(progress)
    with runner.quiet(), progress.bar:
        yield


class _Warnings(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING if is_main_process() else logging.ERROR)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        # The logger outlives its run, whose output may be closed by then.
        if not self.console.file.closed and not re.match(f'{NOT_OURS}|{SAID_HERE}', text):
            self.console.print(f'{record.levelname.lower()}: {text}')


class ProgressHook(Hook):
    """Shows a training or a test on the terminal: what it is of, a bar with the time left, a line per epoch.

    A loop without epochs has a line per validation. Where the output is not a terminal there are lines only.
    """

    # What is trained on what stands above the warnings of other hooks.
    priority = 'VERY_HIGH'

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console(soft_wrap=True)
        name, note = TextColumn('{task.description}'), TextColumn('{task.fields[note]}')
        self.bar = Progress(
            *(name, BarColumn(), MofNCompleteColumn(), note),
            console=self.console,
            transient=True,
            redirect_stdout=False,
            disable=not (self.console.is_terminal and is_main_process()),
        )
        self.task = self.bar.add_task('', note='', visible=False)
        self.waiting = ''
        self.begin = self.said = time.monotonic()

    def before_train(self, runner: Runner) -> None:
        for name, text in describe_training(runner).items():
            self._print(f'{name:<11}{text}')
        done, all_ = (runner.epoch, runner.max_epochs) if has_epochs(runner) else (runner.iter, runner.max_iters)
        if done >= all_:
            self._print(f'already finished, {done:,} of {count(all_, "epoch" if has_epochs(runner) else "step")}')

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        if self._place(runner)[1] == 0:
            self._finish(runner)
            self.begin = time.monotonic()

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        name, step, length = self._place(runner)
        step += 1
        losses = losses_of(runner, step)
        total = {key: value for key, value in losses.items() if key == 'loss'}
        note = f'{self.row("", total)}{_tell_time_left(runner)}'
        self.bar.update(self.task, description=name, completed=step, total=length, note=note, visible=True)
        if step == length:
            self.waiting = self.row(name, losses)
        elif self.bar.disable and time.monotonic() - self.said > PLAIN_SECONDS:
            self._print(f'{name}, step {step}/{length}  {note}')

    def before_val_epoch(self, runner: Runner) -> None:
        length = len(runner.val_dataloader)
        self.bar.update(self.task, description='validation', completed=0, total=length, note='')

    def after_val_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
        self.bar.update(self.task, completed=batch_idx + 1)

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        # mmdet gives no score where nothing is found.
        nothing = not metrics and runner.val_loop.evaluator.metrics
        self._finish(runner, 'AP 0 (nothing found yet)' if nothing else scores_of(metrics or {}))

    def after_train(self, runner: Runner) -> None:
        self._finish(runner)
        if has_epochs(runner) and runner.epoch < runner.max_epochs:
            early = any(isinstance(h, EarlyStoppingHook) for h in runner.hooks)
            why = ': the score did not rise any more' if early else ''
            self._print(f'stopped after {runner.epoch} of {count(runner.max_epochs, "epoch")}{why}')

    def before_test(self, runner: Runner) -> None:
        config = f'{runner.cfg.filename}; all is written to {_shorten_path(runner.work_dir)}'
        data, log = _describe_data(runner.test_dataloader.dataset), _shorten_path(runner.logger.log_file)
        for name, text in (('config', config), ('data', data), ('log', log)):
            self._print(f'{name:<11}{text}')

    def before_test_epoch(self, runner: Runner) -> None:
        self.bar.update(self.task, description='test', completed=0, total=len(runner.test_dataloader), visible=True)

    def after_test_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
        self.bar.update(self.task, completed=batch_idx + 1)
        if self.bar.disable and time.monotonic() - self.said > PLAIN_SECONDS:
            self._print(f'test, step {batch_idx + 1}/{len(runner.test_dataloader)}')

    def row(self, name: str, losses: Mapping[str, float]) -> str:
        """The beginning of a line: its name and losses, the sum first."""
        parts = ', '.join(f'{_short(key)} {value:.2f}' for key, value in losses.items() if key != 'loss')
        total = f'loss {losses["loss"]:.3f}' if 'loss' in losses else ''
        return '  '.join(filter(None, [name, f'{total} ({parts})' if parts else total]))

    def _place(self, runner: Runner) -> tuple[str, int, int]:
        """The name of the line that an iteration is in, its place there, counted from 0, and how many there are."""
        if has_epochs(runner):
            length = len(runner.train_dataloader)
            name = f'epoch {runner.epoch + 1:>{len(str(runner.max_epochs))}}/{runner.max_epochs}'
            return name, runner.iter - runner.epoch * length, length
        interval = min(runner.val_interval, runner.max_iters)
        start = runner.iter // interval * interval
        length = min(interval, runner.max_iters - start)
        return f'steps to {start + length:,} of {runner.max_iters:,}', runner.iter - start, length

    def _finish(self, runner: Runner, scores: str = '') -> None:
        if self.waiting:
            took = timedelta(seconds=int(time.monotonic() - self.begin))
            self._print('  '.join(filter(None, [self.waiting, scores, f'took {took}{_tell_time_left(runner)}'])))
            self.waiting = ''

    def _print(self, line: str) -> None:
        if is_main_process():
            self.console.print(line)
            self.said = time.monotonic()


def describe_training(runner: Runner) -> dict[str, str]:
    """Say what is trained on what, in a line each, by the line's name."""
    cfg, model, loader = runner.cfg, unwrap_model(runner.model), runner.train_dataloader
    rows = layer_rows(model)
    binary = [row for row in rows if not row.why]
    inside, whole = (sum(row.values for row in some) / 1e6 for some in (binary, rows))
    lines = {'config': f'{cfg.filename}; all is written to {_shorten_path(runner.work_dir)}'}
    weights = f'{inside:.2f} of {whole:.2f} million weights'
    lines['model'] = f'{type(model).__name__}, {len(binary)} of {len(rows)} layers binary ({weights})'
    teacher = (cfg.get('model') or {}).get('teacher')
    if isinstance(teacher, str):
        lines['teacher'] = f'{teacher}, {cfg.model.get("teacher_checkpoint")}'
    lines['data'] = _describe_data(loader.dataset)
    unit = 'epoch' if has_epochs(runner) else 'step'
    if runner.val_loop is not None:
        every = runner.val_interval
        images = count(len(runner.val_dataloader.dataset), 'sample')
        lines['validation'] = f'{images}, every {count(every, unit) if every > 1 else unit}'
    optimizer = (cfg.get('optim_wrapper') or {}).get('optimizer') or {}
    steps = count(runner.max_iters, 'step')
    length = f'{count(runner.max_epochs, unit)} of {count(len(loader), "step")}' if unit == 'epoch' else steps
    batch = loader.batch_size or getattr(loader.batch_sampler, 'batch_size', 1)
    lines['schedule'] = f'{length}, {count(batch, "sample")} each; {optimizer.get("type")}, rate {optimizer.get("lr")}'
    done = count(runner.epoch if unit == 'epoch' else runner.iter, unit)
    start = cfg.get('load_from')
    from_teacher = getattr(model, 'start_from_teacher', False)
    backbone = (cfg.get('model') or {}).get('backbone') or {}
    pretrained = backbone.get('init_cfg')
    if isinstance(pretrained, dict) and 'checkpoint' in pretrained:
        others = f'{pretrained["checkpoint"]} for the backbone'
    else:
        others = 'random weights, except where init_cfg is set'
    first = start or ('the teacher' if from_teacher else others)
    lines['start'] = f'{start}, {done} done' if runner.iter else str(first)
    cuda = torch.cuda.is_available() and next(model.parameters()).is_cuda
    lines['device'] = torch.cuda.get_device_name() if cuda else f'processor, threads: {torch.get_num_threads()}'
    lines['log'] = _shorten_path(runner.logger.log_file)
    return lines


def _describe_data(dataset: Any) -> str:
    classes = getattr(dataset, 'metainfo', {}).get('classes') or ()
    names = ', '.join(classes[:5]) + (f' and {len(classes) - 5} more' if len(classes) > 5 else '')
    return count(len(dataset), 'sample') + (f', classes: {names}' if classes else '')


def count(number: int, noun: str) -> str:
    """Write a number of things, such as '1 epoch' and '1,200 steps'."""
    return f'{number:,} {noun}{"" if number == 1 else "s"}'


def losses_of(runner: Runner, steps: int) -> dict[str, float]:
    """The mean of each loss over the last steps, the sum of them first."""
    scalars = runner.message_hub.log_scalars
    names = [key for key in scalars if key.startswith('train/') and 'loss' in key and key.count('/') == 1]
    means = {key.removeprefix('train/'): float(scalars[key].mean(steps)) for key in names}
    return dict(sorted(means.items(), key=lambda item: item[0] != 'loss'))


def scores_of(metrics: Mapping[str, float]) -> str:
    """The scores of a validation in a few words."""
    rows = list(ap_rows(metrics).values())
    if rows:
        named = zip(('AP', 'AP50'), rows[0], strict=False)
        return ', '.join(f'{name} {value:.1f}' for name, value in named if value is not None)
    numbers = [(key, value) for key, value in metrics.items() if isinstance(value, int | float)][:3]
    return ', '.join(f'{key.rpartition("/")[2]} {value:.4g}' for key, value in numbers)


def _tell_time_left(runner: Runner) -> str:
    """Say how much time mmengine thinks is left, after a comma; nothing if it does not know."""
    seconds = int(runner.message_hub.runtime_info.get('eta') or 0)
    return f', {timedelta(seconds=seconds)} left' if seconds else ''


def _shorten_path(path: Any) -> str:
    """Write a path as one would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith('..') else relative


def _short(key: str) -> str:
    return re.sub('loss_|_loss|loss', '', key) or key
