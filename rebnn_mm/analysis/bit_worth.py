"""Cost and gain of making a part of a 1-bit network full-precision: score, milliseconds, megabytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mmengine.config import Config
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..layers.base import SHORTCUT_NAMES, BinaryLayer

MOST_PARTS = 16
"""Parts of which all combinations are looked through."""


class Worth(NamedTuple):
    """A part of a network, real where everything else is 1-bit, against the same network with nothing real."""

    part: str
    layers: int  # binary layers in it
    weights: int  # binary weights in it
    gain: float  # points of the score
    ms: dict[str, float]  # milliseconds more for an image, by precision of the part: 'fp32' or 'int8'
    megabytes: dict[str, float]  # more of the file, by precision


def parts_of(model: nn.Module, each_layer: bool = False) -> dict[str, list[str]]:
    """Names of the binary layers, by part: a stage of a backbone, a tower of a head."""
    parts: dict[str, list[str]] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, BinaryLayer) and layer.binary:
            head = list(itertools.takewhile(lambda component: not component.isdigit(), name.split('.')))
            parts.setdefault(name if each_layer or not head else '.'.join(head), []).append(name)
    return parts


def keep_real(cfg: Config, names: Sequence[str]) -> dict[str, list[str]]:
    """Add names, in place, to every ``keep_real`` of a config, next to each binary layer; return the new lists."""
    places = list(_places(cfg.model))
    if not places:
        raise RebnnError('the model of the config says nowhere which layers are binary: give its parts a conv_cfg.')
    for place, default in places:
        before = place.get('keep_real', default)
        if before is False:
            raise RebnnError(
                f'keep_real=False of {place["type"]} keeps nothing in full precision: give it a list of names, [].'
            )
        place['keep_real'] = [*(default if before is True else before), *names]
    return {place['type']: place['keep_real'] for place, _ in places}


def _places(value: Any) -> Iterator[tuple[Any, Sequence[str]]]:
    """Configs that take ``keep_real``, and what it is where it is not given."""
    if isinstance(value, Mapping):
        kind = value.get('type')
        if isinstance(kind, str) and kind.removeprefix('rebnn_mm.') == 'Binarized':
            yield value, ()
            return
        found = MODELS.get(kind) if isinstance(kind, str) else kind
        if isinstance(found, type) and issubclass(found, BinaryLayer):
            yield value, SHORTCUT_NAMES
            return
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _places(inner)


def with_real_weights(state: Mapping[str, Tensor], model: nn.Module, names: Sequence[str]) -> dict[str, Tensor]:
    r"""A state dict in which layers hold their quantized weights, :math:`\alpha \, sign(w)`, as real layers."""
    new = dict(state)
    for name in names:
        layer = model.get_submodule(name)
        assert isinstance(layer, BinaryLayer)
        quantizer = layer.weight_quantizer
        if quantizer is not None and quantizer.values.has_codes:
            codes, factor = quantizer.codes(layer.weight.detach())
            scale = 1 if factor is None else factor.detach().view(-1, *[1] * (codes.dim() - 1))
            new[f'{name}.weight'] = (codes * scale).to(layer.weight.dtype)
        elif quantizer is not None:
            new[f'{name}.weight'] = quantizer(layer.weight.detach()).detach()
        for key in state:
            if key.startswith((f'{name}.weight_quantizer.', f'{name}.activation_quantizer.')):
                del new[key]
    return new


def proposal(
    worths: Sequence[Worth], precision: str, *, ms: float | None = None, megabytes: float | None = None
) -> list[Worth]:
    """The parts that bring the most, made real together, for at most so many milliseconds and megabytes more.

    Gains and costs are taken to add up, which is to be checked by training the result.
    """
    useful = [worth for worth in worths if worth.gain > 0]
    if len(useful) > MOST_PARTS:
        raise RebnnError(f'{len(useful)} parts gain something, more than {MOST_PARTS}: take larger parts.')
    best: tuple[float, float, tuple[Worth, ...]] = (0.0, 0.0, ())
    for count in range(1, len(useful) + 1):
        for chosen in itertools.combinations(useful, count):
            time, size = (sum(getattr(w, cost)[precision] for w in chosen) for cost in ('ms', 'megabytes'))
            if (ms is None or time <= ms) and (megabytes is None or size <= megabytes):
                best = max(best, (sum(w.gain for w in chosen), -time, chosen), key=lambda entry: entry[:2])
    return list(best[2])


def markdown(worths: Sequence[Worth], metric: str) -> list[str]:
    r"""A table, a line for each part, the most points first."""
    ordered = sorted(worths, key=lambda worth: -worth.gain)

    def costs(values: Mapping[str, float], digits: int) -> str:
        return ', '.join(f'{value:+.{digits}f}' for value in values.values())

    kinds = ', '.join(ordered[0].ms) if ordered else ''
    return [
        f'| real part | layers | million weights | {metric} | ms: {kinds} | MB: {kinds} |',
        '|---|--:|--:|--:|--:|--:|',
        *(
            f'| {w.part} | {w.layers} | {w.weights / 1e6:.2f} | {w.gain:+.1f} | {costs(w.ms, 1)} | '
            f'{costs(w.megabytes, 2)} |'
            for w in ordered
        ),
    ]
