"""mmengine hooks with penalties on latent weights, which draw them away from where signs change."""

from abc import abstractmethod

import torch
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor
from torch.optim import Optimizer

from ..errors import RebnnError
from ..functional import per_channel
from ..layers import BinaryLayer
from .step_hook import StepHook, cosine


class LatentPenaltyHook(StepHook):
    """Adds the gradient of a penalty to that of latent weights, just before the optimizer's step.

    The penalty is not part of the loss: AMP does not scale it, clipping does not see it, the log does not show it.
    """

    def before(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        for layer in layers.values():
            assert layer.weight.grad is not None
            layer.weight.grad += self.gradient(layer)

    @abstractmethod
    def gradient(self, layer: BinaryLayer) -> Tensor:
        """The gradient of the penalty by the latent weights of a layer."""


@HOOKS.register_module()
class DampeningHook(LatentPenaltyHook):
    r"""Draws latent weights between the two values of a channel to the nearer one: oscillation dampening.

    .. math::
        L = \lambda \sum_i \left(\hat w_i - \mathrm{clip}(w_i, -|\hat w_i|, |\hat w_i|)\right)^2, \quad
        \frac{\partial L}{\partial w_i} = 2 \lambda (w_i - \hat w_i) \quad \text{where } |w_i| \le |\hat w_i|

    with the quantized weight :math:`\hat w`, which gets no gradient. :math:`\lambda` grows from ``start`` to
    ``weight`` along half a cosine over the training.

    Args:
        weight: :math:`\lambda` at the end.
        start: :math:`\lambda` at the beginning.

    Raises:
        ValueError: an argument is below 0; at the start of training: the model trains no 1-bit weight, a quantizer has
            no codes (AdaBin), or signs are not those of the latent weights themselves (ReCU, IR-Net, RBNN, SiMaN,
            BiPer).

    Source: Nagel et al., Overcoming Oscillations in Quantization-Aware Training, ICML 2022, by the released code,
    whose MobileNetV2 recipe has the defaults.
    """

    def __init__(self, weight: float = 0.1, start: float = 0.0) -> None:
        if weight < 0 or start < 0:
            raise RebnnError(f'DampeningHook: weight={weight} and start={start} must be at least 0.')
        super().__init__()
        self.weight, self.start = weight, start

    def prepare(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        for name, layer in layers.items():
            quantizer = layer.weight_quantizer
            if quantizer is None or not quantizer.values.has_codes:
                raise RebnnError(
                    f'DampeningHook: {type(quantizer).__name__} of {name!r} has two values per channel '
                    'that are not plus and minus one factor. Use another method, or remove the hook.'
                )
        self.refuse_other_signs(layers)

    def gradient(self, layer: BinaryLayer) -> Tensor:
        assert layer.weight_quantizer is not None
        signs, scale = layer.weight_quantizer.codes(layer.weight)
        values = signs if scale is None else signs * per_channel(scale, signs)
        return dampening_gradient(layer.weight, values, cosine(self.start, self.weight, self.progress()))


@HOOKS.register_module()
class UnitMagnitudeHook(LatentPenaltyHook):
    r"""Draws the magnitudes of latent weights to 1, as BHViT does against oscillation under Adam.

    .. math::
        L = \lambda \, \frac{1}{N} \sum_{l=1}^{N} \frac{1}{M_l} \sum_i \bigl| |w_{li}| - 1 \bigr|

    over N layers with :math:`M_l` weights each. Latent weights start far below 1 as a rule; how strong
    :math:`\lambda` has to be depends on their rate.

    Args:
        weight: :math:`\lambda`; above 0. BHViT adds 0.1 of the penalty to 0.9 of the task's loss, hence 1/9.

    Raises:
        ValueError: ``weight`` is not above 0; at the start of training: the model trains no 1-bit weight.

    Source: Gao et al., BHViT: Binarized Hybrid Vision Transformer, CVPR 2025, by a fork of its released code; of the
    paper the abstract was at hand.
    """

    def __init__(self, weight: float = 1 / 9) -> None:
        if not weight > 0:
            raise RebnnError(
                f'UnitMagnitudeHook: weight={weight} must be above 0; without a penalty, remove the hook.'
            )
        super().__init__()
        self.weight = weight
        self._count = 0

    def before_train(self, runner: Runner) -> None:
        self._count = 0
        super().before_train(runner)

    def prepare(self, optimizer: Optimizer, layers: dict[str, BinaryLayer]) -> None:
        self._count += len(layers)

    def gradient(self, layer: BinaryLayer) -> Tensor:
        return unit_magnitude_gradient(layer.weight, self._count, self.weight)


def dampening_gradient(weight: Tensor, values: Tensor, strength: float) -> Tensor:
    """The gradient of :class:`DampeningHook`'s penalty by latent weights, with the quantized weights ``values``."""
    return 2 * strength * (weight - values) * (weight.abs() <= values.abs())


def unit_magnitude_gradient(weight: Tensor, layers: int, strength: float) -> Tensor:
    """The gradient of :class:`UnitMagnitudeHook`'s penalty by the latent weights of one of ``layers`` layers."""
    return strength / (layers * weight.numel()) * torch.sign(weight.abs() - 1) * torch.sign(weight)
