"""The mmengine hook that says which loss pulls how strongly."""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn

from ..errors import RebnnError
from .binary_hook import optim_wrappers, part_of, same_random_state, unwrap_model


@HOOKS.register_module()
class GradientShareHook(Hook):
    r"""Logs the gradient of every loss by itself, to choose the weights of several.

    .. math:: g_i = \left\| \frac{\partial L_i}{\partial \theta} \right\|

    :math:`\theta` are the parameters of a part of the model: ``gradient/<loss>/<part>`` in the log, without the word
    ``loss``, which would make mmengine log means. A distillation loss should have 0.3 to 1 times the gradient of the
    labels' losses (our judgement). Every time costs about as much as a step, plus a backward pass for every loss;
    training stays the same: batch, buffers and random numbers are left as they were. In a distributed run each process
    looks at its own share of the batch, and the first one logs.

    Args:
        parts: dotted names of modules; a detector's ``'backbone'``, ``'roi_head.shared_head'``.
        interval: iterations from one time to the next, the first of training being one.

    Raises:
        ValueError: before training, if the model has no such part.
    """

    # Before the LoggerHook (BELOW_NORMAL), which prints what is written here.
    priority = 'NORMAL'

    def __init__(self, parts: Sequence[str] = ('backbone',), interval: int = 500) -> None:
        if isinstance(parts, str):
            raise RebnnError(f'GradientShareHook: parts={parts!r} is to be a list of names: parts=[{parts!r}].')
        if interval < 1:
            raise RebnnError(f'GradientShareHook: interval={interval}; it is to be 1 or more steps.')
        self.parts = tuple(parts)
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        model = unwrap_model(runner.model)
        for part in self.parts:
            part_of(model, part, 'GradientShareHook')

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        if runner.iter % self.interval:
            return
        model: Any = unwrap_model(runner.model)
        parts = {part: model.get_submodule(part) for part in self.parts}
        # mmengine's preprocessors write into the batch, and some keep a size that they drew.
        preprocessor = copy.deepcopy(model.data_preprocessor)
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        with same_random_state():
            with optim_wrappers(runner)[0].optim_context(runner.model):
                losses = model._run_forward(preprocessor(copy.deepcopy(data_batch), True), mode='loss')
            norms = gradient_norms(losses, parts)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for name, norm in norms.items():
            loss, _, part = name.rpartition('/')
            short = re.sub('loss_|_loss|loss', '', loss) or 'all'
            runner.message_hub.update_scalar(f'train/gradient/{short}/{part}', norm)


def gradient_norms(losses: Mapping[str, Any], parts: Mapping[str, nn.Module]) -> dict[str, float]:
    """Return the norm of the gradient of each loss by each part's parameters, ``'<loss>/<part>'``."""
    found = {}
    for name, value in losses.items():
        loss = value if isinstance(value, Tensor) else sum(each.mean() for each in value)
        if 'loss' not in name or not isinstance(loss, Tensor) or not loss.requires_grad:
            continue
        for part, module in parts.items():
            learning = [p for p in module.parameters() if p.requires_grad]
            # A frozen part has none, which grad() does not take.
            gradients = learning and torch.autograd.grad(loss.mean(), learning, retain_graph=True, allow_unused=True)
            squares = [float(g.float().square().sum()) for g in gradients if g is not None]
            found[f'{name}/{part}'] = sum(squares) ** 0.5
    return found
