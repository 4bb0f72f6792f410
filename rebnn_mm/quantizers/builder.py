"""Quantizers from config dicts, with errors that say what exists, and checks of the options that several have."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import RebnnError
from ..registry import find_class, list_classes
from ..utils.options import check_options
from .base import ActivationQuantizer, WeightQuantizer

QuantizerConfig = dict[str, Any] | str | None
"""A registered name, a dict with ``type``, or None for no quantization."""

_Q = TypeVar('_Q', WeightQuantizer, ActivationQuantizer)


def build_weight_quantizer(cfg: QuantizerConfig, weight_shape: tuple[int, ...]) -> WeightQuantizer | None:
    """Build a registered weight quantizer for a weight of the given shape.

    Raises:
        ValueError: no weight quantizer has that name, or not that option; the message lists those that exist.

    Example:
        >>> build_weight_quantizer('ReBNNWeight', (8, 4, 3, 3)).alpha.shape
        torch.Size([8])
    """
    return _build(WeightQuantizer, 'weight', cfg, weight_shape=weight_shape)


def build_activation_quantizer(
    cfg: QuantizerConfig, channels: int, channel_dim: int = 1
) -> ActivationQuantizer | None:
    """Build a registered activation quantizer.

    Raises:
        ValueError: no activation quantizer has that name, or not that option; the message lists those that exist.

    Example:
        >>> build_activation_quantizer(dict(type='BinaryRSign', shift='mean'), 16).shift.shape
        torch.Size([16])
    """
    return _build(ActivationQuantizer, 'activation', cfg, channels=channels, channel_dim=channel_dim)


def activation_quantizer_class(cfg: str | dict[str, Any]) -> type[ActivationQuantizer]:
    """The class that a config of an activation quantizer names."""
    return _class_and_options(ActivationQuantizer, 'activation', cfg)[0]


def check_bits(owner: str, bits: int, least: int) -> int:
    """Refuse bits of a value that are no whole number from ``least`` to 8.

    Example:
        >>> check_bits('Q8BERTWeight', 2, least=2)
        2
    """
    if not (isinstance(bits, int) and least <= bits <= 8):
        raise RebnnError(
            f'{owner}: bits={bits!r} must be a whole number from {least} to 8; None as quantizer keeps it real'
        )
    return bits


def _build(base: type[_Q], key: str, cfg: QuantizerConfig, **shape: Any) -> _Q | None:
    if cfg is None:
        return None
    cls, options = _class_and_options(base, key, cfg)
    check_options(f'{key} of type {cls.__name__}', options, cls, base)
    return cls(**shape, **options)


def _class_and_options(base: type[_Q], key: str, cfg: str | dict[str, Any]) -> tuple[type[_Q], dict[str, Any]]:
    if not isinstance(cfg, str | Mapping):
        raise RebnnError(f'{key}={cfg!r} must be the name of a quantizer, a dict with its type, or None')
    options = {'type': cfg} if isinstance(cfg, str) else dict(cfg)
    if 'type' not in options:
        raise RebnnError(f'{key}={cfg!r} has no type; name one of: {", ".join(list_classes(base))}')
    name = options.pop('type')
    return find_class(name, base, f'{key}={name!r} is not a registered {key} quantizer.'), options
