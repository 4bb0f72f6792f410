"""Makes any model binary: puts binary layers in the place of those that a plan names, and the same by config."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.logging import print_log
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..layers import BinaryConv2d, BinaryLayer, BinaryLinear
from ..layers.base import keep_branches
from ..layers.naming import name_matches
from .binary_plan import (
    NOT_CALLED,
    READ,
    Config,
    Example,
    check_layer,
    example_image,
    plan_binary,
    warnings_of,
    why_impossible,
)

TAKEN = ('in_channels', 'out_channels', 'kernel_size', 'stride', 'padding', 'dilation', 'groups', 'padding_mode')
"""Attributes that a binary convolution copies from the full-precision one, in addition to its values."""

HOOKS = (
    '_forward_hooks', '_forward_hooks_with_kwargs', '_forward_hooks_always_called', '_forward_pre_hooks',
    '_forward_pre_hooks_with_kwargs', '_backward_hooks', '_backward_pre_hooks',
)  # fmt: skip
"""Attributes in which a module keeps its hooks; a binary layer has none of its own."""


def binarize(
    model: nn.Module,
    conv: Config | None = None,
    linear: Config | None = None,
    *,
    keep_real: Sequence[str] = (),
    make_binary: Sequence[str] = (),
    overrides: Mapping[str, Config] = {},
    example: Example | None = None,
) -> nn.Module:
    """Replace, in place, the convolutions and linear layers of a model by binary ones.

    Class and parameters stay as they are, and forward and backward hooks of the layers go over, so checkpoints, tools
    and hooks of the full-precision model go on working; scaling factors start from the weights as
    they are now. What keeps full precision is in :func:`plan_binary`.

    Args:
        model: a full-precision model of any library.
        conv: config of a binary convolution, ``dict(type='ReBNNConv2d')``; None leaves all convolutions.
        linear: config of a binary linear layer; None leaves all linear layers.
        keep_real: names of full-precision layers, each one or more components of the dotted name, ``*`` allowed:
            ``['neck', 'layer1.0.*']``.
        make_binary: names of layers that become binary against the rules.
        overrides: further options for the layers that a name of the same kind picks; of several, the longer name wins.
        example: a tensor, or the keyword arguments of ``model.forward``; with it the model is run once. None for
            an image of 320x320 where the model is one of OpenMMLab, and for ``dummy_inputs`` of transformers.

    Returns:
        nn.Module: the model.

    Raises:
        ValueError: a name fits no layer, a config names no such layer or option, there is no layer of the kind or no
            example, the model cannot be copied, is one layer alone or binary already. Nothing is replaced then.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1))
        >>> _ = binarize(model, conv=dict(type='ReBNNConv2d'), example=torch.zeros(1, 3, 9, 9))
        >>> [f'{layer.weight_bits} {layer.real_because}' for layer in model if hasattr(layer, 'weight')]
        ['32 first layer', '1 ', '32 output layer']
    """
    rules: dict[str, Any] = dict(keep_real=keep_real, make_binary=make_binary, overrides=overrides, example=example)
    plan = plan_binary(model, conv, linear, **rules)
    new: dict[str, BinaryLayer] = {}
    for row in plan:
        old = model.get_submodule(row.name)
        config = conv if isinstance(old, nn.Conv2d) else linear
        if config is not None and row.real_because not in (NOT_CALLED, READ) and not why_impossible(model, old):
            new[row.name] = _build_layer(old, {**config, **_overridden(row.name, overrides)})
            take_over(old, new[row.name])
    # All of them are ready, so a layer that cannot be read leaves no model half replaced.
    for row in plan:
        # What is real says why in tables, and computes what it did.
        if row.name not in new:
            vars(model.get_submodule(row.name))['real_because'] = row.real_because
            continue
        put_in_place(model, row.name, new[row.name])
        if row.real_because:
            new[row.name].stay_real(row.real_because)
    for sentence in warnings_of(plan):
        print_log(f'{type(model).__name__}: {sentence}', 'current', logging.WARNING)
    return model


@MODELS.register_module(name='Binarized')
def build_binarized(
    real: str,
    conv: Config | None = None,
    linear: Config | None = None,
    keep_real: Sequence[str] = (),
    make_binary: Sequence[str] = (),
    overrides: Mapping[str, Config] = {},
    image_size: tuple[int, int] = (320, 320),
    **model: Any,
) -> nn.Module:
    """Build a model from its own config and :func:`binarize` it.

    All other keys of the config stay where they are, so that it inherits from the real model's and
    ``--cfg-options model.backbone.depth=34`` means what it did. What is built has the class of the real model, whose
    ``type`` is ``real`` and whose further options are ``model``; it is run once on an image of ``image_size``, height
    and width. The other arguments are those of :func:`binarize`.

    Example:
        >>> from mmengine.registry import MODELS
        >>> config = dict(real='BinaryVGGSmall', conv_cfg=None, image_size=(32, 32), conv=dict(type='ReBNNConv2d'))
        >>> net = MODELS.build(dict(type='rebnn_mm.Binarized', **config))
        >>> type(net).__name__, [type(m).__name__ for m in net.modules() if hasattr(m, 'kernel_size')][1]
        ('BinaryVGGSmall', 'ReBNNConv2d')
    """
    built = MODELS.build(dict(model, type=real))
    rules: dict[str, Any] = dict(keep_real=keep_real, make_binary=make_binary, overrides=overrides)
    binarize(built, conv, linear, **rules, example=example_image(built, image_size))
    return built


def take_over(old: nn.Module, new: BinaryLayer) -> None:
    """Give a binary layer the parameters, the mode and the hooks of a real one."""
    assert isinstance(old.weight, Tensor)
    new.to(device=old.weight.device, dtype=old.weight.dtype)
    # Through the state dict, so that the quantizer starts from the values as it does with a checkpoint.
    new.load_state_dict(old.state_dict(), strict=False)
    # The very parameters, which an optimizer or a hook may hold already.
    new._parameters.update(old._parameters)
    new.train(old.training)
    for key in HOOKS:
        # The very dict, through which the handle of a hook removes it.
        setattr(new, key, getattr(old, key))
    new._is_full_backward_hook = old._is_full_backward_hook


def put_in_place(model: nn.Module, name: str, new: BinaryLayer) -> None:
    """Let a layer become the binary one, as torch's lazy layers become others.

    So it is binary wherever it is held: under further names, and in lists and dicts that PyTorch does not see.
    """
    old = model.get_submodule(name)
    old.__dict__ = new.__dict__
    old.__class__ = type(new)
    new.take_name(name)
    while name:
        name = name.rpartition('.')[0]
        keep_branches(model.get_submodule(name))


def _overridden(name: str, overrides: Mapping[str, Config]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pattern in sorted(overrides, key=lambda pattern: (len(pattern), pattern)):
        if name_matches(name, [pattern]):
            options.update(overrides[pattern])
    return options


def _build_layer(old: nn.Module, config: Config) -> BinaryLayer:
    options = {key: value for key, value in config.items() if key != 'type'}
    sizes: dict[str, Any] = dict(bias=old.bias is not None)
    # A layer's own rules and names of shortcuts have been decided already.
    if isinstance(old, nn.Conv2d):
        sizes |= {key: getattr(old, key) for key in TAKEN} | dict(keep_real=False)
        return check_layer('conv', config, BinaryConv2d)(**{**sizes, **options})
    assert isinstance(old, nn.Linear)
    sizes |= dict(in_features=old.in_features, out_features=old.out_features, keep_real=())
    return check_layer('linear', config, BinaryLinear)(**{**sizes, **options})
