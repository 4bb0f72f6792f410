"""Base of mmengine hooks that run around the optimizer's steps of binary layers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.optim import Optimizer

from ..errors import RebnnError
from ..layers import BinaryLayer
from .binary_hook import optim_wrappers, unwrap_model
from .flip_recorder import negative_weights
from .optimizer_step import around_step, refuse_fsdp1, trained_by


class StepHook(Hook):
    """Calls :meth:`before` and :meth:`after` around every real step of an optimizer that trains 1-bit weights.

    Accumulated iterations are one step, and a step that AMP skips is none. Add it after the method's own hook.
    """

    # After the method's hook, whose rules and constraints belong to the step; before the weight recorder.
    priority = 52

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self.progress: Callable[[], float] = lambda: 0.0
        """The share of the training that is over."""

    def before_train(self, runner: Runner) -> None:
        self.after_train(runner)  # where an error has ended a training before
        model = unwrap_model(runner.model)
        refuse_fsdp1(model)
        found: dict[int, tuple[str, BinaryLayer]] = {}
        for name, module in model.named_modules():
            if isinstance(module, BinaryLayer) and module.weight_bits == 1 and module.weight.requires_grad:
                # Of layers that share one weight the first stands for all.
                found.setdefault(id(module.weight), (name, module))
        # An epoch begun again after a stop may pass the end.
        self.progress = lambda: min(runner.iter / runner.max_iters, 1.0)
        for wrapper in optim_wrappers(runner):
            optimizer = wrapper.optimizer
            held = trained_by(optimizer)
            layers = dict(named for weight, named in found.items() if weight in held)
            if layers:
                self.prepare(optimizer, layers)
                self._handles += self._around(optimizer, layers)
        if not self._handles:
            raise RebnnError(
                f'{type(self).__name__}: the model trains no layer with 1-bit weights; set '
                "conv_cfg=dict(type='ReBNNConv2d') where you want some, or remove the hook."
            )

    def after_train(self, runner: Runner) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def prepare(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        """Look at an optimizer and its layers before the first step."""

    def before(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        """Work with the gradients of a step that is about to be made."""

    def after(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        """Work with the weights that a step has made."""

    def refuse_other_signs(self, layers: dict[str, BinaryLayer]) -> None:
        """Refuse methods whose signs are not those of the latent weights."""
        for name, layer in layers.items():
            if not torch.equal(negative_weights(layer), layer.weight.detach() < 0):
                raise RebnnError(
                    f'{type(self).__name__}: signs of {name!r} are not those of its latent weights '
                    f'({type(layer.weight_quantizer).__name__}), which this hook changes. Use a method that takes '
                    'sign(w), or remove the hook.'
                )

    def _around(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> list[Any]:
        def moved() -> dict[str, BinaryLayer]:
            return {name: layer for name, layer in layers.items() if layer.weight.grad is not None}

        around = (lambda: self.before(optimizer, moved())), (lambda: self.after(optimizer, moved()))
        return around_step(optimizer, *around, type(self).__name__)


def cosine(start: float, end: float, progress: float) -> float:
    """A value on its way from ``start`` to ``end`` along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2
