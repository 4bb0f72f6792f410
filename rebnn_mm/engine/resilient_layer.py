"""The resilient gradient of layers: what happens before and after an optimizer step.

Layers of one fan-in are joined to one matrix with a row for each channel: on a GPU each operation has to be started,
and takes little longer for the channels of a whole network than for those of one layer.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from ..functional import bounded, channel_dims, flip_share, limited, reconstruction_residual, zero_outside_one_
from ..functional.resilient import add_reconstruction_, flips_since, measured
from ..layers import BinaryLayer
from ..methods import ReBNNWeight
from ..methods.rebnn import ALPHA_MIN
from .optimizer_step import local


class LayerCounts:
    """Counters of one layer between two entries of the log, on the weight's device; and since training began.

    Args:
        weight: the layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weights = weight.numel()
        self.steps = 0
        """Steps since :meth:`clear`."""
        channels = len(weight)
        self.flips = torch.zeros(channels, dtype=torch.int64, device=weight.device)
        """Weights flipped, by channel."""
        self.flip_backs = torch.zeros_like(self.flips)
        """Sequential flips: those of these that the step before had flipped, too."""
        self.task_squares = torch.zeros(channels, device=weight.device)
        """Squared norm of the task's gradient, by channel, summed over steps."""
        self.term_squares = torch.zeros_like(self.task_squares)
        """Squared norm of the reconstruction term, by channel, summed over steps."""
        self._flips_before, self._steps_before = 0, 0

    @property
    def all_flips(self) -> int:
        """Weights flipped by all steps of the run; brings a number from the device."""
        return self._flips_before + int(self.flips.sum())

    @property
    def all_steps(self) -> int:
        """Steps of the run."""
        return self._steps_before + self.steps

    def clear(self) -> None:
        """Begin anew; what was counted stays in :attr:`all_flips` and :attr:`all_steps`."""
        self.resume(self.all_flips, self.all_steps)
        self.steps = 0
        for sums in (self.flips, self.flip_backs, self.task_squares, self.term_squares):
            sums.zero_()

    def resume(self, flips: int, steps: int) -> None:
        """Count on from what an earlier run had."""
        self._flips_before, self._steps_before = flips, steps


class ResilientLayer:
    """One layer to which the reconstruction term is applied, and its gamma; :func:`before_step`, :func:`after_step`.

    Args:
        name: the layer's name, for errors and saved state.
        layer: a binary layer whose weight quantizer is :class:`rebnn_mm.methods.ReBNNWeight`.
    """

    def __init__(self, name: str, layer: BinaryLayer) -> None:
        assert isinstance(layer.weight_quantizer, ReBNNWeight)
        self.name = name
        self.quantizer: ReBNNWeight = layer.weight_quantizer
        self.parameter = layer.weight
        self.weight = local(layer.weight)
        self.counts = LayerCounts(self.weight)
        self.negative: Tensor | None = None
        """Signs of the latent weight before the step (True: negative), if the step moves it."""
        self.changed: Tensor | None = None
        """Mask of the signs that the last step changed."""
        self.max_gradient: Tensor | None = None
        self._window_start: Tensor | None = None
        self._window_steps = 0

    @property
    def frozen(self) -> bool:
        """Whether this step leaves the weight alone."""
        return not self.parameter.requires_grad or self.parameter.grad is None

    @property
    def alpha(self) -> Tensor:
        """Scaling factor of the channels that this process holds."""
        return local(self.quantizer.alpha)

    @property
    def gamma(self) -> Tensor:
        """Balanced parameter of the channels that this process holds."""
        return local(self.quantizer.gamma)

    def shard_gamma(self) -> None:
        """Share gamma out as the weight's channels are, which FSDP2 leaves to the owners of buffers."""
        weight, gamma = self.parameter, self.quantizer.gamma
        if isinstance(weight, DTensor) and not isinstance(gamma, DTensor):
            self.quantizer.gamma = distribute_tensor(gamma, weight.device_mesh, weight.placements)

    @property
    def latent(self) -> Tensor:
        """The weight whose signs are taken: centred, if the quantizer centres."""
        return self.quantizer.latent(self.weight)

    @property
    def learns(self) -> bool:
        """Whether gamma is learned."""
        return isinstance(self.quantizer.gamma_mode, str)

    @property
    def masks(self) -> bool:
        """Whether the factor 1[|w| <= 1] of the gradient is left to the step."""
        return self.quantizer.variant == 'paper'

    def open_window(self) -> None:
        """Note the signs that a window of several steps begins with."""
        if self.learns and self.quantizer.flip_window != 1 and self._window_start is None:
            self._window_start = self.negative

    def count_in_window(self) -> None:
        """End a window that is full."""
        self._window_steps += 1
        if self._window_steps == self.quantizer.flip_window:
            self.close_window()

    @torch.no_grad()
    def close_window(self) -> None:
        """Renew gamma from the flips since the window began, and begin a new one."""
        if self._window_start is not None and self.max_gradient is not None:
            share = flip_share(self._window_start ^ (self.latent < 0))
            self.gamma.copy_(_learned([self], self.max_gradient, share))
        self._window_start, self._window_steps = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Flips and steps so far, and the open flip window where flips are not counted per step."""
        state: dict[str, Any] = {'flips': self.counts.all_flips, 'steps': self.counts.all_steps}
        if self._window_start is not None:
            state |= {'window_start': self._window_start, 'window_steps': self._window_steps}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count on, and continue an open flip window."""
        self.counts.resume(state.get('flips', 0), state.get('steps', 0))
        if 'window_start' in state:
            self._window_start = state['window_start'].to(self.weight.device)
            self._window_steps = state['window_steps']


