"""Says in one sentence what a stock part of a config's model cannot do, and which part can."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmengine.registry import MODELS

INSTEAD = {
    'SSDVGG': "{key}=dict(_delete_=True, type='BinarySSDVGG', conv_cfg=...)",
    'ResLayer': "{key}=dict(_delete_=True, type='ReBNNResLayer', depth=..., conv_cfg=...)",
    'RPNHead': "{key}=dict(type='rebnn_mm.BinaryRPNHead', conv_cfg=...)",
}
"""Replacements for parts of mmdet that have a counterpart here."""

OTHER_BACKBONE = "another backbone, such as {key}=dict(_delete_=True, type='ReBNNResNet', depth=18, conv_cfg=...)"


def unfit_model(cfg: Mapping[str, Any]) -> str | None:
    """One sentence on the first part of the model that is handed a ``conv_cfg`` it does not take, or cannot predict.

    Classes are looked up, nothing is built. Names that are not registered are left to the build.

    Args:
        cfg: a config with ``model`` and, where it has one, ``default_scope``.

    Example:
        >>> print(unfit_model(dict(model=dict(type='RPReLU', channels=8, conv_cfg=dict(type='ReBNNConv2d')))))
        model: RPReLU takes no conv_cfg, so its layers stay real. Leave model.conv_cfg out.
    """
    with MODELS.switch_scope_and_registry(cfg.get('default_scope')) as registry:
        for key, part in _parts(cfg.get('model'), 'model'):
            kind = registry.get(part['type']) if isinstance(part['type'], str) else part['type']
            if not inspect.isclass(kind):
                continue
            problem = _untaken_conv_cfg(key, part, kind) or _without_loss_cls(key, kind)
            if problem:
                return problem
    return None


def _parts(value: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every dict with a ``type``, with its key in the config, from the outside in."""
    if isinstance(value, Mapping):
        if 'type' in value:
            yield key, value
        for name, inner in value.items():
            yield from _parts(inner, f'{key}.{name}')
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from _parts(inner, f'{key}.{number}')


def _untaken_conv_cfg(key: str, part: Mapping[str, Any], kind: type) -> str | None:
    if 'conv_cfg' not in part or _takes(kind, 'conv_cfg'):
        return None
    last = key.rpartition('.')[2]
    instead = INSTEAD.get(kind.__name__, OTHER_BACKBONE if last == 'backbone' else '').format(key=last)
    use = f', or use {instead}' if instead else ''
    return f'{key}: {kind.__name__} takes no conv_cfg, so its layers stay real. Leave {key}.conv_cfg out{use}.'


def _takes(kind: type, name: str) -> bool:
    """Whether a constructor has the argument, its own or one that it hands on with ``**kwargs``."""
    for cls in kind.__mro__:
        if '__init__' in vars(cls):
            parameters = inspect.signature(vars(cls)['__init__']).parameters
            if name in parameters:
                return True
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
                return False
    return False


def _without_loss_cls(key: str, kind: type) -> str | None:
    if kind.__name__ != 'SSDHead' or not kind.__module__.startswith('mmdet.') or hasattr(kind, 'loss_cls'):
        return None
    return (
        f"{key}: mmdet's SSDHead trains, but validation, testing and inference end in an AttributeError (it has no "
        f"loss_cls). Set {key}.type='rebnn_mm.FixedSSDHead', the same head with that attribute."
    )
