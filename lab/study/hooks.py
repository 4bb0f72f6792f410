"""Hooks that only comparisons name: other starts of alpha and other rules for gamma in ReBNN layers."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.optim import Optimizer

from rebnn_mm.engine.binary_hook import has_epochs, optim_wrappers, unwrap_model
from rebnn_mm.errors import RebnnError
from rebnn_mm.functional import channel_dims, per_channel, sign
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.methods import ReBNNWeight


@HOOKS.register_module()
class ReBNNAlphaStartHook(Hook):
    r"""Multiplies the scaling factors of ReBNN layers by a number before the first step.

    alpha starts at the channel-wise mean of \|w\|; the paper does not say where. After batch norm its size does not
    change what the network computes, but gradients of the latent weights grow with it, and the largest \|G\| of the
    gamma rule falls. Add it after the method's hook.

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
            raise RebnnError(f'ReBNNAlphaStartHook: factor={factor} must be above 0; a scaling factor is positive.')
        self.factor = factor

    @torch.no_grad()
    def before_train(self, runner: Runner) -> None:
        """Multiply, unless the run is resumed."""
        quantizers = [module for module in unwrap_model(runner.model).modules() if isinstance(module, ReBNNWeight)]
        if not quantizers:
            raise RebnnError(
                "ReBNNAlphaStartHook: the model has no ReBNN layer. Set conv_cfg=dict(type='ReBNNConv2d'), or remove "
                'the hook.'
            )
        if runner.iter == 0:
            for quantizer in quantizers:
                quantizer.alpha.mul_(self.factor)


@HOOKS.register_module()
class ReBNNGammaGrowthHook(Hook):
    r"""Moves gamma of ReBNN layers from a share of its value to all of it, by epochs.

    .. math::
        \gamma_e = \gamma \cdot (s + (1 - s) \, (e / E)^p)

    with e finished epochs of E, the share s of the start and the power p. Not of the paper: a term that is firm from
    the first epoch on slows learning, and there is little to steady before training settles. For layers with a number
    as gamma; add it after the method's hook.

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
            raise RebnnError(
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
            raise RebnnError('ReBNNGammaGrowthHook needs a train loop with epochs (train_cfg by_epoch=True).')
        if not self._quantizers(runner):
            raise RebnnError(
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
        found = [module for module in unwrap_model(runner.model).modules() if isinstance(module, ReBNNWeight)]
        return [quantizer for quantizer in found if not isinstance(quantizer.gamma_mode, str) and quantizer.gamma_mode]


class StepHook(Hook):
    """Has step hooks of optimizers, and takes them away when training is over."""

    def __init__(self) -> None:
        self._handles: list[Any] = []

    def after_train(self, runner: Runner) -> None:
        """Take the step hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


@HOOKS.register_module()
class ReBNNGammaShareHook(StepHook):
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
            raise RebnnError(f'ReBNNGammaShareHook: share={share} must be above 0.')
        super().__init__()
        self.share = share

    def gamma(self, weight: Tensor, alpha: Tensor, grad: Tensor) -> Tensor:
        """Gamma of each channel.

        Args:
            weight: latent weight, shape (C_out, ...).
            alpha: scaling factor, shape (C_out,).
            grad: gradient of the task for the latent weight.
        """
        distance = weight - sign(weight) * per_channel(alpha, weight)
        dims = channel_dims(weight)
        # A channel whose weights all stand at alpha has nothing to reconstruct, whatever its gamma.
        tiny = torch.finfo(weight.dtype).tiny
        return self.share * grad.abs().sum(dim=dims) / distance.abs().sum(dim=dims).clamp(min=tiny)

    def before_train(self, runner: Runner) -> None:
        """Look for layers and stand before their optimizers."""
        layers = _find_numbered(runner, 'ReBNNGammaShareHook')

        @torch.no_grad()
        def before_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            held = {id(parameter) for group in stepping.param_groups for parameter in group['params']}
            for weight, quantizer in layers:
                if weight.grad is not None and id(weight) in held:
                    quantizer.gamma.copy_(self.gamma(quantizer.latent(weight), quantizer.alpha, weight.grad))

        for wrapper in optim_wrappers(runner):
            self._handles.append(wrapper.optimizer.register_step_pre_hook(before_step))


@HOOKS.register_module()
class ReBNNOscillationHook(StepHook):
    r"""Renews gamma of ReBNN layers from signs that went there and back, counted over many steps.

    .. math::
        \gamma_i = \frac{S_i}{M} \max_j |G_{ij}|

    with :math:`S_i` the sequential flips (flipped by this step and by the one before) of the M weights of channel i in
    a window of steps. It is Eq. 14 with what Eq. 12 calls oscillation in place of all flips, most of which are signs
    on their way; over a window, because in one step most channels have none. No bounds. For layers with a number above
    0 as gamma, whose value holds until the first window is over; a resumed run begins a new window.

    Args:
        window: optimizer steps, at least 2.

    Raises:
        ValueError: ``window`` is below 2, or no layer has a number above 0 as gamma.

    Example:
        >>> ReBNNOscillationHook(window=100).window
        100
    """

    # Before the method's hook, so that the gradient is still that of the task.
    priority = 40

    def __init__(self, window: int = 100) -> None:
        if window < 2:
            raise RebnnError(f'ReBNNOscillationHook: window={window} must be at least 2 steps.')
        super().__init__()
        self.window = window

    def before_train(self, runner: Runner) -> None:
        """Look for layers and stand around the steps of their optimizers."""
        layers = _find_numbered(runner, 'ReBNNOscillationHook')
        self._handles += _around_steps(runner, [_Oscillation(*layer, self.window) for layer in layers])


