"""Trains the model of a config for some steps, as it would be trained, and counts flipped signs."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.hooks import Hook
from mmengine.registry import DATASETS, init_default_scope
from mmengine.runner import Runner
from torch.utils.data import Dataset

from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.console import quiet
from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.encoders import check_encoders

from ..engine.binary_hook import has_epochs, optim_wrappers, unwrap_model
from ..engine.flip_recorder import FlipRecorder
from ..errors import RebnnError
from ..functional import is_pair
from .flip_projection import FlipProjection, LayerFlips
from .rate_schedule import rate_schedule

RISE, COUNTED = 0.25, 0.5
"""The rate rises over the first quarter of the steps; flips are counted over the last half."""

_NAMES = itertools.count()
"""mmengine gives runs of one name the same logger."""


@dataclass(frozen=True)
class Options:
    """How a config is measured; None for what the config has."""

    steps: int = 200  # of the optimizer
    batch_size: int | None = None
    image_size: int | None = None  # longest side at most, in pixels
    checkpoint: str | None = None  # what to start from, in place of load_from
    seed: int = 0


class NothingToMeasure(RebnnError):
    """The config has no binary weight that is trained."""


@dataclass(frozen=True)
class Measurement:
    """Result of a few steps."""

    projection: FlipProjection
    batch_size: int
    notes: Sequence[str]
    seconds: float


def measure_flips(cfg: Config, options: Options, progress: Callable[[int], object] = lambda done: None) -> Measurement:
    """Train for some steps with the config's own model, optimizer and hooks, and count.

    mmengine's Runner does it, with the optimizer wrapper and the custom hooks of the config, which carry the method.
    It knows the length of the whole training, so what a method does at a share of it is done as at its beginning. The
    rate rises linearly over the first quarter of the steps to the highest of the schedule, and stays there. Flips are
    counted over the last half: after the flood of flips of weights that start near zero.
    """
    if not all(cfg.get(key) for key in ('model', 'train_dataloader', 'train_cfg', 'optim_wrapper')):
        raise RebnnError(f'{cfg.filename}: it does not train (model, train_dataloader, train_cfg, optim_wrapper).')
    cfg = copy.deepcopy(cfg)
    scope = cfg.get('default_scope') or 'mmengine'
    init_default_scope(scope)
    with tempfile.TemporaryDirectory(prefix='flips_') as folder, quiet():
        loader, notes = training_loader(cfg, options.batch_size, options.image_size)
        if options.checkpoint is not None:
            check_checkpoint_file(options.checkpoint)
            cfg.load_from = options.checkpoint
            notes.insert(0, f'start from {options.checkpoint}')
        counter = _Counter(options.steps, cfg.get('param_scheduler'), progress)
        runner = Runner(
            model=cfg.model,
            work_dir=folder,
            train_dataloader=loader,
            train_cfg=cfg.train_cfg,
            auto_scale_lr=cfg.get('auto_scale_lr'),
            optim_wrapper=cfg.optim_wrapper,
            default_hooks=dict.fromkeys(('runtime_info', 'timer', 'logger', 'param_scheduler', 'checkpoint')),
            custom_hooks=[*(cfg.get('custom_hooks') or []), counter],
            data_preprocessor=cfg.get('data_preprocessor'),
            load_from=cfg.get('load_from'),
            env_cfg=cfg.get('env_cfg') or dict(dist_cfg=dict(backend='nccl')),
            log_level='ERROR',
            default_scope=scope,
            randomness=dict(seed=options.seed),
            experiment_name=f'flips_{next(_NAMES)}',
        )
        if options.checkpoint is not None:
            check_checkpoint(unwrap_model(runner.model), options.checkpoint, partial=True)
        begin = time.monotonic()
        with contextlib.suppress(_Enough):
            runner.train()
        seconds = time.monotonic() - begin
    return Measurement(counter.projection(), loader.batch_size, notes, seconds)


class _Enough(Exception):
    """Ends a run whose loops know of more steps."""


class _Counter(Hook):
    """Sets the rate, counts flips, and ends the run."""

    # After the method's hook, whose constraint on the weights belongs to the step, and after what sets rates.
    priority = 'LOWEST'

    def __init__(self, steps: int, schedulers: Any, progress: Callable[[int], object]) -> None:
        self.steps, self.schedulers, self.progress = steps, schedulers, progress
        self.rates: list[tuple[dict[str, Any], float]] = []
        self.done = 0

    def before_train(self, runner: Runner) -> None:
        wrappers = optim_wrappers(runner)
        if len(wrappers) > 1:
            raise RebnnError('optim_wrapper: several optimizers have no single schedule to project to.')
        self.recorder = FlipRecorder(unwrap_model(runner.model)).attach(wrappers[0].optimizer)
        if not any(self.recorder.layers[name].weight.requires_grad for name in self.recorder.recorded):
            raise NothingToMeasure('no binary weight is trained.')
        self.schedule = rate_schedule(
            self.schedulers,
            wrappers[0].optimizer.defaults['lr'],
            runner.max_iters,
            len(runner.train_dataloader),
            runner.max_epochs if has_epochs(runner) else None,
        )

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        if not self.rates:  # now every other hook has had its say about them
            groups = [group for wrapper in optim_wrappers(runner) for group in wrapper.optimizer.param_groups]
            self.rates = [(group, group['lr'] * self.schedule.highest) for group in groups]
        share = min(1.0, (self.done + 1) / max(RISE * self.steps, 1))
        for group, rate in self.rates:
            group['lr'] = share * rate
        if self.done == self.steps - self._counted:
            self.recorder.take_counts()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
    ) -> None:
        self.done += 1
        loss = float((outputs or {}).get('loss', 0.0))
        if not math.isfinite(loss):
            raise RebnnError(
                f'the loss is {loss} after {self.done} steps; lower optim_wrapper.optimizer.lr, or clip gradients: '
                'optim_wrapper.clip_grad=dict(max_norm=35).'
            )
        self.progress(self.done)
        if self.done == self.steps:
            raise _Enough

    def projection(self) -> FlipProjection:
        counts = self.recorder.take_counts().items()
        layers = [LayerFlips(name, found.weights, self._counted, found.flips) for name, found in counts if found.steps]
        if not layers:
            raise NothingToMeasure('no binary weight gets a gradient.')
        return FlipProjection(layers, self.schedule)

    @property
    def _counted(self) -> int:
        return max(1, round(COUNTED * self.steps))


class OfLength(Dataset):
    """A data set that says another length; its items are repeated or cut.

    So an epoch is as long as that of the real data, and whatever counts epochs does as in real training.
    """

    def __init__(self, dataset: Any, length: int) -> None:
        self.dataset, self.length = dataset, length
        if hasattr(dataset, '__getitems__'):  # then its collate function expects whole batches
            self.__getitems__ = lambda indices: dataset.__getitems__([index % len(dataset) for index in indices])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index % len(self.dataset)]

    def __deepcopy__(self, memo: Any) -> OfLength:
        return self  # mmengine copies all that it builds a loader from

    def get_data_info(self, index: int) -> Any:
        """Attributes that samplers read of an item without loading it."""
        return self.dataset.get_data_info(index % len(self.dataset))


def training_loader(cfg: Config, batch_size: int | None, image_size: int | None) -> tuple[ConfigDict, list[str]]:
    """The config's training loader, with epochs as long as those of the whole training, and what differs in it."""
    check_data(cfg, ['train'])
    check_encoders(cfg, ['train'])
    loader = copy.deepcopy(cfg.train_dataloader)
    for name in ('prefetch_factor', 'worker_init_fn'):
        loader.pop(name, None)
    loader.update(num_workers=0, persistent_workers=False)
    notes = []
    if image_size is not None and _shrink(loader.dataset, image_size):
        notes.append(f'images of at most {image_size} pixels')
    dataset = DATASETS.build(loader.dataset)
    if hasattr(dataset, 'full_init'):
        dataset.full_init()
    devices = _devices(cfg, loader.batch_size)
    if devices > 1 and counts_epochs(cfg):
        notes.append(f'steps of {devices} devices together, as in auto_scale_lr.base_batch_size')
    size = batch_size or loader.batch_size
    if size != loader.batch_size:
        notes.append(f'batch {size} in place of {loader.batch_size * devices}')
    rounded = math.floor if loader.get('drop_last') else math.ceil
    steps = max(1, rounded(len(dataset) / (loader.batch_size * devices)))
    loader.update(batch_size=size, dataset=OfLength(dataset, steps * size))
    return loader, notes


def counts_epochs(cfg: Config) -> bool:
    """Whether a config trains by epochs, not by iterations."""
    loop = cfg.train_cfg
    return bool(loop.get('by_epoch', 'Epoch' in str(loop.get('type', ''))))


def _devices(cfg: Config, batch_size: int) -> int:
    """How many of the loader's batches make the batch that the learning rate is for."""
    wanted = (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or batch_size
    return wanted // batch_size if wanted % batch_size == 0 else 1


def _shrink(value: Any, longest: int) -> bool:
    """Cut the sizes in the transforms of a data set's config down, in place; whether one was larger."""
    smaller = False
    if isinstance(value, Mapping):
        for key in ('scale', 'crop_size', 'size'):
            old: Any = value.get(key)
            sizes = [old] if isinstance(old, int) else list(old) if is_pair(old) else []
            if sizes and max(sizes) > longest and 'type' in value:
                new = [max(1, round(size * longest / max(sizes))) for size in sizes]
                value[key] = new[0] if isinstance(old, int) else tuple(new)  # type: ignore[index]
                smaller = True
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            smaller = _shrink(inner, longest) or smaller
    return smaller
