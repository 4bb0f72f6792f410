"""Base of binary convolution and binary linear layer."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.module import register_module_module_registration_hook

from ..errors import RebnnError
from ..functional import per_channel
from ..functional.native import autocast_type, holds_values, is_transformed
from ..functional.sign_product import LINEAR, Geometry, compute_scaled_sums, multiply, sign_product, smallest_type
from ..quantizers import ActivationQuantizer, WeightQuantizer, build_activation_quantizer, build_weight_quantizer
from ..quantizers.base import holds
from ..quantizers.builder import QuantizerConfig, activation_quantizer_class
from .memory import MEMORY
from .naming import name_matches

SHORTCUT_NAMES = ('downsample', 'shortcut')
"""Names under which OpenMMLab's backbones hold the convolution of a shortcut."""

IMAGE_CHANNELS = (1, 3)
"""A convolution with so many input channels is taken for the first layer, which sees the image."""


class BinaryLayer(nn.Module):
    """Mixin of a layer with a ``weight``: hands weight and input to quantizers, or keeps full precision.

    A method's own layer is a subclass that names its quantizers (:attr:`method_weight`, :attr:`method_activation`), or
    has those of another layer (``like=...`` after its bases); an argument ``weight`` or ``activation`` of
    ``'default'`` means these. It names its torch layer as a base once more, because mmengine's ``init_cfg``
    (``layer='Conv2d'``) looks at direct bases only.

    A layer that keeps full precision is exactly the torch layer it derives from: no quantizers, no further parameters,
    the same state dict. Why it does is in :attr:`real_because`.

    Attributes:
        weight_quantizer: None where the weight is real.
        activation_quantizer: None where the input is real.
        layer_name: dotted name inside the model, as far as known.
        real_because: why the layer keeps full precision; empty if it does not.
    """

    method_weight: ClassVar[QuantizerConfig] = 'BinaryMeanScaleWeight'
    """The weight quantizer of the layer's method."""

    method_activation: ClassVar[str | dict[str, Any]] = 'BinaryApproxSign'
    """The activation quantizer of the layer's method, in the network structure of its paper."""

    weight: Tensor
    weight_quantizer: WeightQuantizer | None
    activation_quantizer: ActivationQuantizer | None
    _refuses_bias = False

    def __init_subclass__(cls, like: 'type[BinaryLayer] | None' = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if like is not None:
            cls.method_weight, cls.method_activation = like.method_weight, like.method_activation

    def _set_up(
        self,
        weight: QuantizerConfig,
        activation: QuantizerConfig,
        channels: int,
        channel_dim: int,
        keep_real: Sequence[str] | Literal[False],
        memory: str = 'plain',
    ) -> None:
        """Second half of ``__init__``, once the torch layer exists."""
        if keep_real is not False and not isinstance(keep_real, list | tuple):
            fix = f'a list of names, {[keep_real]}' if isinstance(keep_real, str) else 'a list of names, or False'
            raise RebnnError(f'{type(self).__name__}: keep_real={keep_real!r} must be {fix}')
        if memory not in MEMORY:
            raise RebnnError(f'{type(self).__name__}: memory={memory!r} is unknown; use one of {", ".join(MEMORY)}')
        self.memory = memory
        self._knows_training_values = False
        self.layer_name = ''
        self.real_because = ''
        self.rules_hold = keep_real is not False
        self.keep_real = tuple(keep_real or ())
        if weight == 'default':
            weight = self.method_weight
        if activation == 'default':
            activation = self.stock_activation()
        self.weight_quantizer = build_weight_quantizer(weight, tuple(self.weight.shape))
        self.activation_quantizer = build_activation_quantizer(activation, channels, channel_dim)
        if self.weight_quantizer is not None:
            if not self.weight.is_meta:
                self.weight_quantizer.init_from_weight(self.weight)
        elif self.activation_quantizer is None:
            self.stay_real('no quantizers')
        _watch_names()
        self._refuses_bias = self._parameters.get('bias') is None

    @classmethod
    def activation_with(cls, shift: str | None) -> dict[str, Any]:
        """The method's activation quantizer with this shift; block styles choose it."""
        options = {'type': cls.method_activation} if isinstance(cls.method_activation, str) else cls.method_activation
        return dict(options, shift=shift)

    @classmethod
    def stock_activation(cls) -> dict[str, Any]:
        """The method's activation quantizer for a network that was not made for it."""
        return cls.activation_with(activation_quantizer_class(cls.method_activation).stock_shift)

    @property
    def binary(self) -> bool:
        """Whether the layer quantizes anything."""
        return not self.real_because

    @property
    def weight_bits(self) -> int:
        return 32 if self.weight_quantizer is None else self.weight_quantizer.bits

    @property
    def activation_bits(self) -> int:
        return 32 if self.activation_quantizer is None else self.activation_quantizer.bits

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Refuse a bias where none was or after a rescaled weight, as a folded norm gives, and what pruning makes."""
        before = self._parameters.get(name)
        if name == 'weight_orig' and param is not None and self.weight_quantizer is not None:
            raise self.computed_error()
        if name == 'weight' and before is not None and param is not None:
            self._refuses_bias = self._parameters.get('bias') is None or _is_rescaled(param, before)
        if name == 'bias' and param is not None and self._refuses_bias and self.binary:
            raise RuntimeError(
                f'{self.describe()}: is given a bias, as fuse_conv_bn (--fuse-conv-bn) does when it folds a batch '
                "norm into the latent weight. That flips signs wherever the norm's weight is negative: load the model "
                'again and leave its norms in place.'
            )
        super().register_parameter(name, param)

    def stay_real(self, because: str) -> None:
        """Become the plain torch layer."""
        self.real_because = because
        self.weight_quantizer = None
        self.activation_quantizer = None

    def take_name(self, name: str) -> None:
        """Learn the dotted name; keep full precision if it is one of ``keep_real``."""
        self.layer_name = name.removeprefix('module.')
        pattern = name_matches(name, self.keep_real)
        if pattern is not None and self.binary:
            what = 'shortcut' if pattern in SHORTCUT_NAMES else 'named in keep_real'
            self.stay_real(f'{what} ({pattern})')

    def computed_error(self) -> RebnnError:
        """Why no other parameters may make the weight: a pruned one of 0 would count as +1."""
        return RebnnError(
            f'{self.describe()}: its weight is computed of other parameters (weight_norm, pruning, another '
            'parametrization), and its signs come from the latent weight itself. Leave that out.'
        )

    def describe(self) -> str:
        """Class and name, to begin an error message with."""
        return f'{type(self).__name__} {self.layer_name!r}' if self.layer_name else type(self).__name__

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if self.weight_quantizer is not None and f'{prefix}weight' in state_dict:
            quantizer = self.weight_quantizer
            # Of another method's state what this one learns may be missing; a weight of another shape has not come.
            own = f'{prefix}weight_quantizer.'
            names = dict(quantizer.named_parameters()) or quantizer.state_dict()
            fits = holds(state_dict, f'{prefix}weight', self.weight)
            quantizer.adopt_weight(self.weight, fits and any(holds(state_dict, own + n, names[n]) for n in names))

    def _warn_if_not_driven(self) -> None:
        if self.weight_quantizer is not None and self.weight.requires_grad:
            self.weight_quantizer.warn_if_not_driven()

    @property
    def _geometry(self) -> Geometry:
        """Geometry of the convolution; that of a product for other layers."""
        return LINEAR

    def _along_outputs(self, values: Tensor) -> Tensor:
        """View one value per output so that it broadcasts over the layer's output."""
        return values.view(-1, 1, 1) if self._geometry.stride else values

    def _quantize_input(self, x: Tensor) -> Tensor:
        return x if self.activation_quantizer is None else self.activation_quantizer(x)

    def forward(self, x: Tensor) -> Tensor:
        if not self.binary:
            return cast(Tensor, super().forward(x))
        if isinstance(x, fx.Proxy):  # one node, as torch's own layers are
            tracer = cast(fx.Tracer, x.tracer)
            return cast(Tensor, tracer.create_proxy('call_module', tracer.path_of_module(self), (x,), {}))
        if not x.is_floating_point():
            raise RebnnError(f'{self.describe()}: its input is {x.dtype}; a sign needs real numbers, x.float().')
        if self.training:
            if torch.compiler.is_exporting() and torch.is_grad_enabled():
                raise RebnnError(
                    f'{self.describe()}: torch.export drops the gradients of signs, so what it writes cannot learn. '
                    'Export in evaluation mode: model.eval().'
                )
            self._warn_if_not_driven()
        bias = getattr(self, 'bias', None)
        y = self._product(self._quantize_input(x))
        return y if bias is None else (y + self._along_outputs(bias)).to(y.dtype)

    def _product(self, values: Tensor) -> Tensor:
        quantizer = self.weight_quantizer
        if quantizer is None or not self._computes_with_codes:
            return multiply(values, self.weight if quantizer is None else quantizer(self.weight), self._geometry)
        # Replicas of nn.DataParallel have a weight and no parameters.
        own = (values, self.weight, *self.parameters())
        # What is written down for later has no gradient of signs, but the products of evaluation.
        written = torch.jit.is_tracing() or torch.compiler.is_exporting()
        learns = torch.is_grad_enabled() and not written and any(t.requires_grad for t in own)
        exact = self._sums_signs and not is_transformed()
        weight = quantizer(self.weight) if learns and not (exact and quantizer.codes_learn) else None
        if learns and not self._knows_training_values and holds_values(values):
            self._check_training_values(values, weight)
        if weight is not None and not exact:
            return multiply(values, weight, self._geometry)
        with torch.set_grad_enabled(learns and weight is None):
            codes, factor = quantizer.codes(self.weight)
        if weight is not None and factor is not None:
            factor = factor.detach()  # a parameter, whose gradient goes through the weight
        if not exact:
            product = multiply(values, codes, self._geometry)
            # Under autocast the second product is float32, and the layer's output is not to be.
            return product if factor is None else (product * self._along_outputs(factor)).to(product.dtype)
        compute = autocast_type(values)
        if not learns:
            return compute_scaled_sums(values, codes, factor, self._geometry, compute, compute)
        kept = smallest_type(self._largest_sum, compute) if self.memory == 'sums' else compute
        return sign_product(values, weight, codes, factor, self._geometry, compute, kept)

    @torch.no_grad()
    def _check_training_values(self, quantized: Tensor, weight: Tensor | None) -> None:
        """Refuse, in the first step, quantizers that train with other values than they say."""
        wrong: nn.Module | None = None
        if self._sums_signs and not (quantized.abs() == 1).all():
            wrong = self.activation_quantizer
        elif weight is not None and self.weight_quantizer is not None:
            codes, factor = self.weight_quantizer.codes(self.weight)
            expected = codes if factor is None else codes * per_channel(factor, codes)
            if not torch.allclose(weight, expected.to(weight.dtype), rtol=1e-2, atol=1e-6, equal_nan=True):
                wrong = self.weight_quantizer
        if wrong is not None:
            raise RebnnError(
                f'{self.describe()}: {type(wrong).__name__} gives other values in training than in evaluation; '
                'declare values = Values(..., same_in_training=False) in that class.'
            )
        self._knows_training_values = True

    @property
    def _computes_with_codes(self) -> bool:
        quantizer = self.weight_quantizer
        if quantizer is None or quantizer._forward_hooks or quantizer._forward_pre_hooks:
            return False
        return quantizer.values.has_codes and (quantizer.values.same_in_training or not self.training)

    @property
    def _sums_signs(self) -> bool:
        """Whether the product is a sum of signs, with no zeros among them but those of its own padding."""
        quantizer = self.activation_quantizer
        # A hook may hand on other values.
        changed = quantizer is not None and bool(quantizer._forward_hooks)
        return math.isfinite(self._largest_sum) and not changed

    @property
    def _largest_sum(self) -> float:
        """The largest magnitude of a sum of products where inputs are signs, too; else infinite."""
        quantizers = self.weight_quantizer, self.activation_quantizer
        if any(quantizer is None or quantizer.values.kind != 'signs' for quantizer in quantizers):
            return math.inf
        assert self.activation_quantizer is not None
        same = self.activation_quantizer.values.same_in_training or not self.training
        return self.weight[0].numel() if same else math.inf

    def extra_repr(self) -> str:
        bits = f'W{self.weight_bits}A{self.activation_bits}' if self.binary else f'real: {self.real_because}'
        return f'{super().extra_repr()}, {bits}'


class _KeptBranches:
    """Stands for ``switch_to_deploy`` of a module, which folds the branches of RepVGG and its like into one layer."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self) -> None:
        for layer in self.module.modules():
            if isinstance(layer, BinaryLayer) and layer.binary:
                raise RebnnError(
                    f'{layer.describe()}: switch_to_deploy folds latent weights, not their signs, into another layer. '
                    'Leave it out: the exporter packs the branches as they are.'
                )
        cast(Any, type(self.module)).switch_to_deploy(self.module)


def keep_branches(module: nn.Module) -> None:
    """Let a module that holds a binary layer refuse to be folded."""
    if hasattr(type(module), 'switch_to_deploy'):
        vars(module)['switch_to_deploy'] = _KeptBranches(module)


@torch.no_grad()
def _is_rescaled(weight: Tensor, before: Tensor) -> bool:
    """Whether a weight is another one with each channel times a number."""
    if weight.shape != before.shape or weight.shape[1:].numel() == 1 or not holds_values(weight, before):
        return False
    pairs = (weight, before), (weight, weight), (before, before)
    product, squares, others = ((a.double() * b).flatten(1).sum(1) for a, b in pairs)
    # But for the rounding of each weight: those that a step has moved, as of another checkpoint, are further away.
    rtol = max(4 * torch.finfo(weight.dtype).eps ** 2, 1e-12)
    return not torch.equal(weight, before) and torch.allclose(product**2, squares * others, rtol=rtol, atol=0)


@cache
def _watch_names() -> None:
    """Tell layers what they are called inside a model, from now on.

    A config hands a convolution its sizes but never its name, by which alone shortcuts can often be told. PyTorch
    calls this hook for every module that is given to another one, from the inside out, so a layer learns ``0``, then
    ``downsample.0`` and so on. Nothing else runs while a model of any library is built.
    """
    register_module_module_registration_hook(_tell_names)


def _tell_names(parent: nn.Module, name: str, child: nn.Module | None) -> None:
    for inner, module in child.named_modules() if child is not None else ():
        if isinstance(module, BinaryLayer):
            module.take_name(f'{name}.{inner}' if inner else name)
            keep_branches(parent)
    if name == 'backbone' and child is not None:
        convs = [module for module in child.modules() if isinstance(module, nn.Conv2d)]
        # YOLOX's first layer cannot tell by its channels: it sees the image cut into squares, 12 of them.
        if convs and not any(conv.in_channels in IMAGE_CHANNELS for conv in convs):
            first = convs[0]
            if isinstance(first, BinaryLayer) and first.binary and first.rules_hold:
                first.stay_real(f'first layer of the backbone ({first.in_channels} input channels)')
