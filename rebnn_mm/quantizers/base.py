"""Interface between a binary layer and its quantizers."""

import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import channel_mean_abs, is_pair, per_channel, sharpness_at, sign


def holds(state_dict: Mapping[str, Any], name: str, value: Tensor) -> bool:
    """Whether a state dict has what this value can be loaded from: of this name, and of its shape."""
    return name in state_dict and state_dict[name].shape == value.shape


DRIVERS = {'BinaryHook': 'MethodDriver', 'ReBNNHook': 'ResilientGradient'}
"""Driver that each hook attaches to the optimizer."""

ALPHA_MIN, ALPHA_SHARE = 1e-6, 0.25


def least_alpha(mean_abs: Tensor) -> Tensor:
    r"""The least that a learned scaling factor is kept at after a step that moves it, of each channel's mean of \|w\|.

    Before a batch norm it has next to no gradient, and a step of Adam has one size whatever the gradient: within a few
    hundred steps it can walk to 0. There the norm's epsilon counts, the gradient is thousands of times as large as all
    others, and clipping leaves next to nothing of those.
    """
    return (ALPHA_SHARE * mean_abs).clamp(min=ALPHA_MIN)


class MissingHookWarning(UserWarning):
    """Layers are trained without the hook that carries their method."""


PASSES_WITHOUT_STEP = 1000
"""Forward passes in training without a step of the optimizer after which an attached rule warns."""

_attached: weakref.WeakKeyDictionary[nn.Module, dict[str, weakref.ref[object]]] = weakref.WeakKeyDictionary()
"""By quantizer, what carries its method through an optimizer's steps. Not an attribute, which copies would have."""


@dataclass(frozen=True)
class Values:
    """Declares what a quantizer gives, from which follow the training kernel and the exported file.

    Attributes:
        kind: values in evaluation: ``'signs'``, -1 and +1, for weights with the factor of ``codes``; ``'two'`` others,
            which ``two_values`` gives; of weights, ``'integers'`` times a factor, as ``codes`` gives them; or any
            ``'other'``. Files hold the first two. Sums of signs have a training kernel.
        sign_of: what an activation's signs are the signs of: the ``'shifted'`` input, which a file's operator takes
            itself; that minus its sample's mean, ``'centred'``; or ``'other'``, traced before the operator.
        same_in_training: whether training has the values of evaluation (for weights, codes times factor). Without it
            there is no kernel.
    """

    kind: Literal['signs', 'two', 'integers', 'other']
    sign_of: Literal['shifted', 'centred', 'other'] = 'shifted'
    same_in_training: bool = True

    @property
    def has_codes(self) -> bool:
        """Whether weights are integers times a factor."""
        return self.kind in ('signs', 'integers')