@torch.no_grad()
def before_step(layers: Sequence[ResilientLayer]) -> None:
    """Finish the gradients: the mask of Eq. 5, the reconstruction term of Eq. 8 and 16, the centring."""
    moving = []
    for layer in layers:
        layer.negative = None
        if layer.frozen:
            _pull_alpha(layer)
        else:
            moving.append(layer)
    for layer in moving:
        if layer.quantizer.gamma_mode == 0:
            latent = layer.latent
            layer.negative = latent < 0
            if layer.masks:
                zero_outside_one_(_gradient(layer), latent)
    for group in _alike(moving, _term_key):
        _add_terms(group)
    for layer in moving:
        if layer.quantizer.center is not None:
            grad = _gradient(layer)
            grad.sub_(grad.mean(dim=channel_dims(grad), keepdim=True))


@torch.no_grad()
def after_step(layers: Sequence[ResilientLayer]) -> None:
    """Count flips, renew gamma (Eq. 14), keep alpha positive."""
    for alphas in _alike([layer.alpha for layer in layers], lambda alpha: (alpha.device, alpha.dtype)):
        torch._foreach_clamp_min_(alphas, ALPHA_MIN)
    for group in _alike([layer for layer in layers if layer.negative is not None], _learning_key):
        sizes = [len(layer.weight) for layer in group]
        before = [layer.changed for layer in group]
        known = None if before[0] is None else _rows(before)
        changed, flips, flip_backs = flips_since(
            _rows([layer.negative for layer in group]), _rows([layer.latent for layer in group]), known
        )
        for layer, own in zip(group, changed.split(sizes), strict=True):
            layer.changed = own
        for counted, into in (
            (flips, [layer.counts.flips for layer in group]),
            (flip_backs, [layer.counts.flip_backs for layer in group]),
        ):
            torch._foreach_add_(into, counted.long().split(sizes))
        if not group[0].learns:
            continue
        if group[0].quantizer.flip_window != 1:
            for layer in group:
                layer.count_in_window()
            continue
        gamma = _learned(
            group, torch.cat([_largest_gradient(layer) for layer in group]), flips.float() / _fan_in(group[0])
        )
        torch._foreach_copy_([layer.gamma for layer in group], gamma.split(sizes))


def count_step(layers: Sequence[ResilientLayer]) -> None:
    """Count the step where it moved a layer; apart from the rest, so that a compiler sees no number change."""
    for layer in layers:
        layer.counts.steps += layer.negative is not None


def _term_key(layer: ResilientLayer) -> Hashable:
    """Return what layers have in common whose terms are computed as one matrix; None for a layer without one."""
    quantizer, weight = layer.quantizer, layer.weight
    if quantizer.gamma_mode == 0:
        return None
    return quantizer.max_share, layer.masks, weight.device, weight.dtype, _fan_in(layer)


