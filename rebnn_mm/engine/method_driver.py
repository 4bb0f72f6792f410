"""Drives what binarization methods need in addition to their gradient, around any PyTorch optimizer."""

import torch
from mmengine.dist import all_reduce_params
from torch import Tensor, nn
from torch.optim import Optimizer

from ..functional import channel_mean_abs
from ..layers import BinaryLayer
from ..methods.rebnn import ReBNNWeight
from ..quantizers import LearnedScaleWeight, Quantizer, WeightQuantizer
from ..quantizers.base import least_alpha
from .optimizer_step import AroundSteps, trained_by, whole


class MethodDriver(AroundSteps):
    """Runs the schedules, per-epoch updates, step rules and weight constraints of a model's quantizers.

    What a quantizer needs it implements itself (:class:`rebnn_mm.quantizers.WeightQuantizer`); this class only calls
    it at the right time: ``start`` when this object is made, on the weights as loaded; ``set_progress`` and
    ``begin_epoch`` when it is told; ``before_step`` and ``after_step`` around each step of the optimizer, on final
    gradients; ``constrain`` when the optimizer is attached and after each step.

    A step that AMP skips for inf does not get to the last three, which also leave frozen weights alone, as
    ``begin_epoch`` does. After each step of a distributed run all processes take the largest of their values of
    ``followed_maxima``. Inside mmengine use :class:`BinaryHook`, which does all of this.

    Attributes:
        quantizers (list[Quantizer]): all of the model, also of other modules than layers, in its order.

    Example:
        >>> from rebnn_mm.methods import BNNLinear
        >>> model = BNNLinear(8, 4)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
        >>> driver = MethodDriver(model).attach(optimizer)
        >>> driver.set_progress(0.0)
        >>> model(torch.randn(16, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> float(model.weight.detach().abs().max()) <= 1
        True
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._layers = [module for module in model.modules() if isinstance(module, BinaryLayer) and module.binary]
        self.quantizers = [module for module in model.modules() if isinstance(module, Quantizer)]
        for layer in self._layers:
            if layer.weight_quantizer is not None:
                layer.weight_quantizer.start(layer.weight)

    def attach(self, optimizer: Optimizer, resumed: bool = False) -> 'MethodDriver':
        """Carry the methods' rules through an optimizer's steps, constraining its weights now and after each.

        Weights of a resumed run hold the constraint already; applied once more, it would change them by a rounding.
        """

        def trained() -> list[tuple[Tensor, WeightQuantizer]]:
            held = trained_by(optimizer)
            # Of layers that share one weight the first runs their rule, which run twice would be another one.
            first = {(id(layer.weight), type(layer.weight_quantizer)): layer for layer in reversed(self._layers)}
            quantizers = [(own.weight, own.weight_quantizer) for own in first.values() if id(own.weight) in held]
            return [(weight, quantizer) for weight, quantizer in quantizers if quantizer is not None]

        def moving() -> list[tuple[Tensor, WeightQuantizer]]:
            return [(w, quantizer) for w, quantizer in trained() if w.requires_grad and w.grad is not None]

        def has_rule(quantizer: WeightQuantizer) -> bool:
            return type(quantizer).before_step is not WeightQuantizer.before_step

        with torch.no_grad():
            for weight, quantizer in trained():
                if weight.requires_grad and not resumed:
                    with whole(weight) as joined:
                        quantizer.constrain(joined)

        def before_step() -> None:
            for weight, quantizer in moving():
                if has_rule(quantizer):
                    with whole(weight) as joined:
                        quantizer.before_step(joined)

        def after_step() -> None:
            for weight, quantizer in moving():
                with whole(weight) as joined:
                    quantizer.after_step(joined)
                    quantizer.constrain(joined)
            self._keep_scales(optimizer)
            followed = [getattr(each, name) for each in self.quantizers for name in each.followed_maxima]
            all_reduce_params(followed, op='max')
            here = {id(weight) for weight, _ in trained()}
            elsewhere = {layer.weight_quantizer for layer in self._layers if id(layer.weight) not in here}
            for driven in self.quantizers:
                if driven.hook == 'BinaryHook' and driven not in elsewhere:
                    driven.note_step()

        for each in self.quantizers:
            each.attach(self)
        rules = any(has_rule(own) for own in (layer.weight_quantizer for layer in self._layers) if own is not None)
        self._around(optimizer, before_step if rules else None, after_step)
        return self

    def _keep_scales(self, optimizer: Optimizer) -> None:
        """Keep learned factors away from 0; :class:`ResilientGradient` does so with those of ReBNN."""
        moved = {id(p) for group in optimizer.param_groups for p in group['params'] if p.grad is not None}
        for layer in self._layers:
            own = layer.weight_quantizer
            if isinstance(own, LearnedScaleWeight) and not isinstance(own, ReBNNWeight) and id(own.alpha) in moved:
                with whole(layer.weight) as weight, whole(own.alpha) as alpha:
                    alpha.clamp_(min=least_alpha(channel_mean_abs(weight)))

    def detach(self) -> None:
        super().detach()
        for quantizer in self.quantizers:
            quantizer.detach(self)

    def set_progress(self, done: float) -> None:
        """Tell every schedule the share of training that is finished; an epoch begun again after a stop may pass 1."""
        done = min(done, 1.0)
        for quantizer in self.quantizers:
            quantizer.set_progress(done)

    @torch.no_grad()
    def begin_epoch(self) -> None:
        """Renew what is learned once per epoch outside the gradient."""
        for layer in self._layers:
            if layer.weight_quantizer is not None and layer.weight.requires_grad:
                with whole(layer.weight) as joined:
                    layer.weight_quantizer.begin_epoch(joined)
