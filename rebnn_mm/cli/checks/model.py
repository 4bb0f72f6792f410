"""Refuses stock parts of a config's model that cannot do what they are asked, and names the part that can."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mmengine.registry import MODELS

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.config_mistake import values_below
from rebnn_mm.utils.options import parameters

INSTEAD = {
    'SSDVGG': "{key}=dict(_delete_=True, type='BinarySSDVGG', conv_cfg=...)",
    'ResLayer': "{key}=dict(_delete_=True, type='BinaryResLayer', depth=..., conv_cfg=...)",
    'RPNHead': "{key}=dict(type='rebnn_mm.BinaryRPNHead', conv_cfg=...)",
}
"""What to write in place of parts of mmdet that have a counterpart here."""

OTHER_BACKBONE = "another backbone, such as {key}=dict(_delete_=True, type='BinaryResNet', depth=18, conv_cfg=...)"


def check_model(cfg: Mapping[str, Any]) -> None:
    """Check that no part is handed a ``conv_cfg`` that it does not take, and that each can predict; build nothing."""
    with MODELS.switch_scope_and_registry(cfg.get('default_scope')) as registry:
        for key, part in values_below(cfg.get('model'), 'model'):
            if not isinstance(part, Mapping) or 'type' not in part:
                continue
            kind = registry.get(part['type']) if isinstance(part['type'], str) else part['type']
            if inspect.isclass(kind):
                _check_conv_cfg(key, part, kind)
                _check_loss_cls(key, kind)


def _check_conv_cfg(key: str, part: Mapping[str, Any], kind: type) -> None:
    if 'conv_cfg' not in part or 'conv_cfg' in parameters(kind):
        return
    last = key.rpartition('.')[2]
    instead = INSTEAD.get(kind.__name__, OTHER_BACKBONE if last == 'backbone' else '').format(key=last)
    use = f', or use {instead}' if instead else ''
    what = f'{kind.__name__} takes no conv_cfg, so its layers keep full precision.'
    raise RebnnError(what, key, f'Leave {key}.conv_cfg out{use}.')


def _check_loss_cls(key: str, kind: type) -> None:
    if kind.__name__ == 'SSDHead' and kind.__module__.startswith('mmdet.') and not hasattr(kind, 'loss_cls'):
        raise RebnnError(
            "mmdet's SSDHead trains, but validation, testing and inference end in an AttributeError (it has no "
            'loss_cls).',
            key,
            f"Set {key}.type='rebnn_mm.FixedSSDHead', the same head with that attribute.",
        )
