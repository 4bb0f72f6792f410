"""Parameter groups by role."""

import inspect
from typing import Any

from mmengine.logging import print_log
from mmengine.optim import DefaultOptimWrapperConstructor
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIMIZERS
from torch import nn

from .roles import NORM, ROLES, WITHOUT_DECAY, parameter_roles


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class ReBNNOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """Groups parameters by role and keeps weight decay off scaling factors, shifts, slopes and norms.

    One group per role (:mod:`rebnn_mm.engine.roles`) and set of options, one log line per group. Everything that
    mmengine's own constructor knows in ``paramwise_cfg`` keeps its meaning and wins: ``custom_keys`` over all, and
    ``norm_decay_mult`` for norms. The type of the OptimWrapper is left alone, so ``--amp`` works.

    Args:
        optim_wrapper_cfg: as in mmengine.
        paramwise_cfg: as in mmengine.

    Example:
        >>> from rebnn_mm.engine.roles import parameter_roles
        >>> from rebnn_mm.layers import ReBNNConv2d
        >>> sorted(set(parameter_roles(ReBNNConv2d(8, 8, 3, bias=False)).values()))
        ['latent weight', 'scaling factor', 'shift and slope']
        >>> ReBNNOptimWrapperConstructor(dict(optimizer=dict(type='SGD', lr=0.1))).base_lr
        0.1
    """

    def __init__(self, optim_wrapper_cfg: dict[str, Any], paramwise_cfg: dict[str, Any] | None = None) -> None:
        # Not empty, because mmengine would then put all parameters into one group; and shared layers count once there.
        super().__init__(optim_wrapper_cfg, {'bypass_duplicate': True, **(paramwise_cfg or {})})

    def add_params(
        self, params: list[dict[str, Any]], module: nn.Module, prefix: str = '', is_dcn_module: Any = None
    ) -> None:
        """Let mmengine make its groups for the whole model, then merge them by role."""
        super().add_params(params, module, prefix, is_dcn_module)
        if prefix:
            return
        roles = parameter_roles(module)
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        merged: dict[Any, dict[str, Any]] = {}
        for group in params:
            (parameter,) = group['params']
            options = {key: value for key, value in group.items() if key != 'params'}
            role = roles[id(parameter)]
            if self._drop_decay(role, names[id(parameter)]):
                options['weight_decay'] = 0.0
            key = (role, tuple(sorted((name, repr(value)) for name, value in options.items())))
            merged.setdefault(key, {'params': [], 'role': role, **options})['params'].append(parameter)
        params[:] = sorted(merged.values(), key=lambda group: ROLES.index(group['role']))
        for group in params:
            print_log(self._described(group), logger='current')

    def _drop_decay(self, role: str, name: str) -> bool:
        if role not in WITHOUT_DECAY or any(key in name for key in self.paramwise_cfg.get('custom_keys', {})):
            return False
        if role == NORM and 'norm_decay_mult' in self.paramwise_cfg:
            return False
        return self._has_decay()

    def _has_decay(self) -> bool:
        with OPTIMIZERS.switch_scope_and_registry(None) as registry:
            kind = self.optimizer_cfg['type']
            cls = registry.get(kind) if isinstance(kind, str) else kind
        return 'weight_decay' in inspect.signature(cls).parameters

    def _described(self, group: dict[str, Any]) -> str:
        values = sum(parameter.numel() for parameter in group['params'])
        hidden = ('params', 'role')
        options = {'lr': self.base_lr, 'weight_decay': self.base_wd, **group}
        shown = ', '.join(
            f'{key} {value}' for key, value in options.items() if key not in hidden and value is not None
        )
        return f'optimizer group {group["role"]!r}: {len(group["params"])} parameters, {values:,} values, {shown}'
