"""From the flips of a few hundred steps to those of a whole training, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .rate_schedule import RateSchedule

ENOUGH = 100.0
"""Flips of a whole training below which signs cannot suffice, in percent of the weights; see :func:`verdict`."""

SURELY = 10
"""A layer without a flip is named if its share of all flips would have been so many."""


class LayerFlips(NamedTuple):
    """Counts of one binary layer."""

    name: str
    weights: int
    steps: int
    flips: int


@dataclass(frozen=True)
class FlipProjection:
    """The flips of a whole training, from those of a few steps at its highest rate.

    Flips per step are taken to be proportional to the learning rate, so those of the schedule are the measured flips
    per step times :attr:`RateSchedule.full_steps`. What that leaves out, and how far it is from recorded runs, is in
    lab/reports/oscillation.md.
    """

    layers: Sequence[LayerFlips]  # the binary layers that are trained
    schedule: RateSchedule

    @property
    def weights(self) -> int:
        """Binary weights that are trained."""
        return sum(layer.weights for layer in self.layers)

    @property
    def step_percent(self) -> float:
        """Flips per step at the highest rate, in percent of all weights."""
        return 100 * sum(layer.flips / layer.steps for layer in self.layers) / self.weights

    @property
    def percent(self) -> float:
        """Flips of the whole training, in percent of all weights."""
        return self.step_percent * self.schedule.full_steps

    @property
    def least(self) -> LayerFlips:
        """The layer with the fewest flips per weight."""
        return min(self.layers, key=lambda layer: layer.flips / layer.weights)

    @property
    def silent(self) -> list[str]:
        """Layers without a flip while the others flip: their share would have been at least :data:`SURELY`."""
        per_weight = sum(layer.flips for layer in self.layers) / self.weights
        return [layer.name for layer in self.layers if not layer.flips and per_weight * layer.weights >= SURELY]

    def layer_percent(self, name: str) -> float:
        """Flips of one layer over the whole training, in percent of its weights."""
        (layer,) = (layer for layer in self.layers if layer.name == name)
        return 100 * layer.flips / layer.steps / layer.weights * self.schedule.full_steps


def verdict(projection: FlipProjection, wrapper: Mapping[str, Any], enough: float = ENOUGH) -> str:
    """One sentence: how often signs flip in the whole training, and what to do where that cannot suffice.

    A random start gives every second weight the wrong sign, and only a flip can correct one. With as many flips as
    weights each sign can have been decided by data once, which is why :data:`ENOUGH` is 100 %. So many are
    necessary, not sufficient (lab/reports/oscillation.md).
    """
    total, least = projection.percent, projection.least
    option = 'optim_wrapper.paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult={})))'
    # The constructor knows roles.
    if not str(wrapper.get('constructor', '')).endswith('BinaryOptimWrapperConstructor'):
        option = f"optim_wrapper.constructor='BinaryOptimWrapperConstructor' and {option}"
    if not total:
        return (
            f'no sign flipped in {least.steps} steps, which cannot suffice: look whether the task reaches the binary '
            'layers (norms that start at zero, gamma), then raise the rate of latent weights: '
            f'{option.format("N")}'
        )
    said = (
        f'signs flip {round_percent(total)} % of the weights over the whole schedule '
        f'(least {least.name}, {round_percent(projection.layer_percent(least.name))} %)'
    )
    if total < enough:
        times = round_up(enough / total)
        said += (
            f' and cannot suffice: raise the rate of latent weights about {times:,g} times: '
            f'{option.format(f"{times * find_lr_mult(wrapper):g}")}'
        )
    else:
        said += ', so each can be decided by data'
    silent = projection.silent
    if silent:
        more = f' and {len(silent) - 3} more' if len(silent) > 3 else ''
        said += f'; not one sign flipped in {", ".join(silent[:3])}{more} while the others did'
    return said


def find_lr_mult(wrapper: Mapping[str, Any]) -> float:
    """Find the factor of the rate of latent weights."""
    roles = (wrapper.get('paramwise_cfg') or {}).get('roles') or {}
    named = {role.replace('_', ' '): given for role, given in roles.items()}
    return (named.get('latent weight') or {}).get('lr_mult', 1.0)


def round_percent(percent: float) -> str:
    """Round a percentage for a sentence or a table: two digits below 10, whole above."""
    return f'{percent:,.0f}' if percent >= 10 or not percent else f'{percent:.2g}'


def round_up(times: float) -> float:
    """To two digits, never down."""
    digit = 10.0 ** (math.floor(math.log10(times)) - 1)
    return math.ceil(round(times / digit, 6)) * digit
