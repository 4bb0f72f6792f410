"""The resilient gradient of a whole model, around any PyTorch optimizer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..errors import RebnnError
from ..functional import channel_mean_abs
from ..layers import BinaryLayer
from ..methods import ReBNNWeight
from .optimizer_step import around_step, local, refuse_fsdp1
from .resilient_layer import ResilientLayer, after_step, before_step, count_step


class ResilientGradient:
    r"""Applies ReBNN's reconstruction term and learns gamma, around ``optimizer.step``.

    One step of every layer, in this order (:math:`G = \partial L / \partial \hat w`, :math:`b = sign(w)`):

    1. before: :math:`\delta_w = \alpha G 1_{|w| \le 1} + \gamma (w - \alpha b)` and
       :math:`\delta_{\alpha_i} = \sum_j G_{ij} b_{ij} - \gamma_i \sum_j (w_{ij} - \alpha_i b_{ij}) b_{ij}`, with
       gamma limited to where the term stays a share of the task's gradient (:func:`rebnn_mm.functional.limited`);
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
        >>> from rebnn_mm.methods import ReBNNLinear
        >>> model = ReBNNLinear(8, 4)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> resilient = ResilientGradient(model).attach(optimizer)
        >>> model(torch.randn(16, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> sorted(resilient.statistics())[:2]
        ['alpha_over_mean_abs_w', 'flip_backs_per_million']
    """

    def __init__(self, model: nn.Module) -> None:
        refuse_fsdp1(model)
        self._layers = {
            name.removeprefix('module.'): ResilientLayer(name.removeprefix('module.'), module)
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and isinstance(module.weight_quantizer, ReBNNWeight)
        }
        for layer in self._layers.values():
            layer.quantizer.start(layer.parameter)
        self.term_shares: dict[str, float] = {}
        """By layer, the share that ``statistics`` found last; without layers that have no term."""
        self.masked_shares: dict[str, float] = {}
        """By layer, the share of weights beyond 1 that ``statistics`` found last."""
        self._attached: list[ResilientLayer] = []
        self._before_layers, self._after_layers = before_step, after_step
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
        held = {id(parameter) for group in optimizer.param_groups for parameter in group['params']}
        # Of a layer with a frozen weight alpha alone may be trained.
        layers = [
            layer
            for layer in self._layers.values()
            if id(layer.parameter if layer.parameter.requires_grad else layer.quantizer.alpha) in held
        ]
        _refuse_tied(layers)
        for layer in layers:
            alpha = layer.quantizer.alpha
            if alpha.requires_grad and id(alpha) not in held:
                raise RebnnError(
                    f'ReBNN layer {layer.name!r}: its weight is in this {type(optimizer).__name__}, its alpha is not. '
                    'Give both to the same optimizer.'
                )
            layer.quantizer.attach(self)
            layer.shard_gamma()

        def before() -> None:
            if getattr(optimizer, 'grad_scale', None) is not None:
                raise RuntimeError(fused_message(optimizer))
            self._before_layers(layers)

        def after() -> None:
            self._after_layers(layers)
            count_step(layers)
            for layer in layers:
                layer.quantizer.note_step()

        self._attached += layers
        self._handles += around_step(optimizer, before, after)
        return self

    def compile(self, **options: Any) -> None:
        """Compile what is done around a step: on a GPU hundreds of small operations become a few kernels.

        Args:
            options: keyword arguments of ``torch.compile``.
        """
        self._before_layers = torch.compile(before_step, **options)
        self._after_layers = torch.compile(after_step, **options)

    def detach(self) -> None:
        """Remove the step hooks."""
        for handle in self._handles:
            handle.remove()
        for layer in self._attached:
            layer.quantizer.detach(self)
        self._handles, self._attached = [], []

    def close_epoch(self) -> None:
        """Renew gamma where flips are counted per epoch (``flip_window='epoch'``)."""
        for layer in self._attached:
            if layer.quantizer.flip_window == 'epoch':
                layer.close_window()

    @torch.no_grad()
    def statistics(self) -> dict[str, float]:
        """What happened since the last call, over all layers; brings the numbers from the device together.

        Returns:
            dict[str, float]:

            - ``flips_per_million``: signs flipped per step, of a million weights;
            - ``flip_backs_per_million``: signs flipped that the step before had flipped the other way (the paper's
              sequential oscillation), of a million weights;
            - ``flips_so_far_percent``: flips of all steps since training began, in percent of the weights; 100 is one
              flip for each weight;
            - ``term_share_median_percent``, ``term_share_max_percent``: norm of the reconstruction term over the norm
              of the task's gradient, of the median layer and of the layer with the largest;
            - ``gamma_mean_x1e6``: mean of gamma over all channels, in millionths;
            - ``gamma_at_lower_percent``, ``gamma_at_upper_percent``: channels on each bound, in percent of those that
              have bounds;
            - ``alpha_over_mean_abs_w``: mean over all channels of alpha over the mean of |w|;
            - ``masked_percent``: latent weights beyond 1, which get no gradient of the task, in percent.
        """
        if not self._layers:
            return {}
        quantizers = [layer.quantizer for layer in self.layers]
        gamma = torch.cat([layer.gamma for layer in self.layers])
        alpha = torch.cat([layer.alpha for layer in self.layers])
        mean_abs = torch.cat([channel_mean_abs(layer.weight) for layer in self.layers]).clamp(min=1e-12)
        ruled = [q for q in quantizers if isinstance(q.gamma_mode, str) and q.gamma_bounds]
        gamma_mean, ratio_mean, *at_bounds = torch.stack(
            [
                gamma.double().mean(),
                (alpha / mean_abs).double().mean(),
                *([_on_bound(ruled, 0), _on_bound(ruled, 1)] if ruled else []),
            ]
        ).tolist()
        counts = [layer.counts for layer in self.layers]
        flips, backs = torch.stack(
            [torch.cat([count.flips for count in counts]).sum(), torch.cat([c.flip_backs for c in counts]).sum()]
        ).tolist()
        self.term_shares = self._take_term_shares()
        self.masked_shares = self._find_masked_shares()
        seen = max(sum(count.weights * count.steps for count in counts), 1)
        for count in counts:
            count.clear()
        result = {
            'flips_per_million': 1e6 * flips / seen,
            'flip_backs_per_million': 1e6 * backs / seen,
            'flips_so_far_percent': self.flips_so_far_percent,
            'gamma_mean_x1e6': 1e6 * gamma_mean,
            'alpha_over_mean_abs_w': ratio_mean,
            'masked_percent': 100
            * sum(self.masked_shares[layer.name] * layer.counts.weights for layer in self.layers)
            / sum(count.weights for count in counts),
        }
        if self.term_shares:
            shares = sorted(self.term_shares.values())
            result['term_share_median_percent'] = 100 * shares[len(shares) // 2]
            result['term_share_max_percent'] = 100 * shares[-1]
        if ruled:
            result['gamma_at_lower_percent'], result['gamma_at_upper_percent'] = (100 * share for share in at_bounds)
        return result

    @property
    def flips_so_far_percent(self) -> float:
        """Flips of all steps of the run, in percent of the weights of the layers that take steps."""
        counts = [layer.counts for layer in self.layers if layer.counts.all_steps]
        return 100 * sum(count.all_flips for count in counts) / max(sum(count.weights for count in counts), 1)

    def unmoved(self, steps: int) -> list[str]:
        """Names of the layers that took at least so many steps without a flip."""
        return [layer.name for layer in self.layers if layer.counts.all_steps >= steps and layer.counts.all_flips == 0]

    def _take_term_shares(self) -> dict[str, float]:
        layers = [layer for layer in self.layers if layer.counts.steps and layer.quantizer.gamma_mode != 0]
        if not layers:
            return {}
        sums = [torch.stack([layer.counts.task_squares.sum(), layer.counts.term_squares.sum()]) for layer in layers]
        squares = torch.stack(sums)
        # A layer without any task gradient gets no term.
        shares = (squares[:, 1] / squares[:, 0].clamp(min=torch.finfo(squares.dtype).tiny)).sqrt().tolist()
        return dict(zip((layer.name for layer in layers), shares, strict=True))

    def _find_masked_shares(self) -> dict[str, float]:
        beyond = [
            (layer.latent.abs() > 1).double().mean() * (layer.quantizer.variant == 'paper') for layer in self.layers
        ]
        return dict(zip((layer.name for layer in self.layers), torch.stack(beyond).tolist(), strict=True))

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Counts and open flip windows by layer."""
        return {name: layer.state_dict() for name, layer in self._layers.items()}

    def load_state_dict(self, states: dict[str, dict[str, Any]]) -> None:
        """Count on, and continue open flip windows."""
        for name, state in states.items():
            if name in self._layers:
                self._layers[name].load_state_dict(state)


def _on_bound(quantizers: Sequence[ReBNNWeight], which: int) -> torch.Tensor:
    """Share of channels whose gamma is on its lower (0) or upper (1) bound."""
    return torch.cat([local(q.gamma) == q.gamma_bounds[which] for q in quantizers if q.gamma_bounds]).double().mean()


def _refuse_tied(layers: Sequence[ResilientLayer]) -> None:
    owners: dict[int, str] = {}
    for layer in layers:
        other = owners.setdefault(id(layer.parameter), layer.name)
        if other != layer.name:
            raise RebnnError(
                f'ReBNN layers {other!r} and {layer.name!r} share one weight and have scaling factors of their own, '
                'so its gradient does not tell what either needs for gamma. Use one layer twice, or another method.'
            )


def fused_message(optimizer: Optimizer) -> str:
    """Why a fused optimizer under loss scaling is refused, and the fix."""
    return (
        f'ReBNNHook: optimizer {type(optimizer).__name__}(fused=True) with AMP sees scaled gradients, so gamma would '
        'be wrong by the loss scale. Use fused=False in optim_wrapper.optimizer.'
    )
