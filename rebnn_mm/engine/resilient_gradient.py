"""The resilient gradient of a whole model, around any PyTorch optimizer.

What happens before and after a step is computed for the joined channels of all layers that have the same options.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from ..errors import RebnnError
from ..functional import channel_dims, channel_mean_abs, zero_outside_one_
from ..layers import BinaryLayer
from ..methods.rebnn import ReBNNWeight, add_reconstruction_, flips_since, join_channels, limit_gamma, measure_channels
from ..quantizers.base import least_alpha
from .optimizer_step import AroundSteps, local, trained_by


class ResilientLayer:
    """One layer to which the reconstruction term is applied, its gamma, and what is counted of it."""

    def __init__(self, name: str, layer: BinaryLayer) -> None:
        assert isinstance(layer.weight_quantizer, ReBNNWeight)
        self.name = name
        self.quantizer: ReBNNWeight = layer.weight_quantizer
        self.parameter = layer.weight
        self.weight = local(layer.weight)
        self.weights = self.weight.numel()
        # Of the steps between two entries of the log: flips, those of them that the step before had flipped, too, and
        # squared norms of the task's gradient and of the term, by channel.
        self.steps = 0
        self.flips = torch.zeros(len(self.weight), dtype=torch.int64, device=self.weight.device)
        self.sequential_flips = torch.zeros_like(self.flips)
        self.task_squares = torch.zeros(len(self.weight), device=self.weight.device)
        self.term_squares = torch.zeros_like(self.task_squares)
        self._flips_before, self._steps_before = 0, 0
        self.fan_in = self.task_squares.new_full((len(self.weight),), math.prod(self.weight.shape[1:]))
        self.negative: Tensor | None = None
        """Where the latent weight was negative before the step, if the step moves it."""
        self.changed: Tensor | None = None
        """Where the last step has changed signs."""
        self.magnitude: Tensor | None = None
        """Sum of the magnitudes of each channel's latent weights before the step, if it moves alpha."""
        self.max_gradient: Tensor | None = None
        self._window_start: Tensor | None = None
        self._window_steps = 0

    @property
    def all_flips(self) -> int:
        """Weights flipped by all steps of the run; brings a number from the device."""
        return self._flips_before + int(self.flips.sum())

    @property
    def all_steps(self) -> int:
        return self._steps_before + self.steps

    def clear(self) -> None:
        """Begin to count again; what was counted stays in :attr:`all_flips` and :attr:`all_steps`."""
        self._flips_before, self._steps_before = self.all_flips, self.all_steps
        self.steps = 0
        for sums in (self.flips, self.sequential_flips, self.task_squares, self.term_squares):
            sums.zero_()

    @property
    def alpha(self) -> Tensor:
        return local(self.quantizer.alpha)

    @property
    def gamma(self) -> Tensor:
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
        self._window_steps += 1
        if self._window_steps == self.quantizer.flip_window:
            self.close_window()

    @torch.no_grad()
    def close_window(self) -> None:
        """Renew gamma from the flips since the window began, and begin a new one."""
        if self._window_start is not None and self.max_gradient is not None:
            flips = (self._window_start ^ (self.latent < 0)).flatten(1).sum(dim=1, dtype=torch.int32)
            self.gamma.copy_(self.quantizer.learn_gamma(self.max_gradient, flips / self.fan_in))
        self._window_start, self._window_steps = None, 0

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {'flips': self.all_flips, 'steps': self.all_steps}
        if self._window_start is not None:
            state |= {'window_start': self._window_start, 'window_steps': self._window_steps}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._flips_before, self._steps_before = state.get('flips', 0), state.get('steps', 0)
        if 'window_start' in state:
            self._window_start = state['window_start'].to(self.weight.device)
            self._window_steps = state['window_steps']


