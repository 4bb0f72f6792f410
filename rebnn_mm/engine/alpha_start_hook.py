"""The mmengine hook that starts ReBNN's scaling factors elsewhere."""

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..quantizers import ReBNNWeight
from .binary_hook import unwrapped


@HOOKS.register_module()
class ReBNNAlphaStartHook(Hook):
    r"""Multiplies the scaling factors of ReBNN layers by a number before the first step.

    alpha starts at the channel-wise mean of \|w\|; the paper does not say where. Behind batch norm its size does not
    change what the network computes, but gradients of the latent weights grow with it, and the largest \|G\| of the
    gamma rule falls. Add it behind the method's hook.

    Args:
        factor: above 0.

    Raises:
        ValueError: ``factor`` is not above 0, or the model has no ReBNN layer.

    Example:
        >>> ReBNNAlphaStartHook(4.0).factor
        4.0
    """

    priority = 60

    def __init__(self, factor: float) -> None:
        if factor <= 0:
            raise ValueError(f'ReBNNAlphaStartHook: factor={factor} must be above 0; a scaling factor is positive.')
        self.factor = factor

    @torch.no_grad()
    def before_train(self, runner: Runner) -> None:
        """Multiply, unless the run is resumed."""
        quantizers = [module for module in unwrapped(runner.model).modules() if isinstance(module, ReBNNWeight)]
        if not quantizers:
            raise ValueError(
                "ReBNNAlphaStartHook: the model has no ReBNN layer. Set conv_cfg=dict(type='ReBNNConv2d'), or remove "
                'the hook.'
            )
        if runner.iter == 0:
            for quantizer in quantizers:
                quantizer.alpha.mul_(self.factor)