class Quantizer(nn.Module):
    """Base of weight and activation quantizers.

    Learnable state is a Parameter made in ``__init__`` (one made later never reaches the optimizer); running state is
    a buffer. The forward pass changes neither, save for statistics that it follows in training as a batch norm does.
    """

    bits: int = 1
    """Bits per value, read by the layer table and the size report."""

    param_roles: ClassVar[dict[str, str]] = {}
    """Role of each parameter (``'scale'`` or ``'shift'``), read by the optimizer constructor."""

    values: Values = Values('other')
    """What it gives; a class that has ``quantize``, ``codes`` or ``two_values`` of its own declares it. An instance
    whose options change it sets it in ``__init__``."""

    hook: ClassVar[str] = ''
    """The mmengine hook without which training is not this method; empty if it needs none."""

    followed_maxima: ClassVar[tuple[str, ...]] = ()
    """Names of buffers that follow a maximum of the data in training: several processes take the largest of theirs
    after each step of the optimizer."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [name for name in ('quantize', 'codes', 'two_values') if name in vars(cls)]
        if own and 'values' not in vars(cls):
            raise RebnnError(
                f'{cls.__name__} has {own[0]}() of its own and does not declare what that gives. Add values = '
                "Values('signs'), or what else it is, to the class (docs/add_a_method.md)."
            )

    def __init__(self) -> None:
        super().__init__()
        self._passes = 0

    def set_progress(self, done: float) -> None:
        """Renew what follows a schedule, with the share of training done; called before every epoch or step."""

    def warn_if_not_driven(self) -> None:
        """Warn once that the method's hook is missing, if it is."""
        if not self.hook or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        if getattr(self, '_is_replica', False):  # of nn.DataParallel, whose original the hook knows
            return
        if not self.driven:
            warnings.warn(self.missing_hook_message(), MissingHookWarning, stacklevel=2)
            return
        self._passes += 1
        if self._passes == PASSES_WITHOUT_STEP:
            warnings.warn(
                f'{type(self).__name__}: {PASSES_WITHOUT_STEP} training passes and no step of the optimizer that '
                f'{self.hook} is attached to, so its rule is not applied. Attach it to the optimizer whose step() is '
                'called.',
                MissingHookWarning,
                stacklevel=2,
            )

    @property
    def driven(self) -> bool:
        return DRIVERS.get(self.hook) in _attached.get(self, {})

    def attach(self, driver: object) -> None:
        """Note what carries the method through an optimizer's steps; refuse a second object of that class."""
        drivers = _attached.setdefault(self, {})
        name = type(driver).__name__
        before = drivers[name]() if name in drivers else None
        if before is not None and before is not driver:
            raise RebnnError(
                f'{name}: {type(self).__name__} is attached to another {name}, whose rules would run twice. Use one '
                'hook (ReBNNHook does all that BinaryHook does), or detach() the other one first.'
            )
        drivers[name] = weakref.ref(driver)

    def detach(self, driver: object) -> None:
        drivers = _attached.get(self, {})
        name = type(driver).__name__
        if name in drivers and drivers[name]() is driver:
            del drivers[name]

    def note_step(self) -> None:
        self._passes = 0

    def missing_hook_message(self) -> str:
        """Say what is lost without the hook, and the fix."""
        return (
            f'{type(self).__name__} is being trained without its schedule, step rule or constraint. Add '
            f"custom_hooks=[dict(type='{self.hook}')] to the config (outside mmengine: "
            'rebnn_mm.engine.MethodDriver(model).attach(optimizer)).'
        )