def _learning_key(layer: ResilientLayer) -> Hashable:
    quantizer, weight = layer.quantizer, layer.weight
    mode = quantizer.gamma_mode if layer.learns else None
    options = mode, quantizer.gamma_bounds, quantizer.flip_window
    return *options, layer.changed is None, weight.device, weight.dtype, _fan_in(layer)


def _alike(items: Iterable[Any], key: Callable[[Any], Hashable]) -> list[list[Any]]:
    """Items in groups of one key; those whose key is None in none."""
    groups: dict[Hashable, list[Any]] = {}
    for item in items:
        found = key(item)
        if found is not None:
            groups.setdefault(found, []).append(item)
    return list(groups.values())


def _gradient(layer: ResilientLayer) -> Tensor:
    grad = layer.parameter.grad
    assert grad is not None
    return local(grad)


def _largest_gradient(layer: ResilientLayer) -> Tensor:
    assert layer.max_gradient is not None
    return layer.max_gradient


def _fan_in(layer: ResilientLayer) -> int:
    """Weights of a channel."""
    return layer.weight[0].numel()


def _pull_alpha(layer: ResilientLayer) -> None:
    """The term's part in the gradient of alpha, of a layer whose weight is frozen."""
    quantizer = layer.quantizer
    if quantizer.gamma_mode != 0 and quantizer.alpha.grad is not None:
        _, pull = reconstruction_residual(layer.latent, layer.alpha)
        local(quantizer.alpha.grad).sub_(layer.gamma.to(pull.dtype) * pull)


def _rows(tensors: Iterable[Tensor | None]) -> Tensor:
    """Return layers of one fan-in as one matrix with a row for each channel."""
    return torch.cat([tensor.flatten(1) for tensor in tensors if tensor is not None])


def _add_terms(layers: Sequence[ResilientLayer]) -> None:
    """Add the reconstruction term of layers, note what they learn gamma from, and measure the two gradients."""
    sizes = [len(layer.weight) for layer in layers]
    grads = [_gradient(layer) for layer in layers]
    grad, latent = _rows(grads), _rows([layer.latent for layer in layers])
    alpha = torch.cat([layer.alpha for layer in layers])
    found = measured(grad, latent, alpha)
    gamma = torch.cat([layer.gamma for layer in layers]).to(alpha.dtype)
    gamma = limited(gamma, found.task, found.distance, layers[0].quantizer.max_share)
    largest = (found.largest / alpha).split(sizes)
    for layer, negative, own_largest in zip(layers, found.negative.split(sizes), largest, strict=True):
        layer.negative = negative.view(layer.weight.shape)
        if layer.learns:
            layer.max_gradient = own_largest
            layer.open_window()
    add_reconstruction_(grad, latent, alpha, gamma, layers[0].masks, found.residual)
    torch._foreach_copy_(grads, [part.view(own.shape) for part, own in zip(grad.split(sizes), grads, strict=True)])
    pulls = (gamma * (found.magnitude - alpha * _fan_in(layers[0]))).split(sizes)
    trained = [
        (local(layer.quantizer.alpha.grad), pull)
        for layer, pull in zip(layers, pulls, strict=True)
        if layer.quantizer.alpha.grad is not None
    ]
    if trained:
        torch._foreach_sub_([own for own, _ in trained], [pull for _, pull in trained])
    counts = [layer.counts for layer in layers]
    torch._foreach_add_([count.task_squares for count in counts], found.task.square().float().split(sizes))
    terms = (gamma * found.distance).square().float()
    torch._foreach_add_([count.term_squares for count in counts], terms.split(sizes))


def _learned(layers: Sequence[ResilientLayer], max_gradient: Tensor, share_of_flips: Tensor) -> Tensor:
    """Gamma of the channels of layers that learn it alike."""
    quantizer = layers[0].quantizer
    gamma = max_gradient.to(quantizer.gamma.dtype)
    if quantizer.gamma_mode == 'adaptive':
        gamma = gamma * share_of_flips
    return bounded(gamma, quantizer.gamma_bounds)
