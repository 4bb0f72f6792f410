"""Starts the shifts of swapped layers from data."""

from collections.abc import Callable
from typing import Any

import torch
from mmengine.dist import broadcast
from torch import nn
from torch.distributed.tensor import DTensor

from ..errors import RebnnError
from ..quantizers import ActivationQuantizer


def calibrate_shifts(model: nn.Module, forward: Callable[[], Any]) -> list[str]:
    """Let every activation quantizer that needs it see its own input once, front to back.

    One forward pass is enough: a quantizer is calibrated when its input arrives and before it is used, so a later
    layer sees what earlier ones will really send. A layer called several times is calibrated by its first call. The
    model runs in training mode without gradients; its buffers (running statistics) and mode are put back afterwards.

    ``forward`` runs the model on one batch of real data. Returned are the names of quantizers that still need
    calibration because the pass did not reach them. In a distributed run every process calls it, and all take the
    shifts of the first one.

    Raises:
        ValueError: a shift is sharded (FSDP2).

    Example:
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), ReBNNConv2d(8, 8, 3))
        >>> calibrate_shifts(net, lambda: net(torch.randn(2, 3, 16, 16)))
        []
        >>> bool((net[2].activation_quantizer.shift < 0).all())
        True
    """
    waiting = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, ActivationQuantizer) and module.needs_calibration
    }
    if not waiting:
        return []
    for name, quantizer in waiting.items():
        if any(isinstance(parameter, DTensor) for parameter in quantizer.parameters(recurse=False)):
            raise RebnnError(f'calibrate_shifts: {name!r} is sharded. Call it before fully_shard.')
    handles = [module.register_forward_pre_hook(_calibrate_once) for module in waiting.values()]
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = {module: module.training for module in model.modules()}
    try:
        model.train()
        with torch.no_grad():
            forward()
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    for quantizer in waiting.values():
        for parameter in quantizer.parameters(recurse=False):
            broadcast(parameter.data, src=0)
    return [name for name, module in waiting.items() if module.needs_calibration]


def _calibrate_once(module: nn.Module, args: tuple[Any, ...]) -> None:
    # A head may see no region.
    if isinstance(module, ActivationQuantizer) and module.needs_calibration and args[0].numel():
        module.calibrate(args[0])
