"""The mmengine hook that freezes weights whose signs oscillate."""

from typing import Any

import torch
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor
from torch.optim import Optimizer

from ..errors import RebnnError
from ..layers import BinaryLayer
from .optimizer_step import refuse_sharded
from .rebnn_hook import ReBNNHook
from .step_hook import StepHook, cosine

CHECKPOINT_KEY = 'frozen_oscillations'


@HOOKS.register_module()
class FreezingHook(StepHook):
    r"""Freezes weights whose signs keep changing, each at the sign that it had most of the time.

    .. math::
        f^t = m \, o^t + (1 - m) f^{t-1}, \qquad \bar b^t = m \, b^t + (1 - m) \bar b^{t-1}

    :math:`b^t` is the sign after step t; :math:`o^t` is 1 where it differs from :math:`b^{t-1}` and had changed at
    some step before, else 0. Where :math:`f^t` passes a threshold, the latent weight is held from then on at its
    magnitude and the sign of :math:`\bar b^{t-1}`. The threshold goes from ``threshold`` to ``final`` along half a
    cosine over the training.

    ``frozen_percent`` goes into the log. Memory: about fourteen bytes per 1-bit weight, in each checkpoint, too.

    Args:
        threshold: share of steps that f is compared with at the beginning.
        final: the same at the end; None keeps ``threshold``.
        momentum: m. One change back gives a weight an f of m, so a threshold below m freezes at the first one.

    Raises:
        ValueError: an argument is out of range; at the start of training: the model trains no 1-bit weight, or signs
            are not those of the latent weights themselves (ReCU, IR-Net, RBNN, SiMaN, BiPer, AdaBin).

    Source: Nagel et al., Overcoming Oscillations in Quantization-Aware Training, ICML 2022, by the released code,
    whose MobileNetV2 recipe of three bits has the defaults.
    """

    # Before TransitionRateHook, which is to see the signs that stay changed.
    priority = 51

    def __init__(self, threshold: float = 0.1, final: float | None = 0.011, momentum: float = 0.01) -> None:
        for name, value in (('threshold', threshold), ('final', final), ('momentum', momentum)):
            if value is not None and not 0 < value <= 1:
                raise RebnnError(f'FreezingHook: {name}={value} must be above 0 and at most 1, a share of the steps.')
        super().__init__()
        self.threshold, self.final, self.momentum = threshold, threshold if final is None else final, momentum
        self._trackers: dict[str, SignTracker] = {}
        self._saved: dict[str, Any] = {}

    def before_train(self, runner: Runner) -> None:
        self._trackers = {}  # the hook may have been in another training before
        super().before_train(runner)
        for hook in runner.hooks:
            if isinstance(hook, ReBNNHook) and hook.resilient is not None:
                hook.resilient.go_last()  # its gamma follows the signs that stay changed
        self._saved = {}  # another training is not resumed

    def prepare(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        refuse_sharded(layers, type(self).__name__)
        self.refuse_other_signs(layers)
        for name, layer in layers.items():
            self._trackers[name] = SignTracker(layer.weight.detach(), self.momentum)
            if name in self._saved:
                self._trackers[name].load_state_dict(self._saved[name])

    def after(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        threshold = cosine(self.threshold, self.final, self.progress())
        for name, layer in layers.items():
            self._trackers[name].step(layer.weight.data, threshold)

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        frozen = sum(tracker.frozen.sum() for tracker in self._trackers.values())
        weights = sum(tracker.frozen.numel() for tracker in self._trackers.values())
        runner.message_hub.update_scalar('train/frozen_percent', 100 * float(frozen) / weights)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        checkpoint[CHECKPOINT_KEY] = {name: tracker.state_dict() for name, tracker in self._trackers.items()}

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        if getattr(runner, '_resume', False):
            self._saved = checkpoint.get(CHECKPOINT_KEY, {})


class SignTracker:
    """How often the signs of a tensor change there and back, and which of its values are frozen."""

    def __init__(self, weight: Tensor, momentum: float) -> None:
        self.momentum = momentum
        self.negative = weight < 0
        self.changed = torch.zeros_like(self.negative)
        self.frozen = torch.zeros_like(self.negative)
        self.frequency = torch.zeros_like(weight)
        self.average = torch.where(self.negative, -torch.ones_like(weight), torch.ones_like(weight))
        self.held = weight.clone()

    def step(self, weight: Tensor, threshold: float) -> None:
        """Look at the values after a step, and put those that are frozen back in place."""
        weight.copy_(torch.where(self.frozen, self.held, weight))
        negative = weight < 0
        flipped = negative ^ self.negative
        self.frequency.lerp_((flipped & self.changed).to(weight.dtype), self.momentum)
        self.changed |= flipped
        due = (self.frequency > threshold) & ~self.frozen
        # A magnitude of 0 would have no sign.
        magnitude = weight.abs().clamp(min=torch.finfo(weight.dtype).tiny)
        self.held = torch.where(due, torch.where(self.average < 0, -magnitude, magnitude), self.held)
        self.frozen |= due
        sign = torch.where(negative, -torch.ones_like(weight), torch.ones_like(weight))
        self.average.lerp_(sign, self.momentum)
        weight.copy_(torch.where(self.frozen, self.held, weight))
        self.negative = weight < 0

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)
