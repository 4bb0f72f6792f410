"""The mmengine hook that lets a constant gamma grow over training."""

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..quantizers import ReBNNWeight
from .binary_hook import has_epochs, unwrapped


@HOOKS.register_module()
class ReBNNGammaGrowthHook(Hook):
    r"""Moves gamma of ReBNN layers from a share of its value to all of it, by epochs.

    .. math::
        \gamma_e = \gamma \cdot (s + (1 - s) \, (e / E)^p)

    with e finished epochs of E, the share s of the start and the power p. Not of the paper: a term that is firm from
    the first epoch on slows learning, and there is little to steady before training settles. For layers with a number
    as gamma; add it behind the method's hook.

    Args:
        start: share s at the start, 0 to 1.
        power: p; above 1 gamma stays small for longer.

    Raises:
        ValueError: an argument is out of range, or no layer has a number above 0 as gamma.

    Example:
        >>> hook = ReBNNGammaGrowthHook(start=0.1, power=2)
        >>> [round(hook.share(epoch / 4), 3) for epoch in range(4)]
        [0.1, 0.156, 0.325, 0.606]
    """

    priority = 60

    def __init__(self, start: float = 0.0, power: float = 1.0) -> None:
        if not 0 <= start <= 1 or power <= 0:
            raise ValueError(
                f'ReBNNGammaGrowthHook: start={start} must be from 0 to 1 and power={power} above 0. '
                'Set gamma itself in conv_cfg.'
            )
        self.start, self.power = start, power

    def share(self, done: float) -> float:
        """Share of gamma when ``done`` of training, from 0 to 1, is finished."""
        return self.start + (1 - self.start) * done**self.power

    def before_train(self, runner: Runner) -> None:
        """Look whether there is something to move."""
        if not has_epochs(runner):
            raise ValueError('ReBNNGammaGrowthHook needs a train loop with epochs (train_cfg by_epoch=True).')
        if not self._quantizers(runner):
            raise ValueError(
                'ReBNNGammaGrowthHook: no layer has a number above 0 as gamma. Set one in the config, such as '
                "conv_cfg=dict(type='ReBNNConv2d', gamma=2e-5)."
            )

    @torch.no_grad()
    def before_train_epoch(self, runner: Runner) -> None:
        """Renew gamma; a resumed run goes on where it stood."""
        share = self.share(runner.epoch / runner.max_epochs)
        for quantizer in self._quantizers(runner):
            quantizer.gamma.fill_(share * float(quantizer.gamma_mode))

    def _quantizers(self, runner: Runner) -> list[ReBNNWeight]:
        found = [module for module in unwrapped(runner.model).modules() if isinstance(module, ReBNNWeight)]
        return [quantizer for quantizer in found if not isinstance(quantizer.gamma_mode, str) and quantizer.gamma_mode]
