"""The mmengine hook that schedules the share of signs that change in a step."""

from typing import Any

import torch
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor
from torch.optim import Optimizer

from ..errors import RebnnError
from ..layers import BinaryLayer
from .flip_recorder import negative_weights
from .optimizer_step import refuse_sharded
from .step_hook import StepHook

CHECKPOINT_KEY = 'transition_rate'


@HOOKS.register_module()
class TransitionRateHook(StepHook):
    r"""Schedules the share of signs that change in a step, and adapts the rate of latent weights until they do.

    .. math::
        K^t &= m K^{t-1} + (1 - m) k^t \\
        U^t &= \max(0, U^{t-1} + \eta (R^t - K^t)) \\
        w^{t+1} &= w^t - U^t g^t

    :math:`k^t` is the share of 1-bit weights whose sign the last step changed, :math:`R^t` the target and
    :math:`g^t` what the optimizer makes of the gradient. :math:`R^t` is ``target`` times what the schedule of the
    learning rate has left: :math:`R^t = R \, \mathrm{lr}^t / \mathrm{lr}^0`. One factor :math:`u^t` serves all latent
    weights, :math:`U^t = u^t \, \mathrm{lr}^0` with the initial rate of their group and :math:`\eta` equal to
    ``speed`` times that rate, so groups with rates of their own keep their ratio. :math:`u^0` is 1. Other parameters
    keep their rates. Decoupled weight decay, as AdamW's, goes with the adapted rate.

    ``transition_rate`` (:math:`K^t`) and ``transition_factor`` (:math:`u^t`) go into the log. A resumed run goes on as
    it stood. Cost: two passes over the signs per step. The paper keeps scaling factors of weights fixed; here signs do
    not depend on them, so they are trained as the method says. In a config, with
    ``optim_wrapper.constructor='BinaryOptimWrapperConstructor'``:
    ``custom_hooks=[..., dict(type='TransitionRateHook')]``, after the method's own hook.

    Args:
        target: R, the share of signs that is to change in a step before the schedule lowers it; above 0, below 1.
        momentum: m.
        speed: :math:`\eta` in units of the initial rate; above 0. Under plain SGD, where hardly a sign moves, 1 takes
            thousands of steps and 30 hundreds; under AdamW 10 and more make the share swing around its target.

    Raises:
        ValueError: an argument is out of range; at the start of training: the model trains no 1-bit weight, or a
            group of the optimizer holds latent weights and other parameters.

    Source: Lee et al., Scheduling Weight Transitions for Quantization-Aware Training, arXiv 2404.19248, Eq. 5 and 10
    to 12. What could be read there has no values of R, m and :math:`\eta`; the defaults are ours.
    """

    def __init__(self, target: float = 3e-3, momentum: float = 0.99, speed: float = 1.0) -> None:
        if not 0 < target < 1:
            raise RebnnError(f'TransitionRateHook: target={target} must be between 0 and 1, a share of the weights.')
        if not 0 <= momentum < 1:
            raise RebnnError(f'TransitionRateHook: momentum={momentum} must be at least 0 and below 1.')
        if not speed > 0:
            raise RebnnError(f'TransitionRateHook: speed={speed} must be above 0; 0 would adapt nothing.')
        super().__init__()
        self.target, self.momentum, self.speed = target, momentum, speed
        self.rate, self.factor = 0.0, 1.0
        self._groups: dict[int, list[dict[str, Any]]] = {}
        self._scheduled: list[float] = []
        self._negative: dict[str, Tensor] = {}

    def before_train(self, runner: Runner) -> None:
        if not runner.iter:  # the hook may have been in another training before
            self.rate, self.factor = 0.0, 1.0
        super().before_train(runner)

    def prepare(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        """Find the groups of latent weights; the method's hook has given them their rates by now."""
        refuse_sharded(layers, type(self).__name__)
        latent = {id(layer.weight) for layer in layers.values()}
        groups = []
        for group in optimizer.param_groups:
            ours = [id(parameter) in latent for parameter in group['params']]
            if any(ours):
                if not all(ours):
                    raise RebnnError(
                        'TransitionRateHook: a group of the optimizer holds latent weights and other parameters '
                        "whose rate has to stay. Set constructor='BinaryOptimWrapperConstructor' in optim_wrapper."
                    )
                group.setdefault('initial_lr', group['lr'])
                groups.append(group)
        self._groups[id(optimizer)] = groups

    def before(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        groups = self._groups[id(optimizer)]
        # Groups that the config holds at a rate of 0 stay there.
        left = max((group['lr'] / group['initial_lr'] for group in groups if group['initial_lr']), default=0.0)
        self.factor = adapt_factor(self.factor, self.target * left, self.rate, self.speed)
        self._scheduled = [group['lr'] for group in groups]
        for group in groups:
            group['lr'] = group['initial_lr'] * self.factor
        self._negative = {name: negative_weights(layer) for name, layer in layers.items()}

    def after(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        # Schedulers go on from the rate that they find.
        for group, rate in zip(self._groups[id(optimizer)], self._scheduled, strict=True):
            group['lr'] = rate
        changed = [(negative_weights(layer) ^ self._negative[name]).sum() for name, layer in layers.items()]
        weights = sum(layer.weight.numel() for layer in layers.values())
        self._negative = {}
        if weights:
            share = float(torch.stack(changed).sum()) / weights
            self.rate = self.momentum * self.rate + (1 - self.momentum) * share

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        runner.message_hub.update_scalar('train/transition_rate', self.rate)
        runner.message_hub.update_scalar('train/transition_factor', self.factor)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        checkpoint[CHECKPOINT_KEY] = dict(rate=self.rate, factor=self.factor)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        saved = checkpoint.get(CHECKPOINT_KEY)
        if saved is not None and getattr(runner, '_resume', False):
            self.rate, self.factor = saved['rate'], saved['factor']


def adapt_factor(factor: float, target: float, rate: float, speed: float) -> float:
    """Update the factor of the latent rate after a step, from the target and the running share of changed signs."""
    return max(0.0, factor + speed * (target - rate))
