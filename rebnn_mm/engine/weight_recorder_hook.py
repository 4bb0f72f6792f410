"""The mmengine hook that records flipped signs and latent weights."""

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..errors import RebnnError, did_you_mean
from ..layers import BinaryLayer
from .binary_hook import has_epochs, logs_now, optim_wrappers, unwrap_model
from .flip_recorder import FlipCounts, FlipRecorder

CHECKPOINT_KEY = 'binary_weight_record'

RECORD_FILE = 'vis_data/binary_weights.jsonl'
"""Path of the record below a run's log directory (``work_dir/<timestamp>``)."""

SNAPSHOTS = 8
"""Distributions over a whole run in addition to the first one, if their distance is not given."""


@HOOKS.register_module()
class BinaryWeightRecorderHook(Hook):
    """Records how often signs flip, and how latent weights are distributed, for the binary layers of any method.

    Add it after the method's own hook: ``custom_hooks=[..., dict(type='BinaryWeightRecorderHook')]``.

    - At every optimizer step it counts flips and sequential flips by layer
      (:class:`rebnn_mm.engine.flip_recorder.SignHistory` defines both).
    - Whenever the LoggerHook logs: ``flips_per_million`` and ``sequential_flips_per_million`` since the last time, per
      step and of a million binary weights, and ``flips_so_far_percent``, the flips of the whole run in percent of the
      weights, into the log and every visualizer backend. At the end of an epoch ``flip_percent/<layer>`` and
      ``sequential_flip_percent/<layer>``, per step, into the visualizer backends alone.
    - At the end of an epoch one line of JSON to ``work_dir/<timestamp>/vis_data/binary_weights.jsonl``. In a loop
      without epochs a pass over the data stands for one, the last of which may be cut short.
      :class:`rebnn_mm.analysis.weight_history.WeightHistory` reads the file; ``rebnn oscillation``
      and ``plot_weights.py`` draw it.

    A line has ``epoch`` (from 1; 0 holds the weights before training) and ``iteration``; ``layers``, by name
    ``weights``, ``steps``, ``flips`` and ``sequential_flips`` summed over the epoch's steps, ``epoch_flips`` and
    ``sequential_epoch_flips`` (null while no epoch came before); and ``channels``, a list of ``layer``, ``channel``,
    ``alpha`` (the factor of the quantizer's ``codes``: 1 where it has no factor, null where it has no codes) and the
    latent weights ``values`` to four digits.

    Cost: one byte of memory per binary weight, once more in each checkpoint; a few passes over the weights per step;
    less than 200 bytes of the file per layer and epoch, and 11 per recorded value. Training is the same to the last
    bit. In a distributed run only the first process counts and writes. A resumed run goes on as if not stopped.

    Args:
        layers: names of the layers whose latent weights are recorded; None takes the first binary layer, an empty list
            none. Flips are counted for all layers.
        channels: output channels recorded of each of these layers.
        every: epochs between two recordings of latent weights; None gives eight over the run. Before the first and
            after the last epoch they are recorded anyway.

    Raises:
        ValueError: a layer or channel does not exist, ``every`` is below 1, weights are sharded, or the optimizer is
            fused and used with AMP.

    Source: the ReBNN paper, Eq. 10 to 12 and its figures 1 to 3.
    """

    # After the method's hook, whose constraint on the weights belongs to the step; before the LoggerHook.
    priority = 55

    def __init__(
        self, layers: Sequence[str] | None = None, channels: Sequence[int] = (0,), every: int | None = None
    ) -> None:
        if every is not None and every < 1:
            raise RebnnError(f'BinaryWeightRecorderHook: every={every} must be at least 1 epoch.')
        if isinstance(layers, str):
            raise RebnnError(f'BinaryWeightRecorderHook: layers={layers!r} must be a list of names, [{layers!r}].')
        self.layers = layers
        self.channels = channels
        self.every = every
        self.recorder: FlipRecorder | None = None
        self._chosen: dict[str, BinaryLayer] = {}
        self._epoch: dict[str, FlipCounts] = {}
        self._since_log: dict[str, FlipCounts] = {}
        self._run: dict[str, FlipCounts] = {}
        self._epochs_seen = 0
        self._saved: dict[str, Any] = {}

    def before_train(self, runner: Runner) -> None:
        self.after_train(runner)  # where an error has ended a training before
        if not is_main_process():
            return
        recorder = FlipRecorder(unwrap_model(runner.model))
        for wrapper in optim_wrappers(runner):
            recorder.attach(wrapper.optimizer)
        if not recorder.recorded:
            print_log(
                'BinaryWeightRecorderHook: no binary weight is trained, so there is nothing to record. Remove the '
                "hook, or set conv_cfg=dict(type='ReBNNConv2d') where you want binary layers.",
                logger='current',
                level=logging.WARNING,
            )
            return
        self._chosen = self._choose(recorder)
        recorder.load_state_dict(self._saved.get('signs', {}))
        self._epochs_seen = self._saved.get('epochs_seen', 0)
        self._epoch, self._run = (
            {name: FlipCounts(**counts) for name, counts in self._saved.get(part, {}).items()}
            for part in ('epoch', 'run')
        )
        self._since_log, self._saved = {}, {}  # another training of this hook is not resumed
        self.recorder = recorder
        if runner.iter == 0:
            self._write(runner, dict(epoch=0, iteration=0, layers={}, channels=self._latent_weights()))

    def compile_steps(self, **options: Any) -> None:
        if self.recorder is not None:
            self.recorder.compile(**options)

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        """Write scalars for the LoggerHook; without epochs, end a pass over the data."""
        if self.recorder is None:
            return
        if logs_now(self, runner, batch_idx):
            self._take()
            seen = sum(counts.weights * counts.steps for counts in self._since_log.values())
            flips = sum(counts.flips for counts in self._since_log.values())
            sequential = sum(counts.sequential_flips for counts in self._since_log.values())
            self._since_log = {}
            all_flips = sum(counts.flips for counts in self._run.values())
            all_weights = sum(counts.weights for counts in self._run.values())
            for name, value in (
                ('flips_per_million', 1e6 * flips / max(seen, 1)),
                ('sequential_flips_per_million', 1e6 * sequential / max(seen, 1)),
                ('flips_so_far_percent', 100 * all_flips / max(all_weights, 1)),
            ):
                runner.message_hub.update_scalar(f'train/{name}', value)
        if not has_epochs(runner) and (runner.iter + 1) % self._pass_length(runner) == 0:
            self._close_epoch(runner, runner.iter + 1)

    def after_train_epoch(self, runner: Runner) -> None:
        """Record the epoch; without epochs, the last pass if it was cut short."""
        if self.recorder is not None and (has_epochs(runner) or runner.iter % self._pass_length(runner)):
            self._close_epoch(runner, runner.iter)

    def after_train(self, runner: Runner) -> None:
        if self.recorder is not None:
            self.recorder.detach()
            self.recorder = None

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        if self.recorder is not None:
            self._take()
            checkpoint[CHECKPOINT_KEY] = dict(
                signs=self.recorder.state_dict(),
                epochs_seen=self._epochs_seen,
                epoch={name: dict(vars(counts)) for name, counts in self._epoch.items()},
                run={name: dict(vars(counts)) for name, counts in self._run.items()},
            )

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        if getattr(runner, '_resume', False):
            self._saved = checkpoint.get(CHECKPOINT_KEY, {})

    def _choose(self, recorder: FlipRecorder) -> dict[str, BinaryLayer]:
        names = recorder.recorded[:1] if self.layers is None else self.layers
        for name in names:
            if name not in recorder.recorded:
                raise RebnnError(
                    f'the model trains no binary layer {name!r}.',
                    'BinaryWeightRecorderHook',
                    f'{did_you_mean(name, recorder.recorded, 0.0)} The log lists all layers.',
                )
            count = recorder.layers[name].weight.shape[0]
            for channel in self.channels:
                if not 0 <= channel < count:
                    raise RebnnError(
                        f'BinaryWeightRecorderHook: layer {name!r} has no channel {channel}; its {count} channels are '
                        f'0 to {count - 1}.'
                    )
        return {name: recorder.layers[name] for name in names}

    def _take(self) -> None:
        assert self.recorder is not None
        for name, counts in self.recorder.take_counts().items():
            for sums in (self._epoch, self._since_log, self._run):
                sums.setdefault(name, FlipCounts(counts.weights)).add(counts)

    def _close_epoch(self, runner: Runner, iteration: int) -> None:
        assert self.recorder is not None
        self._take()
        over_epoch = self.recorder.close_epoch()
        layers = {}
        scalars = {}
        for name, counts in self._epoch.items():
            flips, sequential = over_epoch[name]
            later = dict(epoch_flips=flips, sequential_epoch_flips=sequential if self._epochs_seen else None)
            layers[name] = dict(vars(counts), **later)
            if counts.steps:
                seen = counts.weights * counts.steps
                scalars[f'flip_percent/{name}'] = 100 * counts.flips / seen
                scalars[f'sequential_flip_percent/{name}'] = 100 * counts.sequential_flips / seen
        self._epoch = {}
        self._epochs_seen += 1
        epoch, last = runner.epoch + 1, runner.max_epochs
        if not has_epochs(runner):
            epoch, last = (math.ceil(steps / self._pass_length(runner)) for steps in (iteration, runner.max_iters))
        every = self.every or math.ceil(last / SNAPSHOTS)
        wanted = epoch % every == 0 or epoch == last
        channels = self._latent_weights() if wanted else []
        self._write(runner, dict(epoch=epoch, iteration=iteration, layers=layers, channels=channels))
        if scalars:
            runner.visualizer.add_scalars(scalars, step=epoch)

    def _pass_length(self, runner: Runner) -> int:
        return max(len(runner.train_dataloader), 1)

    @torch.no_grad()
    def _latent_weights(self) -> list[dict[str, Any]]:
        entries = []
        for name, layer in self._chosen.items():
            quantizer, weight = layer.weight_quantizer, layer.weight.detach()
            assert quantizer is not None
            factor = quantizer.codes(weight)[1] if quantizer.values.has_codes else None
            for channel in self.channels:
                own = 1.0 if factor is None else float(f'{float(factor[channel]):.6g}')
                alpha = own if quantizer.values.has_codes else None
                values = [float(f'{value:.4g}') for value in weight[channel].flatten().tolist()]
                entries.append(dict(layer=name, channel=channel, alpha=alpha, values=values))
        return entries

    def _write(self, runner: Runner, entry: dict[str, Any]) -> None:
        path = Path(runner.log_dir, RECORD_FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open('a') as file:
            # One write per line: a run that is killed leaves whole lines.
            file.write(json.dumps(entry, separators=(',', ':')) + '\n')
