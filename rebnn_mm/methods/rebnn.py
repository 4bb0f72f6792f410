"""ReBNN (Xu et al., AAAI 2023): learned scales, and a reconstruction term that makes the gradient resilient.

Forward pass, first half of the backward, and the formulas of the term and of its weight gamma, which
:class:`rebnn_mm.engine.ResilientGradient` applies around the optimizer step.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import RebnnError
from ..functional import (
    centre_channels,
    channel_dims,
    channel_mean_abs,
    is_pair,
    native,
    per_channel,
    sign,
    sign_identity,
    zero_outside_one_,
)
from ..functional.sign import SignFunction
from ..layers import BinaryConv2d, BinaryLayer, BinaryLinear
from ..layers.base import SHORTCUT_NAMES
from ..quantizers import LearnedScaleWeight
from ..quantizers.base import ALPHA_MIN
from ..quantizers.builder import QuantizerConfig

RELEASED_CODE_GAMMA = 2e-4
"""What the clamp of the paper's released code returns for every input."""

RELEASED_CODE_BIN = 0.02
"""The constant inside the scaling factor of the paper's released code, which its weight gradient leaves out."""


class _ScaledSignReleased(SignFunction):
    r"""Signs of a weight times a scale, with the gradients of the code that the authors released.

    That code holds :math:`\alpha = 0.02 s`, drops the 0.02 and the straight-through mask from the weight's gradient
    and sums the latent weight instead of its sign in the scale's, which is not the paper's Eq. 5:

    .. math::
        \frac{\partial L}{\partial w_{ij}} = \frac{\alpha_i}{0.02} G_{ij}
        \qquad
        \frac{\partial L}{\partial \alpha_i} = \sum_j G_{ij} w_{ij}
    """

    @staticmethod
    def forward(weight: Tensor, alpha: Tensor) -> Tensor:
        return sign(weight) * per_channel(alpha, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, alpha = ctx.saved_tensors
        grad_weight = grad * per_channel(alpha / RELEASED_CODE_BIN, weight)
        return grad_weight, (grad * weight).sum(dim=channel_dims(weight))


class Channels(NamedTuple):
    """Channels of several weights: all values in a row, and views of them, a matrix for each fan-in."""

    values: Tensor
    matrices: Sequence[Tensor]

    def of_each(self, values: Tensor) -> Sequence[Tensor]:
        """Share one value for each channel out to the matrices."""
        return values.split([len(matrix) for matrix in self.matrices])

    def like(self, values: Tensor) -> Sequence[Tensor]:
        """View other values of the same channels as such matrices."""
        parts = values.split([matrix.numel() for matrix in self.matrices])
        return [part.view_as(matrix) for part, matrix in zip(parts, self.matrices, strict=True)]


def join_channels(weights: Sequence[Tensor]) -> Channels:
    """Join weights; neighbours of one fan-in give one matrix.

    On a GPU each operation has to be started, and takes little longer for a whole network than for one layer.
    """
    values = torch.cat([weight.flatten() for weight in weights])
    shapes: list[tuple[int, int]] = []
    for weight in weights:
        channels, fan_in = len(weight), math.prod(weight.shape[1:])
        if shapes and shapes[-1][1] == fan_in:
            channels += shapes.pop()[0]
        shapes.append((channels, fan_in))
    parts = values.split([math.prod(shape) for shape in shapes])
    return Channels(values, [part.view(shape) for part, shape in zip(parts, shapes, strict=True)])


class Measured(NamedTuple):
    r"""Measurements of the task's gradient and the latent weight that the rule needs.

    Of all values ``negative``, where the weight is; of each channel the ``largest`` magnitude and the norm (``task``)
    of the gradient, the sum of the ``magnitude`` of the weight and the norm (``distance``) of
    :math:`r_i = w_i - \alpha_i b_i`. ``residuals`` is r itself, where it had to be computed.
    """

    negative: Tensor
    largest: Tensor
    task: Tensor
    magnitude: Tensor
    distance: Tensor
    residuals: Sequence[Tensor] = ()


def measure_channels(grad: Channels, latent: Channels, alpha: Tensor) -> Measured:
    """Measure the gradient, before the mask 1[|w| <= 1], and the latent weight of channels."""
    rows = zip(grad.matrices, latent.matrices, latent.of_each(alpha), strict=True)
    measures = [measure_by_kernel(*own) for own in rows]
    found = [own for own in measures if own is not None]
    residuals: Sequence[Tensor] = ()
    if len(found) == len(measures):
        negative = torch.cat([own[0].flatten() for own in found])
        columns = [own[1:] for own in found]
    else:
        negative = latent.values < 0
        residuals = _residuals(latent, negative, alpha)
        columns = [
            (_norms(g, math.inf), _norms(g), _norms(w, 1), _norms(r))
            for g, w, r in zip(grad.matrices, latent.matrices, residuals, strict=True)
        ]
    joined = torch.cat([value for column in zip(*columns, strict=True) for value in column])
    largest, task, magnitude, distance = joined.split(len(alpha))
    return Measured(negative, largest, task, magnitude, distance, residuals)


def _norms(matrix: Tensor, order: float = 2) -> Tensor:
    return torch.linalg.vector_norm(matrix, ord=order, dim=1)


def _residuals(latent: Channels, negative: Tensor, alpha: Tensor) -> list[Tensor]:
    """Return w - alpha b; exact, since a product with a sign is."""
    signs = torch.where(negative, -1.0, 1.0).to(alpha.dtype)
    rows = zip(latent.matrices, latent.like(signs), latent.of_each(alpha), strict=True)
    return [torch.addcmul(weight, sign, scale[:, None], value=-1) for weight, sign, scale in rows]


def add_reconstruction_(
    grad: Channels, latent: Channels, alpha: Tensor, gamma: Tensor, mask: bool = True, residuals: Sequence[Tensor] = ()
) -> None:
    r"""Finish the gradient :math:`\alpha_i G_{ij}` of latent weights in place (the ReBNN paper, Eq. 5 and 8).

    .. math::
        \delta_{ij} = \alpha_i G_{ij} 1_{|w_{ij}| \le 1} + \gamma_i (w_{ij} - \alpha_i b_{ij})

    Without ``mask`` the factor 1[|w| <= 1] is left out; ``residuals`` are w - alpha b of each matrix, if known.
    """
    if not residuals:
        channels = latent.of_each(alpha), latent.of_each(gamma)
        rows = list(zip(grad.matrices, latent.matrices, *channels, strict=True))
        if all(add_by_kernel_(*own, mask) for own in rows):
            return
        residuals = _residuals(latent, latent.values < 0, alpha)
    if mask:
        zero_outside_one_(grad.values, latent.values)
    for own, residual, factor in zip(grad.matrices, residuals, latent.of_each(gamma), strict=True):
        own.addcmul_(residual, factor[:, None])


def flips_since(
    negative: Tensor, latent: Channels, changed_before: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Find where a step has changed signs, how many in each channel, and how many of them the step before had, too."""
    before = [None] * len(latent.matrices) if changed_before is None else latent.like(changed_before)
    found = [count_by_kernel(*own) for own in zip(latent.matrices, latent.like(negative), before, strict=True)]
    if None not in found:
        flags, *columns = zip(*found, strict=True)
        changed = torch.cat([own.flatten() for own in flags])
        once, again = (torch.cat(column).long() for column in columns)
    else:
        changed = negative ^ (latent.values < 0)
        repeated = torch.zeros_like(changed) if changed_before is None else changed & changed_before
        both = torch.stack([changed, repeated]).int().split([matrix.numel() for matrix in latent.matrices], dim=1)
        rows = [own.view(2, *matrix.shape) for own, matrix in zip(both, latent.matrices, strict=True)]
        # In 32 bits a sum takes a small fraction of the time that it takes in 64.
        counted = torch.cat([own.sum(dim=2, dtype=torch.int32) for own in rows], dim=1).long()
        once, again = counted[0], counted[1]
    return changed, once, again


def measure_by_kernel(grad: Tensor, latent: Tensor, alpha: Tensor) -> tuple[Tensor, ...] | None:
    """Negative weights; of each channel max |g|, norm of g, sum of |w|, norm of w - alpha sign(w); or None."""
    if native.kernels_for(latent, grad, channels=[alpha]) is None:
        return None
    negative = torch.empty_like(latent, dtype=torch.bool)
    measured = [torch.empty_like(alpha) for _ in range(4)]
    native.over_channels('rebnn_measure_channels', latent, alpha, grad, negative, *measured)
    return negative, *measured


def add_by_kernel_(grad: Tensor, latent: Tensor, alpha: Tensor, gamma: Tensor, mask: bool) -> bool:
    """Add gamma (w - alpha sign(w)) to a gradient, with a mask times 1[|w| <= 1], in place; False for no kernel."""
    if native.kernels_for(latent, grad, channels=[alpha, gamma]) is None:
        return False
    native.over_channels('rebnn_add_reconstruction', latent, alpha, gamma, int(mask), grad)
    return True


def count_by_kernel(
    latent: Tensor, negative: Tensor, changed_before: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Find where signs have changed, how many in each channel, and how many of them had before; or None."""
    # A model may have been laid out in another order since its signs were noted.
    flags = [negative] if changed_before is None else [negative, changed_before]
    fits = all(t.dtype == torch.bool and t.shape == latent.shape and t.is_contiguous() for t in flags)
    if not fits or not native.readable(*flags) or native.kernels_for(latent) is None:
        return None
    changed = torch.empty_like(negative)
    flips, sequential = (latent.new_empty(len(latent), dtype=torch.int32) for _ in range(2))
    native.over_channels('rebnn_count_flips', latent, negative, changed_before, changed, flips, sequential)
    return changed, flips, sequential


def limit_gamma(gamma: Tensor, task: Tensor, distance: Tensor, share: float | None) -> Tensor:
    r"""Gamma with which the reconstruction term stays below a share of the task's gradient.

    .. math::
        \min\left(\gamma_i, \; s \, \frac{\| \alpha_i G_i \|_2}{\| w_i - \alpha_i b_i \|_2}\right),
        \qquad 0 \text{ where } G_i = 0

    Eq. 14 is 0 in a channel without task gradient, and its lower bound is not: with norms that start at zero the bound
    alone would move the weights, to plus or minus alpha and away from any flip.

    Args:
        gamma: shape (C_out,), at least 0.
        task: norm of the task's gradient of each channel of the latent weight, shape (C_out,).
        distance: norm of w - alpha b of each channel, shape (C_out,).
        share: s, above 0; None for no limit but the zero.

    Source: the first case is this project's, not the paper's; the second is Eq. 14 before it is clamped.

    Example:
        >>> gamma, task, distance = torch.full((3,), 0.5), torch.tensor([0.0, 1.0, 9.0]), torch.ones(3)
        >>> limit_gamma(gamma, task, distance, 0.1), limit_gamma(gamma, task, distance, None)
        (tensor([0.0000, 0.1000, 0.5000]), tensor([0.0000, 0.5000, 0.5000]))
    """
    if share is None:
        return gamma * (task > 0)
    return torch.minimum(gamma, share * task / distance.clamp(min=torch.finfo(distance.dtype).tiny))


@MODELS.register_module()
class ReBNNWeight(LearnedScaleWeight):
    r"""Binarized weight with learnable scaling factor; holds what the resilient gradient needs.

    .. math::
        \hat w = \alpha \circ sign(w)
        \qquad
        \delta_w = \alpha \circ G \circ 1_{|w| \le 1} + \gamma \circ (w - \alpha \circ sign(w)),
        \quad G = \frac{\partial L}{\partial \hat w}

    The backward pass gives :math:`\alpha \circ G` and the gradient of alpha. The mask :math:`1_{|w| \le 1}`, the
    second term and the update of gamma belong around the optimizer step, where the gradient is reduced, unscaled and
    accumulated:
    :class:`rebnn_mm.engine.ReBNNHook` in mmengine, :class:`rebnn_mm.engine.ResilientGradient` elsewhere. Training
    without either warns once (:class:`rebnn_mm.quantizers.MissingHookWarning`).

    Args:
        gamma: ``'adaptive'``, the paper's rule: share of flipped signs times the largest \|G\| of the channel (Eq.
            14); ``'max'``, the second factor alone; or a number, the same for all channels, 0 for none.
        gamma_bounds: lower and upper bound of the two rules, None for none. A number is never clamped.
        max_share: the largest norm of the reconstruction term of a channel, as a share of the norm of its task
            gradient; where the two rules give more, the term is made smaller (gamma itself is not). None for no limit.
            A number as gamma has none.
        flip_window: over what flips are counted and how often gamma is renewed: a number of optimizer steps, or
            ``'epoch'``.
        variant: ``'paper'``, or ``'official'`` for the released code, to reproduce what was run: its constant gamma of
            2e-4, and gradients of :math:`\alpha_i G_{ij} / 0.02` for w, without a mask, and
            :math:`\sum_j G_{ij} w_{ij}` for alpha. alpha is the whole factor in both, started at the mean of \|w\|.
        center: None, or ``'row'``: the mean of each channel is taken off w before all of the above, and the whole of
            :math:`\delta_w` is carried to the latent weight through that subtraction
            (:func:`rebnn_mm.functional.centre_channels`). The paper does not centre its convolutions; for BERT it
            takes the set-up of BiBERT, which does. alpha starts at the mean of \|w\| of the uncentred channel, as
            there.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,), positive; starts at the mean of \|w\| of each channel.
        gamma (buffer): balanced parameter, shape (C_out,), float32; the only state other than the parameters.

    Raises:
        ValueError: an option has none of the values above.

    Source: the ReBNN paper, Eq. 2, 5, 8 and 14.

    Example:
        >>> quantizer = ReBNNWeight((2, 4), gamma=0.5)
        >>> quantizer.init_from_weight(torch.tensor([[1., -1., 3., -3.], [.1, .1, .1, -.1]]))
        >>> quantizer.alpha.data, quantizer.gamma
        (tensor([2.0000, 0.1000]), tensor([0.5000, 0.5000]))
    """

    hook: ClassVar[str] = 'ReBNNHook'

    def __init__(
        self,
        weight_shape: tuple[int, ...],
        gamma: str | float = 'adaptive',
        gamma_bounds: tuple[float, float] | None = (1e-5, 2e-4),
        max_share: float | None = 0.01,
        flip_window: int | str = 1,
        variant: str = 'paper',
        center: str | None = None,
    ) -> None:
        super().__init__(weight_shape)
        if center not in (None, 'row'):
            raise RebnnError(f"ReBNN: center={center!r} is unknown; use 'row' or None")
        if center and variant == 'official':
            raise RebnnError("ReBNN: variant='official' is the released code, which does not centre; use center=None")
        self.center = center
        self.gamma_mode, self.gamma_bounds = _check_gamma(gamma, gamma_bounds, variant)
        if max_share is not None and not (_is_number(max_share) and max_share > 0):
            raise RebnnError(f'ReBNN: max_share={max_share!r} must be above 0, such as 0.01, or None for no limit')
        self.max_share = max_share if isinstance(self.gamma_mode, str) else None
        if flip_window != 'epoch' and not (isinstance(flip_window, int) and flip_window >= 1):
            raise RebnnError(f"ReBNN: flip_window={flip_window!r} is unknown; use a number of steps or 'epoch'")
        self.flip_window = flip_window
        self.variant = variant
        # The rule before its first step: no flips, so the lower bound.
        rule = self.gamma_bounds[0] if self.gamma_bounds else 0.0
        first = rule if isinstance(self.gamma_mode, str) else self.gamma_mode
        self.register_buffer('gamma', torch.full((weight_shape[0],), first, dtype=torch.float32))
        self.gamma: Tensor

    def latent(self, weight: Tensor) -> Tensor:
        # The centring of the gradient belongs to the optimizer's step, as the mask does.
        return weight if self.center is None else centre_channels(weight, through=False)

    def signs(self, latent: Tensor) -> Tensor:
        return sign_identity(latent)

    @property
    def codes_learn(self) -> bool:
        return self.variant == 'paper' and type(self).forward is ReBNNWeight.forward

    def forward(self, weight: Tensor) -> Tensor:
        return super().forward(weight) if self.variant == 'paper' else _ScaledSignReleased.apply(weight, self.alpha)

    @torch.no_grad()
    def init_from_weight(self, weight: Tensor) -> None:
        self.alpha.copy_(channel_mean_abs(weight).clamp(min=ALPHA_MIN))

    def learn_gamma(self, largest: Tensor, share: Tensor) -> Tensor:
        r"""Gamma of channels by the rule, which of the paper's has two factors.

        .. math::
            \gamma_i = \frac{1}{M} \| b_i^t \circ b_i^{t+1} - 1 \|_0 \cdot \max_j |G_{ij}|

        Args:
            largest: largest magnitude of the gradient of each channel, :math:`\max_j |G_{ij}|`.
            share: share of its weights whose sign has changed, the first factor; ``'max'`` leaves it out.

        Source: the ReBNN paper, Eq. 14.

        Example:
            >>> quantizer = ReBNNWeight((2, 4), gamma_bounds=(0.1, 1.0))
            >>> quantizer.learn_gamma(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.0]))
            tensor([0.2500, 0.1000])
        """
        gamma = largest.to(self.gamma.dtype)
        if self.gamma_mode == 'adaptive':
            gamma = gamma * share
        return gamma.clamp(*self.gamma_bounds) if self.gamma_bounds else gamma

    def missing_hook_message(self) -> str:
        return (
            'ReBNN layers are being trained without the resilient gradient: gamma and the reconstruction term are not '
            "applied. Add custom_hooks=[dict(type='ReBNNHook')] to the config (outside mmengine: "
            'rebnn_mm.engine.ResilientGradient(model).attach(optimizer)).'
        )

    def extra_repr(self) -> str:
        options = f'gamma={self.gamma_mode!r}, gamma_bounds={self.gamma_bounds}, flip_window={self.flip_window!r}'
        options += f', center={self.center!r}' if self.center else ''
        return options if self.variant == 'paper' else f'{options}, variant={self.variant!r}'


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_gamma(
    gamma: str | float, bounds: tuple[float, float] | None, variant: str
) -> tuple[str | float, tuple[float, float] | None]:
    if variant not in ('paper', 'official'):
        raise RebnnError(f"ReBNN: variant={variant!r} is unknown; use 'paper' or 'official'")
    if isinstance(gamma, str) and gamma not in ('adaptive', 'max'):
        raise RebnnError(f"ReBNN: gamma={gamma!r} is unknown; use 'adaptive', 'max' or a number such as 1e-4")
    if not isinstance(gamma, str) and not (_is_number(gamma) and 0 <= gamma < float('inf')):
        raise RebnnError(f"ReBNN: gamma={gamma!r} must be 'adaptive', 'max' or a number of at least 0")
    if variant == 'official':
        if gamma not in ('adaptive', RELEASED_CODE_GAMMA):
            raise RebnnError(
                f"ReBNN: variant='official' has the constant gamma of the released code, {RELEASED_CODE_GAMMA}; "
                f"leave gamma out (got {gamma!r}) or use variant='paper'"
            )
        return RELEASED_CODE_GAMMA, None
    if bounds is None:
        return gamma, None
    if not is_pair(bounds) or not 0 <= bounds[0] <= bounds[1]:
        raise RebnnError(f'ReBNN: gamma_bounds={bounds!r} must be (lower, upper) with 0 <= lower <= upper, or None')
    return gamma, (float(bounds[0]), float(bounds[1]))


class ReBNNLayer(BinaryLayer):
    """Mixin of ReBNN's layers: the options of their weight quantizer, and its state as the layer's own attributes.

    Args:
        args: those of the torch layer, in its order.
        gamma, gamma_bounds, max_share, flip_window, variant, center: see :class:`ReBNNWeight`.
        weight: config of the weight quantizer; ``'default'`` is ReBNN's with these options, None keeps the weight real
            (stage 1 of two-stage training), and the options have no effect then.
        activation, keep_real: see :class:`rebnn_mm.layers.BinaryConv2d`.
        kwargs: those of the torch layer and, for a convolution, ``pad_value``, by name.

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.
    """

    method_weight: ClassVar[QuantizerConfig] = 'ReBNNWeight'

    def __init__(
        self,
        *args: Any,
        gamma: str | float = 'adaptive',
        gamma_bounds: tuple[float, float] | None = (1e-5, 2e-4),
        max_share: float | None = 0.01,
        flip_window: int | str = 1,
        variant: str = 'paper',
        center: str | None = None,
        weight: QuantizerConfig = 'default',
        activation: QuantizerConfig = 'default',
        keep_real: Sequence[str] | Literal[False] = SHORTCUT_NAMES,
        **kwargs: Any,
    ) -> None:
        if weight == 'default':
            rule = dict(gamma=gamma, gamma_bounds=gamma_bounds, max_share=max_share, flip_window=flip_window)
            weight = dict(type='ReBNNWeight', variant=variant, center=center, **rule)
        super().__init__(*args, weight=weight, activation=activation, keep_real=keep_real, **kwargs)

    @property
    def alpha(self) -> nn.Parameter | None:
        """Scaling factor, shape (C_out,); None where the weight quantizer is not ReBNN's."""
        return self.weight_quantizer.alpha if isinstance(self.weight_quantizer, ReBNNWeight) else None

    @property
    def gamma(self) -> Tensor | None:
        """Balanced parameter, shape (C_out,); None where the weight quantizer is not ReBNN's."""
        return self.weight_quantizer.gamma if isinstance(self.weight_quantizer, ReBNNWeight) else None


@MODELS.register_module()
class ReBNNConv2d(ReBNNLayer, BinaryConv2d, nn.Conv2d):
    """Binary convolution trained with the resilient gradient: ``conv_cfg=dict(type='ReBNNConv2d')``.

    Forward and first half of the backward are in :class:`ReBNNWeight`; the reconstruction term and the update of gamma
    are applied around the optimizer step by :class:`rebnn_mm.engine.ReBNNHook`. Options are those of
    :class:`ReBNNLayer` and of :class:`rebnn_mm.layers.BinaryConv2d`.

    Example:
        >>> from mmcv.cnn import build_conv_layer
        >>> conv = build_conv_layer(dict(type='ReBNNConv2d', gamma=1e-4), 16, 32, 3, padding=1, bias=False)
        >>> conv.weight.shape, conv.alpha.shape, conv.gamma.shape
        (torch.Size([32, 16, 3, 3]), torch.Size([32]), torch.Size([32]))
    """


@MODELS.register_module()
class ReBNNLinear(ReBNNLayer, BinaryLinear, nn.Linear):
    """Binary linear layer trained with the resilient gradient, with the options of :class:`ReBNNLayer`.

    Example:
        >>> layer = ReBNNLinear(16, 4)
        >>> layer.weight.shape, layer.alpha.shape, layer.gamma.shape
        (torch.Size([4, 16]), torch.Size([4]), torch.Size([4]))
    """
