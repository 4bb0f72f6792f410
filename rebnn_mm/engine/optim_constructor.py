"""Parameter groups by role: what each parameter of a binary network is for, and the rate and decay it gets."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.optim import DefaultOptimWrapperConstructor
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIMIZERS
from mmengine.utils.dl_utils.parrots_wrapper import _BatchNorm, _InstanceNorm
from torch import nn
from torch.optim import Optimizer

from ..errors import RebnnError, did_you_mean
from ..layers import BinaryLayer

LATENT, SCALE, SHIFT, NORM, REST = 'latent weight', 'scaling factor', 'shift and slope', 'norm', 'rest'
ROLES = (LATENT, SCALE, SHIFT, NORM, REST)

WITHOUT_DECAY = (SCALE, SHIFT, NORM)
"""Roles that weight decay would pull away from what they are for."""

_DECLARED = {'scale': SCALE, 'shift': SHIFT}


def parameter_roles(model: nn.Module) -> dict[int, str]:
    """The role of every parameter, by ``id``.

    - latent weight: the weight of a layer that binarizes it;
    - scaling factor, shift and slope: what a module declares in ``param_roles``, and PReLU slopes;
    - norm: weight and bias of normalisation layers;
    - rest: everything else, such as real weights and biases.
    """
    roles: dict[int, str] = {}
    for module in model.modules():
        declared = getattr(module, 'param_roles', {})
        for name, parameter in module.named_parameters(recurse=False):
            if name in declared:
                role = _DECLARED[declared[name]]
            elif isinstance(module, BinaryLayer) and name == 'weight' and module.weight_quantizer is not None:
                role = LATENT
            elif isinstance(module, nn.PReLU):
                role = SHIFT
            elif isinstance(module, _BatchNorm | _InstanceNorm | nn.GroupNorm | nn.LayerNorm):
                role = NORM
            else:
                role = REST
            roles.setdefault(id(parameter), role)
    return roles


ROLE_OPTIONS = ('lr_mult', 'decay_mult')

OPTIONS = (
    'bias_lr_mult', 'bias_decay_mult', 'norm_decay_mult', 'dwconv_decay_mult', 'flat_decay_mult', 'dcn_offset_lr_mult',
    'custom_keys', 'bypass_duplicate', 'roles',
)  # fmt: skip
"""Keys of ``paramwise_cfg``; all but the last are mmengine's, which ignores unknown ones silently."""

REFERENCE_MAGNITUDE = 0.01
"""The mean magnitude at which a layer of latent weights trains at the rate of the config, ``lr * lr_mult``."""

LONGEST_WALK = 0.5
"""Adam's rate of latent weights times the square root of the number of steps is at most this; see below."""

RELATIVE, APPLIED = 'relative', 'relative_applied'
"""Keys of a parameter group: whether its rate is to follow the magnitude of its weights, and the factor it got."""


