"""The resilient gradient of a whole model, around any PyTorch optimizer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..functional import channel_mean_abs
from ..layers import BinaryLayer
from ..quantizers import ReBNNWeight
from .resilient_layer import ResilientLayer

SHARDED_TYPES = ('DTensor', 'FlatParameter', 'ShardedTensor')


class ResilientGradient:
    r"""Applies ReBNN's reconstruction term and learns gamma, around ``optimizer.step``.

    One step of every layer, in this order (:math:`G = \partial L / \partial \hat w`, :math:`b = sign(w)`):

    1. before: :math:`\delta_w = \alpha G 1_{|w| \le 1} + \gamma (w - \alpha b)` and
       :math:`\delta_{\alpha_i} = \sum_j G_{ij} b_{ij} - \gamma_i \sum_j (w_{ij} - \alpha_i b_{ij}) b_{ij}`;
    2. the optimizer's step;
    3. after: :math:`\gamma_i =` share of flipped signs :math:`\cdot \max_j |G_{ij}|` within its bounds.

    With ``center='row'`` w stands for the centred weight in all three, and the mean of each channel is taken off
    :math:`\delta_w` last, which is how it reaches the latent weight.

    Optimizer step hooks see the gradient after accumulation, after DDP's reduction and after ``GradScaler`` has
    unscaled it, and are not called for a step that is skipped for inf. Gradient clipping comes before them: G is then
    the clipped one and the reconstruction term is not clipped; and clipping sees G before the mask
    :math:`1_{|w| \le 1}` and before the centring.

    Inside mmengine use :class:`ReBNNHook`, which does all of this.

    Args:
        model: a model with ReBNN layers; wrapped in DDP or not.

    Raises:
        ValueError: the optimizer or the model is one whose gradients these hooks cannot see as they should be
            (sharded, or weight and alpha in different optimizers).

    Source: the ReBNN paper, Eq. 5, 8, 14 and 16; ``torch.optim.Optimizer.register_step_pre_hook``.

    Example:
        >>> from rebnn_mm.layers import ReBNNLinear
        >>> model = ReBNNLinear(8, 4)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> resilient = ResilientGradient(model).attach(optimizer)
        >>> model(torch.randn(16, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> sorted(resilient.statistics())[:2]
        ['alpha_over_mean_abs_w', 'flip_back_percent']
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers = {
            name.removeprefix('module.'): ResilientLayer(name.removeprefix('module.'), module)
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and isinstance(module.weight_quantizer, ReBNNWeight)
        }
        for layer in self._layers.values():
            layer.quantizer.start(layer.weight)
        self._attached: list[ResilientLayer] = []
        self._handles: list[Any] = []

    def __len__(self) -> int:
        return len(self._layers)

    @property
    def layers(self) -> Sequence[ResilientLayer]:
        """The ReBNN layers of the model, in its order."""
        return list(self._layers.values())

    def attach(self, optimizer: Optimizer) -> 'ResilientGradient':
        """Install the step hooks; call once per optimizer.

        Args:
            optimizer: holds the parameters of some or all ReBNN layers.

        Returns:
            ResilientGradient: itself.
        """
        _refuse_sharded(optimizer)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group['params']}
        layers = [layer for layer in self._layers.values() if id(layer.weight) in held]
        for layer in layers:
            alpha = layer.quantizer.alpha
            if alpha.requires_grad and id(alpha) not in held:
                raise ValueError(
                    f'ReBNN layer {layer.name!r}: its weight is in this {type(optimizer).__name__}, its alpha is not. '
                    'Give both to the same optimizer.'
                )
            layer.quantizer.driven = True

        def before_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if getattr(stepping, 'grad_scale', None) is not None:
                raise RuntimeError(fused_message(stepping))
            for layer in layers:
                layer.before_step()

        def after_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for layer in layers:
                layer.after_step()

        self._attached += layers
        self._handles += [optimizer.register_step_pre_hook(before_step), optimizer.register_step_post_hook(after_step)]
        return self

    def detach(self) -> None:
        """Remove the step hooks."""
        for handle in self._handles:
            handle.remove()
        for layer in self._attached:
            layer.quantizer.driven = False
        self._handles, self._attached = [], []

    def close_epoch(self) -> None:
        """Renew gamma where flips are counted per epoch (``flip_window='epoch'``)."""
        for layer in self._attached:
            if layer.quantizer.flip_window == 'epoch':
                layer.close_window()

    @torch.no_grad()
    def statistics(self) -> dict[str, float]:
        """What happened since the last call, over all layers; brings the numbers from the device once.

        Returns:
            dict[str, float]:

            - ``flip_percent``: signs flipped per step, in percent of all weights;
            - ``flip_back_percent``: signs flipped that the step before had flipped the other way (the paper's
              sequential oscillation), in percent of all weights;
            - ``gamma_mean_x1e6``: mean of gamma over all channels, in millionths;
            - ``gamma_at_lower_percent``, ``gamma_at_upper_percent``: channels on each bound, in percent of those that
              have bounds;
            - ``alpha_over_mean_abs_w``: mean over all channels of alpha over the mean of |w|.
        """
        if not self._layers:
            return {}
        counts = [layer.take_counts() for layer in self.layers]
        quantizers = [layer.quantizer for layer in self.layers]
        gamma = torch.cat([quantizer.gamma for quantizer in quantizers])
        alpha = torch.cat([quantizer.alpha for quantizer in quantizers])
        mean_abs = torch.cat([channel_mean_abs(layer.weight) for layer in self.layers]).clamp(min=1e-12)
        ruled = [q for q in quantizers if isinstance(q.gamma_mode, str) and q.gamma_bounds is not None]
        # Brought over together, because each transfer waits for the device.
        flips, backs, gamma_mean, ratio_mean, *at_bounds = torch.stack(
            [
                torch.stack([flips for flips, _, _ in counts]).sum(),
                torch.stack([backs for _, backs, _ in counts]).sum(),
                gamma.double().mean(),
                (alpha / mean_abs).double().mean(),
                *([_on_bound(ruled, 0), _on_bound(ruled, 1)] if ruled else []),
            ]
        ).tolist()
        seen = max(sum(weights for _, _, weights in counts), 1)
        result = {
            'flip_percent': 100 * flips / seen,
            'flip_back_percent': 100 * backs / seen,
            'gamma_mean_x1e6': 1e6 * gamma_mean,
            'alpha_over_mean_abs_w': ratio_mean,
        }
        if ruled:
            result['gamma_at_lower_percent'], result['gamma_at_upper_percent'] = (100 * share for share in at_bounds)
        return result

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Open flip windows by layer; empty with the default window of one step."""
        states = {name: layer.state_dict() for name, layer in self._layers.items()}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, states: dict[str, dict[str, Any]]) -> None:
        """Continue open flip windows."""
        for name, state in states.items():
            if name in self._layers:
                self._layers[name].load_state_dict(state)


def _on_bound(quantizers: Sequence[ReBNNWeight], which: int) -> torch.Tensor:
    """Share of channels whose gamma is on its lower (0) or upper (1) bound."""
    return torch.cat([q.gamma == q.gamma_bounds[which] for q in quantizers if q.gamma_bounds]).double().mean()


def fused_message(optimizer: Optimizer) -> str:
    """Why a fused optimizer under loss scaling is refused, and the fix."""
    return (
        f'ReBNNHook: optimizer {type(optimizer).__name__}(fused=True) with AMP sees scaled gradients, so gamma would '
        'be wrong by the loss scale. Use fused=False in optim_wrapper.optimizer.'
    )


def _refuse_sharded(optimizer: Optimizer) -> None:
    if type(optimizer).__name__ == 'ZeroRedundancyOptimizer':
        raise ValueError(
            'ReBNN: ZeroRedundancyOptimizer shards the step, which is not supported; use the plain optimizer.'
        )
    for group in optimizer.param_groups:
        for parameter in group['params']:
            kinds = {type(parameter).__name__, type(parameter.data).__name__}
            if kinds & set(SHARDED_TYPES) or hasattr(parameter, '_is_flat_param'):
                raise ValueError(
                    'ReBNN: sharded parameters (FSDP, ZeRO) are not supported, because gamma needs whole channels; '
                    "use DistributedDataParallel (mmengine's --launcher)."
                )