class ResilientGradient(AroundSteps):
    r"""Applies ReBNN's reconstruction term and learns gamma, around ``optimizer.step``.

    One step of every layer, in this order (:math:`G = \partial L / \partial \hat w`, :math:`b = sign(w)`):

    1. before: :math:`\delta_w = \alpha G 1_{|w| \le 1} + \gamma (w - \alpha b)` and
       :math:`\delta_{\alpha_i} = \sum_j G_{ij} b_{ij} - \gamma_i \sum_j (w_{ij} - \alpha_i b_{ij}) b_{ij}`, with
       gamma limited to where the term stays a share of the task's gradient
       (:func:`rebnn_mm.methods.rebnn.limit_gamma`);
    2. the optimizer's step;
    3. after: :math:`\gamma_i =` share of flipped signs :math:`\cdot \max_j |G_{ij}|` within its bounds.

    With ``center='row'`` w stands for the centred weight in all three, and the mean of each channel is taken off
    :math:`\delta_w` last, which is how it reaches the latent weight.

    The hooks see final gradients: accumulated, reduced by DDP and unscaled; a step that is skipped for inf does not
    call them. Clipping comes before them: it sees G before the mask and the centring, and not the reconstruction term.
    Inside mmengine use :class:`ReBNNHook`, which does all of this.

    Raises:
        ValueError: the optimizer or the model is one whose gradients these hooks cannot see as they should be
            (sharded, or weight and alpha in different optimizers).

    Source: the ReBNN paper, Eq. 5, 8, 14 and 16; ``torch.optim.Optimizer.register_step_pre_hook``.

    Example:
        >>> from rebnn_mm.methods import ReBNNLinear
        >>> model = ReBNNLinear(8, 4)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> resilient = ResilientGradient(model).attach(optimizer)
        >>> model(torch.randn(16, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> sorted(resilient.statistics())[:2]
        ['alpha_over_mean_abs_w', 'flips_per_million']
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._layers = {
            name.removeprefix('module.'): ResilientLayer(name.removeprefix('module.'), module)
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and isinstance(module.weight_quantizer, ReBNNWeight)
        }
        for layer in self._layers.values():
            layer.quantizer.start(layer.parameter)
        self.term_shares: dict[str, float] = {}
        """By layer, the share that ``statistics`` found last; without layers that have no term."""
        self.masked_shares: dict[str, float] = {}
        """By layer, the share of weights beyond 1 that ``statistics`` found last."""
        self._attached: list[ResilientLayer] = []
        self._before_layers, self._after_layers = before_step, after_step

    def __len__(self) -> int:
        return len(self._layers)

    @property
    def layers(self) -> Sequence[ResilientLayer]:
        return list(self._layers.values())

    def attach(self, optimizer: Optimizer) -> 'ResilientGradient':
        """Install the step hooks on an optimizer of some or all ReBNN layers; call once for each. Returns itself."""
        held = trained_by(optimizer)
        # Of a layer with a frozen weight alpha alone may be trained.
        layers = [
            layer
            for layer in self._layers.values()
            if id(layer.parameter if layer.parameter.requires_grad else layer.quantizer.alpha) in held
        ]
        _refuse_tied(layers)
        for layer in layers:
            alpha = layer.quantizer.alpha
            if alpha.requires_grad and id(alpha) not in held:
                raise RebnnError(
                    f'ReBNN layer {layer.name!r}: its weight is in this {type(optimizer).__name__}, its alpha is not. '
                    'Give both to the same optimizer.'
                )
            layer.quantizer.attach(self)
            layer.shard_gamma()
        # Layers of one fan-in that stand together are computed at once.
        layers.sort(key=lambda layer: math.prod(layer.weight.shape[1:]))

        def after() -> None:
            self._after_layers(layers)
            for layer in layers:  # apart from the rest, so that a compiler sees no number change
                layer.steps += layer.negative is not None
                layer.quantizer.note_step()

        self._around(optimizer, lambda: self._before_layers(layers), after)
        self._attached += layers
        return self

    def compile(self, **options: Any) -> None:
        """Compile what is done around a step: on a GPU hundreds of small operations become a few kernels."""
        self._before_layers = torch.compile(before_step, **options)
        self._after_layers = torch.compile(after_step, **options)

    def detach(self) -> None:
        super().detach()
        for layer in self._attached:
            layer.quantizer.detach(self)
        self._attached = []

    def close_epoch(self) -> None:
        """Renew gamma where flips are counted per epoch (``flip_window='epoch'``)."""
        for layer in self._attached:
            if layer.quantizer.flip_window == 'epoch':
                layer.close_window()

    @torch.no_grad()
    def statistics(self) -> dict[str, float]:
        """Summarise what happened since the last call, over all layers; gathers the numbers from the device.

        Returns:
            dict[str, float]:

            - ``flips_per_million``: signs flipped per step, of a million weights;
            - ``sequential_flips_per_million``: signs flipped that the step before had flipped the other way, of a
              million weights (the paper's sequential oscillation);
            - ``flips_so_far_percent``: flips of all steps since training began, in percent of the weights; 100 is one
              flip for each weight;
            - ``term_share_median_percent``, ``term_share_max_percent``: norm of the reconstruction term over the norm
              of the task's gradient, of the median layer and of the layer with the largest;
            - ``gamma_mean_x1e6``: mean of gamma over all channels, in millionths;
            - ``gamma_at_lower_percent``, ``gamma_at_upper_percent``: channels on each bound, in percent of those that
              have bounds;
            - ``alpha_over_mean_abs_w``: mean over all channels of alpha over the mean of |w|;
            - ``masked_percent``: latent weights beyond 1, which get no gradient of the task, in percent.
        """
        if not self._layers:
            return {}
        quantizers = [layer.quantizer for layer in self.layers]
        gamma, alpha = _of_channels(self.layers, 'gamma', 'alpha')
        mean_abs = torch.cat([channel_mean_abs(layer.weight) for layer in self.layers]).clamp(min=1e-12)
        ruled = [q for q in quantizers if isinstance(q.gamma_mode, str) and q.gamma_bounds]
        gamma_mean, ratio_mean, *at_bounds = torch.stack(
            [
                gamma.double().mean(),
                (alpha / mean_abs).double().mean(),
                *([_on_bound(ruled, 0), _on_bound(ruled, 1)] if ruled else []),
            ]
        ).tolist()
        counts = _of_channels(self.layers, 'flips', 'sequential_flips')
        flips, sequential = torch.stack([own.sum() for own in counts]).tolist()
        self.term_shares = self._take_term_shares()
        beyond = [(layer.latent.abs() > 1).double().mean() * layer.masks for layer in self.layers]
        self.masked_shares = dict(zip(self._layers, torch.stack(beyond).tolist(), strict=True))
        seen = max(sum(layer.weights * layer.steps for layer in self.layers), 1)
        for layer in self.layers:
            layer.clear()
        masked = sum(self.masked_shares[layer.name] * layer.weights for layer in self.layers)
        result = {
            'flips_per_million': 1e6 * flips / seen,
            'sequential_flips_per_million': 1e6 * sequential / seen,
            'flips_so_far_percent': self.flips_so_far_percent,
            'gamma_mean_x1e6': 1e6 * gamma_mean,
            'alpha_over_mean_abs_w': ratio_mean,
            'masked_percent': 100 * masked / sum(layer.weights for layer in self.layers),
        }
        if self.term_shares:
            shares = sorted(self.term_shares.values())
            result['term_share_median_percent'] = 100 * shares[len(shares) // 2]
            result['term_share_max_percent'] = 100 * shares[-1]
        if ruled:
            result['gamma_at_lower_percent'], result['gamma_at_upper_percent'] = (100 * share for share in at_bounds)
        return result

    @property
    def flips_so_far_percent(self) -> float:
        """Flips of all steps of the run, in percent of the weights of the layers that take steps."""
        moved = [layer for layer in self.layers if layer.all_steps]
        return 100 * sum(layer.all_flips for layer in moved) / max(sum(layer.weights for layer in moved), 1)

    def find_unmoved(self, steps: int) -> list[str]:
        """Name the layers that took at least so many steps without a flip."""
        return [layer.name for layer in self.layers if layer.all_steps >= steps and layer.all_flips == 0]

    def _take_term_shares(self) -> dict[str, float]:
        layers = [layer for layer in self.layers if layer.steps and layer.quantizer.gamma_mode != 0]
        if not layers:
            return {}
        squares = torch.stack([torch.stack([own.task_squares.sum(), own.term_squares.sum()]) for own in layers])
        # A layer without any task gradient gets no term.
        shares = (squares[:, 1] / squares[:, 0].clamp(min=torch.finfo(squares.dtype).tiny)).sqrt().tolist()
        return dict(zip((layer.name for layer in layers), shares, strict=True))

    def state_dict(self) -> dict[str, dict[str, Any]]:
        return {name: layer.state_dict() for name, layer in self._layers.items()}

    def load_state_dict(self, states: dict[str, dict[str, Any]]) -> None:
        for name, state in states.items():
            if name in self._layers:
                self._layers[name].load_state_dict(state)


def _on_bound(quantizers: Sequence[ReBNNWeight], which: int) -> Tensor:
    """Share of channels whose gamma is on its lower (0) or upper (1) bound."""
    return torch.cat([local(q.gamma) == q.gamma_bounds[which] for q in quantizers if q.gamma_bounds]).double().mean()


def _refuse_tied(layers: Sequence[ResilientLayer]) -> None:
    owners: dict[int, str] = {}
    for layer in layers:
        other = owners.setdefault(id(layer.parameter), layer.name)
        if other != layer.name:
            raise RebnnError(
                f'ReBNN layers {other!r} and {layer.name!r} share one weight and have scaling factors of their own, '
                'so its gradient does not tell what either needs for gamma. Use one layer twice, or another method.'
            )


@torch.no_grad()
def before_step(layers: Sequence[ResilientLayer]) -> None:
    """Finish the gradients: the mask of Eq. 5, the reconstruction term of Eq. 8 and 16, the centring."""
    moving = []
    for layer in layers:
        layer.negative = layer.magnitude = None
        if layer.parameter.requires_grad and layer.parameter.grad is not None:
            moving.append(layer)
        else:
            _pull_alpha(layer)
    for layer in moving:
        if layer.quantizer.gamma_mode == 0:
            latent = layer.latent
            layer.negative = latent < 0
            _pull_alpha(layer)
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
    moved = [layer for layer in layers if layer.magnitude is not None]
    for group in _alike(moved, lambda layer: (layer.weight.device, layer.weight.dtype)):
        magnitude, fan_in = _of_channels(group, 'magnitude', 'fan_in')
        least = least_alpha(magnitude / fan_in).split([len(layer.weight) for layer in group])
        torch._foreach_maximum_([layer.alpha for layer in group], least)
    for group in _alike([layer for layer in layers if layer.negative is not None], _learning_key):
        _count_and_learn(group)


def _term_key(layer: ResilientLayer) -> Hashable:
    """Return what layers have in common whose terms are computed at once; None for a layer without one."""
    quantizer, weight = layer.quantizer, layer.weight
    if quantizer.gamma_mode == 0:
        return None
    return quantizer.max_share, layer.masks, weight.device, weight.dtype


def _learning_key(layer: ResilientLayer) -> Hashable:
    quantizer, weight = layer.quantizer, layer.weight
    mode = quantizer.gamma_mode if layer.learns else None
    options = mode, quantizer.gamma_bounds, quantizer.flip_window
    return *options, layer.changed is None, weight.device, weight.dtype


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


def _of_channels(layers: Sequence[ResilientLayer], *names: str) -> Sequence[Tensor]:
    """Join what layers have of each channel, by name."""
    return torch.cat([getattr(layer, name) for name in names for layer in layers]).split(
        sum(len(layer.weight) for layer in layers)
    )


def _pull_alpha(layer: ResilientLayer) -> None:
    """Measure what alpha is held to, and add the term's part in its gradient; of a layer whose weight gets no term."""
    quantizer = layer.quantizer
    if quantizer.alpha.grad is not None:
        layer.magnitude = torch.linalg.vector_norm(layer.latent, ord=1, dim=channel_dims(layer.latent))
        if quantizer.gamma_mode != 0:
            pull = layer.magnitude - layer.alpha * layer.fan_in
            local(quantizer.alpha.grad).sub_(layer.gamma.to(pull.dtype) * pull)


def _add_terms(layers: Sequence[ResilientLayer]) -> None:
    """Add the reconstruction term of layers, note what they learn gamma from, and measure the two gradients."""
    sizes = [len(layer.weight) for layer in layers]
    grads = [_gradient(layer) for layer in layers]
    grad, latent = join_channels(grads), join_channels([layer.latent for layer in layers])
    alpha, gamma, fan_in = _of_channels(layers, 'alpha', 'gamma', 'fan_in')
    found = measure_channels(grad, latent, alpha)
    gamma = limit_gamma(gamma, found.task, found.distance, layers[0].quantizer.max_share)
    largest = (found.largest / alpha).split(sizes)
    negative = found.negative.split([layer.weights for layer in layers])
    for layer, own_negative, own_largest in zip(layers, negative, largest, strict=True):
        layer.negative = own_negative.view(layer.weight.shape)
        if layer.learns:
            layer.max_gradient = own_largest
            layer.open_window()
    add_reconstruction_(grad, latent, alpha, gamma, layers[0].masks, found.residuals)
    finished = grad.values.split([own.numel() for own in grads])
    torch._foreach_copy_(grads, [part.view(own.shape) for part, own in zip(finished, grads, strict=True)])
    # sum_j (w - alpha b) b = sum_j |w| - M alpha, which needs no further pass over products.
    pulls = (gamma * (found.magnitude - alpha * fan_in)).split(sizes)
    trained = []
    for layer, pull, magnitude in zip(layers, pulls, found.magnitude.split(sizes), strict=True):
        if layer.quantizer.alpha.grad is not None:
            layer.magnitude = magnitude
            trained.append((local(layer.quantizer.alpha.grad), pull))
    if trained:
        torch._foreach_sub_([own for own, _ in trained], [pull for _, pull in trained])
    norms = [*found.task.float().split(sizes), *(gamma * found.distance).float().split(sizes)]
    squares = [layer.task_squares for layer in layers] + [layer.term_squares for layer in layers]
    torch._foreach_addcmul_(squares, norms, norms)


def _count_and_learn(layers: Sequence[ResilientLayer]) -> None:
    """Count the flips of a step, and renew the gamma of layers that learn it."""
    sizes = [len(layer.weight) for layer in layers]
    negative, before = ([getattr(layer, name) for layer in layers] for name in ('negative', 'changed'))
    changed, flips, sequential = flips_since(
        torch.cat([own.flatten() for own in negative]),
        join_channels([layer.latent for layer in layers]),
        None if before[0] is None else torch.cat([own.flatten() for own in before]),
    )
    for layer, own in zip(layers, changed.split([layer.weights for layer in layers]), strict=True):
        layer.changed = own.view(layer.weight.shape)
    into = [layer.flips for layer in layers] + [layer.sequential_flips for layer in layers]
    torch._foreach_add_(into, [*flips.split(sizes), *sequential.split(sizes)])
    if layers[0].learns and layers[0].quantizer.flip_window == 1:
        max_gradient, fan_in = _of_channels(layers, 'max_gradient', 'fan_in')
        gamma = layers[0].quantizer.learn_gamma(max_gradient, flips / fan_in)
        torch._foreach_copy_([layer.gamma for layer in layers], gamma.split(sizes))
    elif layers[0].learns:
        for layer in layers:
            layer.count_in_window()