class SharpeningQuantizer(Quantizer):
    """Base of quantizers whose estimator sharpens during training, :func:`rebnn_mm.functional.sharpness_at`.

    A method names it before the quantizer that it sharpens.

    Args:
        args, kwargs: those of that quantizer.
        t: first and last value of the schedule; None for those of the method.
    """

    hook: ClassVar[str] = 'BinaryHook'
    t_range: tuple[float, float] = (1e-3, 10.0)
    """First and last value of the estimator's sharpness; these are IR-Net's released code's for ResNet-20."""

    least_sharpness: ClassVar[float] = 0.0
    sharpness: Tensor

    def __init__(self, *args: Any, t: tuple[float, float] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        t = self.t_range if t is None else t
        if not is_pair(t) or not 0 < t[0] <= t[1] < float('inf'):
            raise RebnnError(f'{type(self).__name__}: t={t!r} must be (first, last) with 0 < first <= last')
        self.t_range = t
        self.register_buffer('sharpness', torch.tensor(max(float(t[0]), self.least_sharpness)))

    def set_progress(self, done: float) -> None:
        self.sharpness.fill_(max(sharpness_at(done, *self.t_range), self.least_sharpness))


class WeightQuantizer(Quantizer):
    r"""Turns a latent weight into the weight that the layer computes with.

    A method adds one subclass in its file, registers it in mmengine's root ``MODELS`` and implements
    :meth:`codes`, or takes those of :class:`SignWeight`; where the gradient or the training-time value differs from
    that of ``scale * codes``, also :meth:`forward`.
    Anything else is a method to override: :meth:`set_progress`, :meth:`begin_epoch`, :meth:`constrain`.
    """

    values = Values('other')

    channels_alone: bool = False
    """Whether :meth:`forward` may be given any of the channels, in any order and number: each is quantized by itself
    and has no state. An embedding then quantizes only the rows that a batch names."""

    factors: int | None = None
    """Full-precision numbers that a prediction needs besides the bits of the weights, read by the size report. None
    for what :meth:`codes` gives or, without codes, one per channel and level."""

    def __init__(self, weight_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight_shape = tuple(weight_shape)
        self.follows_weight = True
        """Whether :meth:`start` still has to look at weights that may be initialised after this object was made."""

    def forward(self, weight: Tensor) -> Tensor:
        """The quantized weight in training, differentiable, of the latent weight's shape."""
        codes, scale = self.codes(weight)
        return codes if scale is None else codes * per_channel(scale, weight)

    @property
    def codes_learn(self) -> bool:
        """Whether :meth:`codes` has the gradients of training, so that :meth:`forward` adds nothing to it."""
        return type(self).forward is WeightQuantizer.forward

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """The quantized weight as integers and one factor per output channel, (C_out,).

        In evaluation without gradients the layer convolves with the integers and multiplies the result, so every sum
        is exact and a bit-packed runtime can give the same answer to the last bit; autocast rounds them. Integers are
        floating point, -1 and +1 for one bit; the factor is None for 1, and detached where it is a constant in the
        backward pass.
        """
        raise NotImplementedError(f'{type(self).__name__} has to implement codes(weight) -> (integers, factor)')

    def two_values(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The signs t, half distance h and centre m of each channel's two values in evaluation, :math:`h t + m`."""
        signs, scale = self.codes(weight)
        ones = signs.new_ones(signs.shape[0])
        return signs, ones if scale is None else ones * scale.flatten(), torch.zeros_like(ones)

    def latent(self, weight: Tensor) -> Tensor:
        """Return the values whose signs are the codes: the latent weight, for some methods centred."""
        return weight

    def init_from_weight(self, weight: Tensor) -> None:
        """Start what depends on the latent weight's values; called when those have come from elsewhere."""

    def start(self, weight: Tensor) -> None:
        """Look at the weight a last time before training, unless a checkpoint brought this quantizer's own state."""
        if self.follows_weight:
            self.init_from_weight(weight)
            self.follows_weight = False

    def adopt_weight(self, weight: Tensor, state_loaded: bool) -> None:
        """Called by the layer after a checkpoint filled its weight, and perhaps this quantizer's own state."""
        if not state_loaded:
            self.init_from_weight(weight)
        self.follows_weight = not state_loaded

    def begin_epoch(self, weight: Tensor) -> None:
        """Renew state that is learned outside the gradient; called before every epoch, unless the weight is frozen.

        In a distributed run the buffers are then taken from the first process.
        """

    def before_step(self, weight: Tensor) -> None:
        """Change ``weight.grad`` in place where the method has a rule for it.

        Called before each step of the optimizer that moves the weight, on the gradient as it is about to be used:
        summed over accumulated iterations and processes, unscaled and clipped. A step that AMP skips does not get
        there.
        """

    def after_step(self, weight: Tensor) -> None:
        """Look at what the step changed; called after each that :meth:`before_step` was called for."""

    def constrain(self, weight: Tensor) -> None:
        """Change the latent weight in place where the method bounds it; called before training and after each step."""


class SignWeight(WeightQuantizer):
    r"""Codes that are the signs of :meth:`latent`, which is what almost every method has; it adds :meth:`scale`.

    .. math:: \hat w = s \circ sign(u), \quad u \text{ the latent weight, or what the method makes of it}

    Example:
        >>> SignWeight((1, 3)).codes(torch.tensor([[-0.5, 0.0, 2.0]]))
        (tensor([[-1.,  1.,  1.]]), None)
    """

    values = Values('signs')

    def scale(self, weight: Tensor) -> Tensor | None:
        """The factor of each channel, shape (C_out,), of the latent weight; None for 1."""
        return None

    def signs(self, latent: Tensor) -> Tensor:
        """Signs, with the gradient of the method's estimator where it has one."""
        return sign(latent)

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """:meth:`signs` of :meth:`latent`, and :meth:`scale`."""
        return self.signs(self.latent(weight)), self.scale(weight)


class LearnedScaleWeight(SignWeight):
    r"""Signs times a factor of each channel that is learned, and kept away from 0 after each step of the optimizer.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel.

    Example:
        >>> quantizer = LearnedScaleWeight((1, 2))
        >>> quantizer.init_from_weight(torch.tensor([[1.0, -3.0]]))
        >>> quantizer.codes(torch.tensor([[1.0, -3.0]]))[1].data
        tensor([2.])
    """

    param_roles: ClassVar[dict[str, str]] = {'alpha': 'scale'}

    def __init__(self, weight_shape: tuple[int, ...]) -> None:
        super().__init__(weight_shape)
        self.alpha = nn.Parameter(torch.ones(weight_shape[0]))

    def scale(self, weight: Tensor) -> Tensor:
        return self.alpha

    @torch.no_grad()
    def init_from_weight(self, weight: Tensor) -> None:
        self.alpha.copy_(channel_mean_abs(weight))


class ActivationQuantizer(Quantizer):
    r"""Turns a layer's input into the values it computes with.

    A method adds one subclass in its file, registers it and implements :meth:`quantize`. Every activation
    quantizer can own a learnable shift per channel, :math:`q(x + \beta_c)`: a layer after a ReLU sees no negative
    value, so a sign without a shift is +1 everywhere and nothing is learned. ``shift='mean'`` starts it at minus the
    mean of each channel over one batch of data: the hooks of :mod:`rebnn_mm.engine` show the layer that batch before
    training, :func:`rebnn_mm.layers.calibrate_shifts` does it without mmengine. A shift from a checkpoint is kept.

    Args:
        channels: number of input channels.
        channel_dim: dimension that holds them: -3 for a convolution, with or without a batch; -1 for a linear layer.
        shift: None for no shift, or its start: ``'zero'`` or ``'mean'``.

    Raises:
        ValueError: ``shift`` is none of these.
    """

    param_roles: ClassVar[dict[str, str]] = {'shift': 'shift'}

    values = Values('other')

    stock_shift: ClassVar[str | None] = 'mean'
    """The shift of a layer that is swapped into a network not made for it; None if the method needs none there."""

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = None) -> None:
        super().__init__()
        if shift not in (None, 'zero', 'mean'):
            raise RebnnError(f"{type(self).__name__}: shift={shift!r} is unknown; use None, 'zero' or 'mean'")
        self.channels = channels
        self.channel_dim = channel_dim
        self.shift_start = shift
        self.register_parameter('shift', None if shift is None else nn.Parameter(torch.zeros(channels)))
        self.shift: nn.Parameter | None
        self.needs_calibration = shift == 'mean'
        """Whether :meth:`calibrate` should still see one batch of data before training starts."""

    def forward(self, x: Tensor) -> Tensor:
        """Quantize x of shape (N, C, ...) or, with channel_dim -1, (..., C), to values of its type."""
        if self.training:
            self.warn_if_not_driven()
        shifted = x if self.shift is None else x + self.along_channels(self.shift, x)
        # Under autocast the sum is float32, and so is what the sign looks at; what follows is not to be.
        return self.quantize(shifted).to(x.dtype)

    def quantize(self, x: Tensor) -> Tensor:
        """The method's own function of the shifted input."""
        raise NotImplementedError(f'{type(self).__name__} has to implement quantize(x)')

    def two_values(self) -> tuple[float, float, float]:
        r"""The s, h (at least 0) and m of the values in evaluation, :math:`h \, sign(x + s) + m` of the shifted x."""
        return 0.0, 1.0, 0.0

    def along_channels(self, values: Tensor, x: Tensor) -> Tensor:
        """View one value per channel so that it broadcasts over x."""
        return values.view(-1, *[1] * (x.dim() - 1 - self.channel_dim % x.dim()))

    def sample_dims(self, x: Tensor) -> tuple[int, ...]:
        """The dimensions that belong to one sample: the channels and what follows them."""
        return tuple(range(self.channel_dim % x.dim(), x.dim()))

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        """Set the shift to minus the mean of each channel of x."""
        if self.shift is not None:
            dims = [dim for dim in range(x.dim()) if dim != self.channel_dim % x.dim()]
            self.shift.copy_(-x.float().mean(dim=dims))
        self.needs_calibration = False

    def extra_repr(self) -> str:
        return f'{self.channels}' if self.shift_start is None else f'{self.channels}, shift={self.shift_start!r}'

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        # A shift of another width is not taken.
        if self.shift is not None and holds(state_dict, f'{prefix}shift', self.shift):
            self.needs_calibration = False
