"""What binary convolution and binary linear layer have in common."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..quantizers import ActivationQuantizer, WeightQuantizer, build_activation_quantizer, build_weight_quantizer
from ..quantizers.builder import QuantizerConfig, activation_quantizer_class
from .naming import Named, name_matches, watch_names

SHORTCUT_NAMES = ('downsample', 'shortcut')
"""Names under which OpenMMLab's backbones hold the convolution of a shortcut."""


class BinaryLayer(Named, nn.Module):
    """Mixin of a layer with a ``weight``: hands weight and input to quantizers, or stays real.

    A method's own layer is a subclass that names its quantizers (:attr:`method_weight`, :attr:`method_activation`); an
    argument ``weight`` or ``activation`` of ``'default'`` means these. It names its torch layer as a base once more,
    because mmengine's ``init_cfg`` (``layer='Conv2d'``) looks at direct bases only.

    A layer that stays real is exactly the torch layer it derives from: no quantizers, no further parameters, the same
    state dict. Why it does is in :attr:`real_because`.

    Attributes:
        weight_quantizer: None where the weight is real.
        activation_quantizer: None where the input is real.
        layer_name: dotted name inside the model, as far as known.
        real_because: why the layer stays real; empty if it does not.
    """

    method_weight: ClassVar[QuantizerConfig] = 'BinaryMeanScaleWeight'
    """The weight quantizer of the layer's method."""

    method_activation: ClassVar[str | dict[str, Any]] = 'BinaryApproxSign'
    """The activation quantizer of the layer's method, in the network structure of its paper."""

    weight: Tensor
    weight_quantizer: WeightQuantizer | None
    activation_quantizer: ActivationQuantizer | None

    def _set_up(
        self,
        weight: QuantizerConfig,
        activation: QuantizerConfig,
        channels: int,
        channel_dim: int,
        keep_real: Sequence[str] | bool,
    ) -> None:
        """Second half of ``__init__``, once the torch layer exists."""
        if isinstance(keep_real, str):
            raise ValueError(
                f'{type(self).__name__}: keep_real={keep_real!r} must be a list of names, [{keep_real!r}]'
            )
        self.layer_name = ''
        self.real_because = ''
        self.keep_real = tuple(keep_real) if keep_real and keep_real is not True else ()
        if weight == 'default':
            weight = self.method_weight
        if activation == 'default':
            activation = self.stock_activation()
        self.weight_quantizer = build_weight_quantizer(weight, tuple(self.weight.shape))
        self.activation_quantizer = build_activation_quantizer(activation, channels, channel_dim)
        if self.weight_quantizer is not None:
            self.weight_quantizer.init_from_weight(self.weight)
        elif self.activation_quantizer is None:
            self.stay_real('no quantizers')
        watch_names()
        self.__dict__['_weight_is_ours'] = True

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
        """Bits per weight; 32 for a real one."""
        return 32 if self.weight_quantizer is None else self.weight_quantizer.bits

    @property
    def activation_bits(self) -> int:
        """Bits per input value; 32 for a real one."""
        return 32 if self.activation_quantizer is None else self.activation_quantizer.bits

    def stay_real(self, because: str) -> None:
        """Become the plain torch layer."""
        self.real_because = because
        self.weight_quantizer = None
        self.activation_quantizer = None

    def take_name(self, name: str) -> None:
        """Learn the dotted name; stay real if it is one of ``keep_real``."""
        self.layer_name = name.removeprefix('module.')
        pattern = name_matches(name, self.keep_real)
        if pattern is not None and self.binary:
            what = 'shortcut' if pattern in SHORTCUT_NAMES else 'named in keep_real'
            self.stay_real(f'{what} ({pattern})')

    def described(self) -> str:
        """Class and name, to begin an error message with."""
        return f'{type(self).__name__} {self.layer_name!r}' if self.layer_name else type(self).__name__

    def __setattr__(self, name: str, value: Any) -> None:
        replaced = name == 'weight' and type(value) is nn.Parameter and value is not self._parameters.get('weight')
        if replaced and self.__dict__.get('_weight_is_ours') and self.binary:
            raise RuntimeError(
                f'{self.described()}: the latent weight cannot be replaced. Folding a batch norm into it '
                "(fuse_conv_bn, --fuse-conv-bn) would flip signs wherever the norm's weight is negative: leave the "
                'norm in place. To change values, write into layer.weight.data.'
            )
        super().__setattr__(name, value)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # load_state_dict(assign=True) puts the loaded tensor in the weight's place.
        self.__dict__['_weight_is_ours'] = False
        try:
            super()._load_from_state_dict(state_dict, prefix, *args)
        finally:
            self.__dict__['_weight_is_ours'] = True
        if self.weight_quantizer is not None and f'{prefix}weight' in state_dict:
            own = f'{prefix}weight_quantizer.'
            self.weight_quantizer.weight_loaded(self.weight, any(key.startswith(own) for key in state_dict))

    def _quantized_input(self, x: Tensor) -> Tensor:
        return x if self.activation_quantizer is None else self.activation_quantizer(x)

    def _training_weight(self) -> Tensor:
        """The weight to compute with where gradients are wanted, or where there are no integer codes."""
        if self.weight_quantizer is None:
            return self.weight
        if self.training and self.weight.requires_grad:
            self.weight_quantizer.warn_if_not_driven()
        return self.weight_quantizer(self.weight)

    @property
    def _computes_with_codes(self) -> bool:
        quantizer = self.weight_quantizer
        if self.training or quantizer is None or not quantizer.has_codes:
            return False
        # Codes hand no gradient on.
        return not (torch.is_grad_enabled() and any(p.requires_grad for p in (self.weight, *quantizer.parameters())))

    def extra_repr(self) -> str:
        """The torch layer's description and the bits, or why the layer is real."""
        bits = f'W{self.weight_bits}A{self.activation_bits}' if self.binary else f'real: {self.real_because}'
        return f'{super().extra_repr()}, {bits}'
