"""The resilient gradient of one layer: what happens before and after an optimizer step."""

from typing import Any

import torch
from torch import Tensor

from ..functional import (
    bounded,
    channel_dims,
    flip_count,
    flip_share,
    max_gradient,
    reconstruction_gradient,
    zero_outside_one_,
)
from ..layers import BinaryLayer
from ..quantizers import ReBNNWeight
from ..quantizers.rebnn import ALPHA_MIN


class ResilientLayer:
    """Applies the reconstruction term to one layer and learns its gamma.

    Args:
        name: the layer's name, for errors and saved state.
        layer: a binary layer whose weight quantizer is :class:`rebnn_mm.quantizers.ReBNNWeight`.
    """

    def __init__(self, name: str, layer: BinaryLayer) -> None:
        assert isinstance(layer.weight_quantizer, ReBNNWeight)
        self.name = name
        self.weight = layer.weight
        self.quantizer: ReBNNWeight = layer.weight_quantizer
        self.flips: Tensor | None = None
        """Weights that the last step flipped, summed since :meth:`take_counts`."""
        self.flip_backs: Tensor | None = None
        """Of these, the ones that the step before had flipped too: flipped and flipped back."""
        self.steps = 0
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
        if self.frozen:
            return
        weight, quantizer, grad = self.weight, self.quantizer, self.weight.grad
        assert grad is not None
        latent = quantizer.latent(weight)
        self._negative = latent < 0
        if isinstance(quantizer.gamma_mode, str):
            self._max_gradient = max_gradient(grad, quantizer.alpha)
            if quantizer.flip_window != 1 and self._window_start is None:
                self._window_start = self._negative
        if quantizer.variant == 'paper':
            zero_outside_one_(grad, latent)
        if quantizer.gamma_mode != 0:
            gamma = quantizer.gamma.to(weight.dtype)
            grad_weight, grad_alpha = reconstruction_gradient(latent, quantizer.alpha, gamma)
            grad.add_(grad_weight)
            if quantizer.alpha.grad is not None:
                quantizer.alpha.grad.add_(grad_alpha)
        if quantizer.center is not None:
            grad.sub_(grad.mean(dim=channel_dims(grad), keepdim=True))

    @torch.no_grad()
    def after_step(self) -> None:
        """Count flips, renew gamma (Eq. 14), keep alpha positive."""
        if self._negative is None:
            return
        before, now = self._negative, self._negative_now()
        changed = before ^ now
        self._count(changed)
        self.quantizer.alpha.clamp_(min=ALPHA_MIN)
        if not isinstance(self.quantizer.gamma_mode, str):
            return
        if self.quantizer.flip_window == 1:
            self._learn_gamma(changed)
            return
        self._window_steps += 1
        if self._window_steps == self.quantizer.flip_window:
            self.close_window()

    @torch.no_grad()
    def close_window(self) -> None:
        """Renew gamma from the flips since the window began, and begin a new one."""
        if self._window_start is not None and self._max_gradient is not None:
            self._learn_gamma(self._window_start ^ self._negative_now())
        self._window_start, self._window_steps = None, 0

    def take_counts(self) -> tuple[Tensor, Tensor, int]:
        """Flips, flips back and steps times weights since the last call."""
        zero = torch.zeros((), device=self.weight.device, dtype=torch.int64)
        counts = (
            self.flips if self.flips is not None else zero,
            self.flip_backs if self.flip_backs is not None else zero,
        )
        seen = self.steps * self.weight.numel()
        self.flips, self.flip_backs, self.steps = None, None, 0
        return *counts, seen

    def state_dict(self) -> dict[str, Any]:
        """The open flip window; empty where flips are counted per step."""
        if self._window_start is None:
            return {}
        return {'window_start': self._window_start, 'window_steps': self._window_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an open flip window."""
        self._window_start = state['window_start'].to(self.weight.device)
        self._window_steps = state['window_steps']

    def _negative_now(self) -> Tensor:
        return self.quantizer.latent(self.weight) < 0

    def _learn_gamma(self, changed: Tensor) -> None:
        assert self._max_gradient is not None
        gamma = self._max_gradient.to(self.quantizer.gamma.dtype)
        if self.quantizer.gamma_mode == 'adaptive':
            gamma = gamma * flip_share(changed)
        self.quantizer.gamma.copy_(bounded(gamma, self.quantizer.gamma_bounds))

    def _count(self, changed: Tensor) -> None:
        flips = flip_count(changed).sum()
        self.flips = flips if self.flips is None else self.flips + flips
        if self._changed is not None:
            backs = flip_count(changed & self._changed).sum()
            self.flip_backs = backs if self.flip_backs is None else self.flip_backs + backs
        self._changed = changed
        self.steps += 1
