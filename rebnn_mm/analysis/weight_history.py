"""Record of the weight recorder: flips by layer and epoch, latent weights of chosen channels."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.weight_recorder_hook import RECORD_FILE
from ..errors import RebnnError, did_you_mean

QUANTITIES = {
    'sequential': ('sequential flips per step', 'sequential_flips'),
    'flips': ('flips per step', 'flips'),
    'sequential-epoch': ('sequential flips per epoch', 'sequential_epoch_flips'),
    'flips-epoch': ('flips per epoch', 'epoch_flips'),
}
"""The flip ratios a record holds: what they are called in a figure, and their count in the record."""


@dataclass(frozen=True)
class ChannelWeights:
    """The latent weights of one output channel at the end of an epoch."""

    alpha: float | None  # scaling factor of the channel, None where the method has none
    values: np.ndarray  # shape (M,), M weights per channel


class WeightHistory:
    r"""The record of one run, as :class:`rebnn_mm.engine.BinaryWeightRecorderHook` wrote it.

    With W weights in a layer, :math:`f_t` of them flipped and :math:`s_t` flipped sequentially in step t, T steps in
    the epoch, and :math:`f_e`, :math:`s_e` the same between the ends of epochs:

    .. math::
        \text{per step} = \frac{1}{T W} \sum_{t=1}^{T} f_t \text{ or } s_t, \qquad
        \text{per epoch} = \frac{f_e \text{ or } s_e}{W}

    Of ``entries``, the lines of the record in the order written, one takes the place of those of its epoch and later
    ones, which a resumed run makes again. ``source`` is where they are from, for errors.
    """

    def __init__(self, entries: Iterable[dict[str, Any]], source: str = 'the record') -> None:
        self._source = source
        kept: list[dict[str, Any]] = []
        for entry in entries:
            kept = [earlier for earlier in kept if earlier['epoch'] < entry['epoch']] + [entry]
        self.entries = kept

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """Each finished epoch, from 1, with the iteration it ended at."""
        return [(entry['epoch'], entry['iteration']) for entry in self.entries if entry['epoch'] > 0]

    @property
    def layers(self) -> Sequence[str]:
        """Names of the layers whose flips are recorded, in the model's order."""
        return list({name: None for entry in self.entries for name in entry['layers']})

    @property
    def channels(self) -> Sequence[tuple[str, int]]:
        """Layer and output channel of each recorded distribution."""
        return list({(c['layer'], c['channel']): None for entry in self.entries for c in entry['channels']})

    def flip_percent(self, layer: str, quantity: str = 'sequential') -> tuple[list[int], list[float]]:
        """Epochs and a flip ratio in percent of the layer's weights, without the epochs in which it is not known."""
        self._check_known(layer, self.layers, 'layer')
        count = QUANTITIES[quantity][1]
        epochs, values = [], []
        for entry in self.entries:
            flips = entry['layers'].get(layer)
            if flips and flips['steps'] and flips[count] is not None:
                steps = 1 if quantity.endswith('-epoch') else flips['steps']
                epochs.append(entry['epoch'])
                values.append(100 * flips[count] / (flips['weights'] * steps))
        return epochs, values

    def latent_weights(self, layer: str, channel: int) -> dict[int, ChannelWeights]:
        """The distributions of one channel, by epoch; 0 is before training."""
        self._check_known(layer, list(dict(self.channels)), 'latent weights of layer')
        recorded = [index for name, index in self.channels if name == layer]
        if channel not in recorded:
            raise RebnnError(
                f'no latent weights of channel {channel} of layer {layer!r} in {self._source}; recorded: '
                f'{", ".join(map(str, recorded))}. Choose channels with BinaryWeightRecorderHook(channels=[...]).'
            )
        return {
            entry['epoch']: ChannelWeights(found['alpha'], np.asarray(found['values']))
            for entry in self.entries
            for found in entry['channels']
            if (found['layer'], found['channel']) == (layer, channel)
        }

    def _check_known(self, name: str, names: Sequence[str], what: str) -> None:
        if name not in names:
            fix = f'{did_you_mean(name, names)} Recorded: {", ".join(names) or "none"}.'.lstrip()
            raise RebnnError(f'no {what} {name!r} in {self._source}.', fix=fix)


def read_weight_history(work_dir: str | Path) -> WeightHistory:
    """Read the record of a run, of all its parts if it was stopped and resumed."""
    files = sorted(Path(work_dir).glob(f'*/{RECORD_FILE}'))
    if not files:
        raise RebnnError(
            f'no */{RECORD_FILE} in {work_dir}. Name the work dir of a run that had '
            "dict(type='BinaryWeightRecorderHook') in custom_hooks."
        )
    history = WeightHistory((entry for file in files for entry in _entries(file)), f'the record of {work_dir}')
    if not history.epochs:
        raise RebnnError(f'no epoch is recorded yet in {files[-1]}. Wait for the first one to end.')
    return history


def _entries(file: Path) -> list[dict[str, Any]]:
    *lines, _cut_off = file.read_text().split('\n')
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise RebnnError(f'{file}, line {number} is not JSON ({error.msg}). Remove the line.') from error
    return entries