class _Oscillation:
    """Gamma of one layer by its sequential flips."""

    def __init__(self, weight: Tensor, quantizer: ReBNNWeight, window: int) -> None:
        self.weight, self.quantizer, self.window = weight, quantizer, window
        self.negative = quantizer.latent(weight) < 0
        self.changed = torch.zeros_like(self.negative)
        self.count = torch.zeros(len(weight), device=weight.device)
        self.steps = 0
        self.largest = self.count

    def before(self) -> None:
        assert self.weight.grad is not None
        self.largest = self.weight.grad.flatten(1).abs().amax(dim=1) / self.quantizer.alpha

    def after(self) -> None:
        negative = self.quantizer.latent(self.weight) < 0
        changed = negative ^ self.negative
        self.count += (changed & self.changed).flatten(1).sum(dim=1, dtype=torch.int32)
        self.negative, self.changed = negative, changed
        self.steps += 1
        if self.steps == self.window:
            self.quantizer.gamma.copy_(self.count / self.weight[0].numel() * self.largest)
            self.count.zero_()
            self.steps = 0


@HOOKS.register_module()
class ReBNNHoldHook(StepHook):
    r"""Adds the reconstruction term to those weights only whose sign went back and forth in the last window of steps.

    .. math::
        \delta_{ij} \mathrel{+}= s \, \rho_i \, \frac{w_{ij} - \alpha_i b_{ij}}{\alpha_i} \quad
        \text{where sign } j \text{ flipped at least twice}

    with :math:`\rho_i` the root mean square of the channel's task gradient. One gamma for a channel also holds back
    the signs that have to move once; here it is a matter of the weight. For layers with gamma 0, whose own term is
    absent; a resumed run begins a new window.

    Args:
        window: optimizer steps, at least 2.
        share: s, above 0. 1 is as strong as the task for a weight at zero.

    Raises:
        ValueError: an argument is out of range, or no layer has a gamma of 0.

    Example:
        >>> ReBNNHoldHook(window=100, share=0.5).share
        0.5
    """

    # After the method's hook, which masks the gradient.
    priority = 60

    def __init__(self, window: int = 100, share: float = 0.5) -> None:
        if window < 2 or not share > 0:
            raise RebnnError(f'ReBNNHoldHook: window={window} must be at least 2 steps and share={share} above 0.')
        super().__init__()
        self.window, self.share = window, share

    def before_train(self, runner: Runner) -> None:
        """Look for layers and stand around the steps of their optimizers."""
        layers = _find_numbered(runner, 'ReBNNHoldHook', zero=True)
        self._handles += _around_steps(runner, [_Held(*layer, self.window, self.share) for layer in layers])


class _Held:
    """The weights of one layer that went back and forth."""

    def __init__(self, weight: Tensor, quantizer: ReBNNWeight, window: int, share: float) -> None:
        self.weight, self.quantizer, self.window, self.share = weight, quantizer, window, share
        self.negative = quantizer.latent(weight) < 0
        self.flips = torch.zeros_like(self.negative, dtype=torch.uint8)
        self.held = torch.zeros_like(self.negative)
        self.steps = 0

    def before(self) -> None:
        grad, alpha = self.weight.grad, self.quantizer.alpha
        assert grad is not None
        latent = self.quantizer.latent(self.weight)
        size = grad.square().mean(dim=channel_dims(grad)).sqrt() / alpha
        grad.add_(
            (latent - sign(latent) * per_channel(alpha, latent)) * self.held * per_channel(self.share * size, grad)
        )

    def after(self) -> None:
        negative = self.quantizer.latent(self.weight) < 0
        self.flips.add_(negative ^ self.negative).clamp_(max=2)  # one byte for any window
        self.negative = negative
        self.steps += 1
        if self.steps == self.window:
            self.held = self.flips >= 2
            self.flips.zero_()
            self.steps = 0


def _around_steps(runner: Runner, layers: Sequence[_Oscillation | _Held]) -> list[Any]:
    """Have layers look at every step that moves them; gives what takes the hooks away."""

    def moved(stepping: Optimizer) -> list[_Oscillation | _Held]:
        held = {id(parameter) for group in stepping.param_groups for parameter in group['params']}
        return [layer for layer in layers if layer.weight.grad is not None and id(layer.weight) in held]

    @torch.no_grad()
    def before_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for layer in moved(stepping):
            layer.before()

    @torch.no_grad()
    def after_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for layer in moved(stepping):
            layer.after()

    optimizers = [wrapper.optimizer for wrapper in optim_wrappers(runner)]
    return [
        handle
        for optimizer in optimizers
        for handle in (
            optimizer.register_step_pre_hook(before_step),
            optimizer.register_step_post_hook(after_step),
        )
    ]


def _find_numbered(runner: Runner, name: str, zero: bool = False) -> list[tuple[Tensor, ReBNNWeight]]:
    """Weights and quantizers of the layers whose gamma is a number above 0, or 0."""
    found = [
        (module.weight, module.weight_quantizer)
        for module in unwrap_model(runner.model).modules()
        if isinstance(module, BinaryLayer) and isinstance(module.weight_quantizer, ReBNNWeight)
    ]
    layers = [(weight, q) for weight, q in found if (q.gamma_mode == 0 if zero else _has_number(q))]
    if not layers:
        raise RebnnError(
            f'{name}: no layer has {"0" if zero else "a number above 0"} as gamma. Set one in the config, such as '
            f"conv_cfg=dict(type='ReBNNConv2d', gamma={0 if zero else 1e-5})."
        )
    return layers


def _has_number(quantizer: nn.Module | None) -> TypeGuard[ReBNNWeight]:
    mode = quantizer.gamma_mode if isinstance(quantizer, ReBNNWeight) else 0
    return not isinstance(mode, str) and mode > 0
