"""What each parameter of a binary network is for."""

from mmengine.utils.dl_utils.parrots_wrapper import _BatchNorm, _InstanceNorm
from torch import nn

from ..layers import BinaryLayer

LATENT, SCALE, SHIFT, NORM, REST = 'latent weight', 'scaling factor', 'shift and slope', 'norm', 'rest'
ROLES = (LATENT, SCALE, SHIFT, NORM, REST)

WITHOUT_DECAY = (SCALE, SHIFT, NORM)
"""Roles that weight decay would pull away from what they are for."""

_DECLARED = {'scale': SCALE, 'shift': SHIFT}


def parameter_roles(model: nn.Module) -> dict[int, str]:
    """The role of every parameter, by ``id``.

    - latent weight: the weight of a layer that binarises it;
    - scaling factor, shift and slope: what a module declares in ``param_roles``, and PReLU slopes;
    - norm: weight and bias of normalisation layers;
    - rest: everything else, such as real weights and biases.

    Example:
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> conv = ReBNNConv2d(8, 8, 3)
        >>> roles = parameter_roles(conv)
        >>> roles[id(conv.weight)], roles[id(conv.alpha)], roles[id(conv.bias)]
        ('latent weight', 'scaling factor', 'rest')
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
