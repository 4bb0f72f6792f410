"""The mmengine hook that makes the reconstruction term a share of the task's gradient."""

from typing import Any, TypeGuard

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.optim import Optimizer

from ..functional import channel_dims, scaled_sign
from ..layers import BinaryLayer
from ..quantizers import ReBNNWeight
from .binary_hook import optim_wrappers, unwrapped


@HOOKS.register_module()
class ReBNNGammaShareHook(Hook):
    r"""Renews gamma of ReBNN layers before every step, from the sizes of the two gradients it stands between.

    .. math::
        \gamma_i = s \cdot \frac{\sum_j |\alpha_i G_{ij}|}{\sum_j |w_{ij} - \alpha_i b_{ij}|}

    so the reconstruction term of each channel has s times the mean magnitude of its task gradient. Not of the paper:
    its rule is in units of the gradient, so what it does follows the depth of a layer, the size of the weights and of
    the loss; s has no unit. For layers with a number above 0 as gamma, whose value then has no effect.

    Args:
        share: s, above 0.

    Raises:
        ValueError: ``share`` is not above 0, or no layer has a number above 0 as gamma.

    Example:
        >>> weight, alpha = torch.tensor([[0.5, -1.5]]), torch.tensor([1.0])
        >>> ReBNNGammaShareHook(share=0.1).gamma(weight, alpha, torch.tensor([[0.2, 0.4]]))
        tensor([0.0600])
    """

    # Before the method's hook, so that its own step hook, which uses gamma, comes after the one that is set here.
    priority = 40

    def __init__(self, share: float) -> None:
        if not share > 0:
            raise ValueError(f'ReBNNGammaShareHook: share={share} must be above 0.')
        self.share = share
        self._handles: list[Any] = []

    def gamma(self, weight: Tensor, alpha: Tensor, grad: Tensor) -> Tensor:
        """Gamma of each channel.

        Args:
            weight: latent weight, shape (C_out, ...).
            alpha: scaling factor, shape (C_out,).
            grad: gradient of the task for the latent weight.
        """
        distance = weight - scaled_sign(weight, alpha)
        dims = channel_dims(weight)
        # A channel whose weights all stand at alpha has nothing to reconstruct, whatever its gamma.
        tiny = torch.finfo(weight.dtype).tiny
        return self.share * grad.abs().sum(dim=dims) / distance.abs().sum(dim=dims).clamp(min=tiny)

    def before_train(self, runner: Runner) -> None:
        """Look for layers and stand before their optimizers."""
        layers = [
            (module.weight, module.weight_quantizer)
            for module in unwrapped(runner.model).modules()
            if isinstance(module, BinaryLayer) and _has_number(module.weight_quantizer)
        ]
        if not layers:
            raise ValueError(
                'ReBNNGammaShareHook: no layer has a number above 0 as gamma. Set one in the config, such as '
                "conv_cfg=dict(type='ReBNNConv2d', gamma=1e-5)."
            )

        @torch.no_grad()
        def before_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            held = {id(parameter) for group in stepping.param_groups for parameter in group['params']}
            for weight, quantizer in layers:
                if weight.grad is not None and id(weight) in held:
                    quantizer.gamma.copy_(self.gamma(quantizer.latent(weight), quantizer.alpha, weight.grad))

        for wrapper in optim_wrappers(runner):
            self._handles.append(wrapper.optimizer.register_step_pre_hook(before_step))

    def after_train(self, runner: Runner) -> None:
        """Take the step hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _has_number(quantizer: nn.Module | None) -> TypeGuard[ReBNNWeight]:
    mode = quantizer.gamma_mode if isinstance(quantizer, ReBNNWeight) else 0
    return not isinstance(mode, str) and mode > 0