@OPTIM_WRAPPER_CONSTRUCTORS.register_module(name=['BinaryOptimWrapperConstructor', 'ReBNNOptimWrapperConstructor'])
class BinaryOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    r"""Groups parameters by role and keeps weight decay off scaling factors, shifts, slopes and norms.

    One group per role (:func:`parameter_roles`) and set of options, one log line per group. Everything that mmengine's
    own constructor knows in ``paramwise_cfg`` keeps its meaning and wins: a custom key over a role in what it names,
    ``lr_mult``, ``decay_mult`` or ``relative``, and ``norm_decay_mult`` for norms. One entry is added, ``roles``:
    options for all parameters of a role, by its name with spaces or underscores, as in
    ``roles=dict(latent_weight=dict(lr_mult=4))``.

    Only the sign of a latent weight is used, so what a step is worth depends on the size of the weight it moves: with
    weights ten times as large signs need ten times as many steps to change. The rate of latent weights therefore
    follows their magnitude, layer by layer:

    .. math:: lr_l = lr \cdot lr\_mult \cdot \frac{mean |w_l|}{0.01}

    with the weights as they are when training starts (:func:`apply_relative_rates`, called by the method's hook). With
    Adam at a rate of 1e-3 a step then moves a weight by up to a tenth of the mean magnitude in every layer, whatever
    initialisation or checkpoint it comes from. ``relative=False`` keeps ``lr * lr_mult``. Schedules multiply these
    rates; an absolute ``eta_min``, one number for all groups, becomes its ratio to ``lr``.

    Nothing pulls a latent weight back, so over T steps of Adam it walks about :math:`lr_l \sqrt{T / 3}` away while the
    rate falls to 0 linearly, and beyond 1 it gets no gradient. For optimizers of Adam's kind the rate is therefore at
    most :math:`0.5 / \sqrt T`: 6e-4 in the 640,000 steps of an ImageNet recipe.

    Args:
        paramwise_cfg: as in mmengine, with ``roles``: for each role ``lr_mult`` and ``decay_mult``, and for the latent
            weights ``relative`` (default True).

    Raises:
        ValueError: a role or an option that does not exist, options of another constructor among them; the message
            names the nearest one.

    Example:
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> sorted(set(parameter_roles(ReBNNConv2d(8, 8, 3, bias=False)).values()))
        ['latent weight', 'scaling factor', 'shift and slope']
    """

    def __init__(self, optim_wrapper_cfg: dict[str, Any], paramwise_cfg: dict[str, Any] | None = None) -> None:
        paramwise_cfg = dict(paramwise_cfg or {})
        for option in paramwise_cfg:
            if option not in OPTIONS:
                raise RebnnError(
                    f'BinaryOptimWrapperConstructor: paramwise_cfg has no option {option!r}. '
                    f'{_nearest(option, OPTIONS)} '
                    'Options of the constructor that a config had before, as for rates by layer, do nothing here: '
                    'begin with paramwise_cfg=dict(_delete_=True, ...).'
                )
        self.role_options = _check_roles(paramwise_cfg.pop('roles', {}))
        # Not empty, because mmengine would then put all parameters into one group; and shared layers count once there.
        super().__init__(optim_wrapper_cfg, {'bypass_duplicate': True, **paramwise_cfg})
        self.optimizer_class = _optimizer_class(self.optimizer_cfg['type'])
        if self.base_lr is None and any('lr_mult' in options for options in self.role_options.values()):
            raise RebnnError(f'{type(self).__name__}: lr_mult multiplies optimizer.lr, which is not given.')

    def add_params(
        self, params: list[dict[str, Any]], module: nn.Module, prefix: str = '', is_dcn_module: Any = None
    ) -> None:
        """Let mmengine make its groups for the whole model, then merge them by role."""
        super().add_params(params, module, prefix, is_dcn_module)
        if prefix:
            return
        roles = parameter_roles(module)
        merged: dict[Any, dict[str, Any]] = {}
        for group in params:
            (parameter,) = group['params']
            options = {key: value for key, value in group.items() if key != 'params'}
            role = roles[id(parameter)]
            options.update(self._options_of(role, options))
            # A relative rate is that of one layer.
            alone = id(parameter) if options.get(RELATIVE) else None
            key = (role, alone, tuple(sorted((name, repr(value)) for name, value in options.items())))
            merged.setdefault(key, {'params': [], 'role': role, **options})['params'].append(parameter)
        # Real weights come first, because the first group's rate is the one that mmengine logs.
        params[:] = sorted(merged.values(), key=lambda group: -ROLES.index(group['role']))
        for lines in _describe_together(params):
            print_log(self._describe(lines), logger='current')

    def _options_of(self, role: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """Options that a role adds to those that mmengine found for the parameter."""
        given = self.role_options.get(role, {})
        options: dict[str, Any] = {}
        # mmengine notes the options of a custom key, its factors with them, in the group.
        if 'lr_mult' in given and 'lr_mult' not in own and own.get('lr', self.base_lr) == self.base_lr:
            options['lr'] = self.base_lr * given['lr_mult']
        own_decay = 'decay_mult' in own or own.get('weight_decay', self.base_wd) != self.base_wd
        if not own_decay and not (role == NORM and 'norm_decay_mult' in self.paramwise_cfg):
            if 'decay_mult' in given and self.base_wd is not None:
                options['weight_decay'] = self.base_wd * given['decay_mult']
            elif role in WITHOUT_DECAY and 'weight_decay' in inspect.signature(self.optimizer_class).parameters:
                options['weight_decay'] = 0.0
        if role == LATENT and given.get(RELATIVE, True) and self.base_lr is not None and RELATIVE not in own:
            options[RELATIVE] = True
        return options

    def _describe(self, groups: Sequence[dict[str, Any]]) -> str:
        parameters = [parameter for group in groups for parameter in group['params']]
        values = sum(parameter.numel() for parameter in parameters)
        hidden = ('params', 'role', RELATIVE)
        options = {'lr': self.base_lr, 'weight_decay': self.base_wd, **groups[0]}
        shown = ', '.join(
            f'{key} {value}' for key, value in options.items() if key not in hidden and value is not None
        )
        if options.get(RELATIVE):
            shown += f', times mean(abs(w)) / {REFERENCE_MAGNITUDE} of each layer when training starts'
        return f'optimizer group {options["role"]!r}: {len(parameters)} parameters, {values:,} values, {shown}'


@torch.no_grad()
def apply_relative_rates(
    optimizer: Optimizer, schedulers: Sequence[Any] = (), steps: int | None = None
) -> tuple[float, float] | None:
    r"""Multiply the rate of each relative group by mean(\|w\|) / 0.01 of its weights, once.

    Called when the weights are those that training starts from, with mmengine's schedulers, which remember rates, and
    the steps of the whole training: rates of optimizers of Adam's kind stay below 0.5 over its square root. A group
    that has its factor, as after resuming, is left alone. Returns the smallest and the largest rate that a group got,
    None where none changed.
    """
    rates = []
    for index, group in enumerate(optimizer.param_groups):
        if not group.get(RELATIVE) or APPLIED in group:
            continue
        (weight,) = group['params']
        # Weights that are all zero have no magnitude to follow.
        factor = float(weight.detach().double().abs().mean()) / REFERENCE_MAGNITUDE or 1.0
        rate = group.get('initial_lr', group['lr'])
        if steps and 'betas' in group and rate * factor * steps**0.5 > LONGEST_WALK:
            factor = LONGEST_WALK / rate / steps**0.5
        group[APPLIED] = factor
        for key in ('lr', 'initial_lr', 'max_lr', 'min_lr'):
            if key in group:
                group[key] *= factor
        for scheduler in schedulers:
            if scheduler.param_name != 'lr':
                continue
            # ReduceOnPlateauLR remembers none: it multiplies the rate of the group.
            if hasattr(scheduler, 'base_values'):
                scheduler.base_values[index] *= factor
            if hasattr(scheduler, 'min_values'):
                scheduler.min_values[index] *= factor
            if getattr(scheduler, 'eta_min_ratio', 0) is None:
                scheduler.eta_min, scheduler.eta_min_ratio = None, scheduler.eta_min / optimizer.defaults['lr']
        rates.append(group.get('initial_lr', group['lr']))
    followed = any(APPLIED in group for group in optimizer.param_groups)
    for scheduler in schedulers:
        # After resuming as well: a checkpoint has the state of a scheduler, not its class.
        kind = type(scheduler)
        absolute = hasattr(scheduler, 'eta_min') and not hasattr(scheduler, 'eta_min_ratio')
        if followed and scheduler.param_name == 'lr' and absolute and not issubclass(kind, _SharedMinimum):
            scheduler.__class__ = type(kind.__name__, (_SharedMinimum, kind), {})
    return (min(rates), max(rates)) if rates else None


class _SharedMinimum:
    """Convert a scheduler with one ``eta_min`` for all groups: each rate falls to the same share of its start."""

    eta_min: float
    base_values: list[float]
    optimizer: Any

    def _get_value(self) -> list[float]:
        given, values = self.eta_min, []
        try:
            for index, base in enumerate(self.base_values):
                self.eta_min = given * base / self.optimizer.defaults['lr']
                values.append(super()._get_value()[index])  # type: ignore[misc]
        finally:
            self.eta_min = given
        return values


def _describe_together(groups: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Groups that differ in their parameters only stand in one line."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        options = {key: value for key, value in group.items() if key != 'params'}
        lines.setdefault(repr(sorted(options.items())), []).append(group)
    return list(lines.values())


def _optimizer_class(kind: Any) -> Any:
    with OPTIMIZERS.switch_scope_and_registry(None) as registry:
        found = registry.get(kind) if isinstance(kind, str) else kind
        names = [*registry.module_dict, *OPTIMIZERS.module_dict]
    if found is None:
        raise RebnnError(f'no optimizer {kind!r} is registered.', fix=did_you_mean(kind, names, 0.0))
    return found


def _check_roles(roles: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    where = 'BinaryOptimWrapperConstructor: paramwise_cfg.roles'
    if not isinstance(roles, Mapping) or not all(isinstance(options, Mapping) for options in roles.values()):
        raise RebnnError(
            f'{where}={roles!r}; it is to be a dict of dicts, such as roles=dict(latent_weight=dict(lr_mult=4)).'
        )
    checked = {}
    for name, options in roles.items():
        role = name.replace('_', ' ')
        if role not in ROLES:
            raise RebnnError(f'{where} has no role {name!r}. {_nearest(role, ROLES)}')
        allowed = (*ROLE_OPTIONS, RELATIVE) if role == LATENT else ROLE_OPTIONS
        for option, value in options.items():
            if option not in allowed:
                raise RebnnError(f'{where}[{name!r}] has no option {option!r}. {_nearest(option, allowed)}')
            if not isinstance(value, (int, float)):
                kind = 'True or False' if option == RELATIVE else 'a number'
                raise RebnnError(f'{where}[{name!r}] has {option}={value!r}; it is to be {kind}.')
        checked[role] = dict(options)
    return checked


def _nearest(name: str, known: Sequence[str]) -> str:
    return f'{did_you_mean(name, known, 0.0)} It knows {", ".join(map(repr, known))}.'
