"""The resilient gradient of one layer: what happens before and after an optimizer step."""

from typing import Any

import torch
from torch import Tensor

from ..functional import bounded, channel_dims, flip_share, limited, reconstruction_residual, zero_outside_one_
from ..functional.resilient import add_reconstruction_, flips_since, measured
from ..layers import BinaryLayer
from ..methods import ReBNNWeight
from ..methods.rebnn import ALPHA_MIN


class LayerCounts:
    """What is counted of one layer between two entries of the log, on the weight's device; and since training began.

    Args:
        weight: the layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weights = weight.numel()
        self.steps = 0
        """Steps since :meth:`clear`."""
        self.flips = torch.zeros(2, dtype=torch.int64, device=weight.device)
        """Weights flipped, and of these the ones that the step before had flipped too: there and back."""
        self.squares = torch.zeros(2, device=weight.device)
        """Squared norms, summed over steps: of the task's gradient, of the reconstruction term."""
        self._flips_before, self._steps_before = 0, 0

    @property
    def all_flips(self) -> int:
        """Weights flipped by all steps of the run; brings a number from the device."""
        return self._flips_before + int(self.flips[0])

    @property
    def all_steps(self) -> int:
        """Steps of the run."""
        return self._steps_before + self.steps

    def add_flips(self, flips: Tensor, flip_backs: Tensor) -> None:
        """Count a step, given its flips per channel."""
        self.flips += torch.stack([flips, flip_backs]).sum(dim=1)

    def add_gradients(self, task: Tensor, term: Tensor) -> None:
        """Measure the two gradients of a step, given their norms per channel."""
        self.squares[0] += task.square().sum()
        self.squares[1] += term.square().sum()

    def clear(self) -> None:
        """Begin anew; what was counted stays in :attr:`all_flips` and :attr:`all_steps`."""
        self.resume(self.all_flips, self.all_steps)
        self.steps = 0
        self.flips, self.squares = torch.zeros_like(self.flips), torch.zeros_like(self.squares)

    def resume(self, flips: int, steps: int) -> None:
        """Count on from what an earlier run had."""
        self._flips_before, self._steps_before = flips, steps


class ResilientLayer:
    """Applies the reconstruction term to one layer and learns its gamma.

    Args:
        name: the layer's name, for errors and saved state.
        layer: a binary layer whose weight quantizer is :class:`rebnn_mm.methods.ReBNNWeight`.
    """

    def __init__(self, name: str, layer: BinaryLayer) -> None:
        assert isinstance(layer.weight_quantizer, ReBNNWeight)
        self.name = name
        self.weight = layer.weight
        self.quantizer: ReBNNWeight = layer.weight_quantizer
        self.counts = LayerCounts(layer.weight)
        self._negative: Tensor | None = None
        self._changed: Tensor | None = None
        self._max_gradient: Tensor | None = None
        self._window_start: Tensor | None = None
        self._window_steps = 0

    @property
    def frozen(self) -> bool:
        """Whether this step leaves the weight alone."""
        return not self.weight.requires_grad or self.weight.grad is None

    @torch.no_grad()
    def before_step(self) -> None:
        """Finish the gradients: the mask of Eq. 5, the reconstruction term of Eq. 8 and 16, the centring."""
        self._negative = None
        quantizer = self.quantizer
        if self.frozen:
            if quantizer.gamma_mode != 0 and quantizer.alpha.grad is not None:
                _, pull = reconstruction_residual(quantizer.latent(self.weight), quantizer.alpha)
                quantizer.alpha.grad.sub_(quantizer.gamma.to(pull.dtype) * pull)
            return
        grad = self.weight.grad
        assert grad is not None
        latent = quantizer.latent(self.weight)
        mask = quantizer.variant == 'paper'
        if quantizer.gamma_mode == 0:
            self._negative = latent < 0
            if mask:
                zero_outside_one_(grad, latent)
        else:
            self._add_term(latent, grad, mask)
        if quantizer.center is not None:
            grad.sub_(grad.mean(dim=channel_dims(grad), keepdim=True))

    def _add_term(self, latent: Tensor, grad: Tensor, mask: bool) -> None:
        quantizer, alpha = self.quantizer, self.quantizer.alpha
        channels = measured(grad, latent, alpha)
        self._negative = channels.negative
        if isinstance(quantizer.gamma_mode, str):
            self._max_gradient = channels.max_gradient
            if quantizer.flip_window != 1 and self._window_start is None:
                self._window_start = self._negative
        gamma = limited(quantizer.gamma.to(latent.dtype), channels.task, channels.distance, quantizer.max_share)
        add_reconstruction_(grad, latent, alpha, gamma, mask)
        if alpha.grad is not None:
            alpha.grad.sub_(gamma * channels.pull)
        self.counts.add_gradients(channels.task, gamma * channels.distance)

    @torch.no_grad()
    def after_step(self) -> None:
        """Count flips, renew gamma (Eq. 14), keep alpha positive."""
        self.quantizer.alpha.clamp_(min=ALPHA_MIN)
        if self._negative is None:
            return
        latent = self.quantizer.latent(self.weight)
        self._changed, flips, flip_backs = flips_since(self._negative, latent, self._changed)
        self.counts.add_flips(flips, flip_backs)
        if not isinstance(self.quantizer.gamma_mode, str):
            return
        if self.quantizer.flip_window == 1:
            self._learn_gamma(flips / latent[0].numel())
            return
        self._window_steps += 1
        if self._window_steps == self.quantizer.flip_window:
            self.close_window()

    def count_step(self) -> None:
        """Count the step, if it moved the layer; apart from the rest, so that a compiler sees no number change."""
        self.counts.steps += self._negative is not None

    @torch.no_grad()
    def close_window(self) -> None:
        """Renew gamma from the flips since the window began, and begin a new one."""
        if self._window_start is not None and self._max_gradient is not None:
            self._learn_gamma(flip_share(self._window_start ^ (self.quantizer.latent(self.weight) < 0)))
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

    def _learn_gamma(self, share_of_flips: Tensor) -> None:
        assert self._max_gradient is not None
        gamma = self._max_gradient.to(self.quantizer.gamma.dtype)
        if self.quantizer.gamma_mode == 'adaptive':
            gamma = gamma * share_of_flips
        self.quantizer.gamma.copy_(bounded(gamma, self.quantizer.gamma_bounds))
