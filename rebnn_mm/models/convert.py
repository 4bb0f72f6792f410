"""Makes any model binary: which of its layers become it, by what they do in the model, and the same by config."""

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mmcv.cnn
import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmengine.structures import BaseDataElement
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._pytree import tree_leaves

from ..layers import BinaryConv2d, BinaryLayer, BinaryLinear
from ..layers.naming import name_matches
from ..registry import registered_class
from ..utils.options import check_options
from .data_flow import DataFlow

Config = Mapping[str, Any]
Example = Tensor | Mapping[str, Any]

NOT_CALLED = 'not called'


@dataclass(frozen=True)
class PlannedLayer:
    """What becomes of a convolution or linear layer.

    Attributes:
        name: dotted name in the model; the first one, if it has several.
        kind: class name.
        shape: shape of the weight.
        real_because: why it stays real; empty if it becomes binary.
        starves: whether it becomes binary behind a ReLU and without a shortcut of its own.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    real_because: str = ''
    starves: bool = False


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

    Class, names of parameters and values stay as they are, so checkpoints, tools and hooks of the real-valued model go
    on working; scaling factors start from the weights as they are now. What stays real is in :func:`plan_binary`.

    Args:
        model: a real-valued model of any library.
        conv: config of a binary convolution, ``dict(type='ReBNNConv2d')``; None leaves all convolutions.
        linear: config of a binary linear layer; None leaves all linear layers.
        keep_real: names of layers that stay real, each one or more components of the dotted name, ``*`` allowed:
            ``['neck', 'layer1.0.*']``.
        make_binary: names of layers that become binary against the rules.
        overrides: further options for the layers that a name of the same kind picks; of several, the longer name wins.
        example: a tensor, or the keyword arguments of ``model.forward``; with it the model is run once. None for
            an image of 320x320 where the model is one of OpenMMLab, and for ``dummy_inputs`` of transformers.

    Returns:
        nn.Module: the model.

    Raises:
        ValueError: a name fits no layer, a config names no such layer or option, there is no layer of the kind or no
            example, or the model is binary already. Nothing is replaced then.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1))
        >>> _ = binarize(model, conv=dict(type='ReBNNConv2d'), example=torch.zeros(1, 3, 9, 9))
        >>> [f'{layer.weight_bits} {layer.real_because}' for layer in model if hasattr(layer, 'weight')]
        ['32 first layer', '1 ', '32 output layer']
    """
    rules: dict[str, Any] = dict(keep_real=keep_real, make_binary=make_binary, overrides=overrides, example=example)
    plan = plan_binary(model, conv, linear, **rules)
    names = _names(model)
    new: dict[str, BinaryLayer] = {}
    for row in plan:
        old = model.get_submodule(row.name)
        config = conv if isinstance(old, nn.Conv2d) else linear
        if config is not None and row.real_because != NOT_CALLED and not _impossible(model, old):
            new[row.name] = _built(old, {**config, **_overridden(row.name, overrides)})
    for row in plan:
        if row.name in new:
            replace_layer(model, names[row.name], new[row.name])
            # It says in tables why it is real, and computes what it did.
            if row.real_because:
                new[row.name].stay_real(row.real_because)
    starving = starving_sentence(plan)
    if starving:
        print_log(f'{type(model).__name__}: {starving}', 'current', logging.WARNING)
    return model


def plan_binary(
    model: nn.Module,
    conv: Config | None = None,
    linear: Config | None = None,
    *,
    keep_real: Sequence[str] = (),
    make_binary: Sequence[str] = (),
    overrides: Mapping[str, Config] = {},
    example: Example | None = None,
) -> list[PlannedLayer]:
    """What :func:`binarize` would do with every convolution and linear layer of a model, which is left alone.

    By what one forward pass shows, a layer stays real if it

    - sees the model's input (first layer),
    - is a 1x1 convolution that is added to what others make of the same input (shortcut),
    - is followed by neither norm, nor activation, nor another product (output layer: a predictor, or a gate),
    - is not called, or computes something of its own (a subclass with its own forward, a transposed or deformable
      convolution),
    - has one input channel for each output (depthwise), or shares its weight with another layer,
    - is named in ``keep_real``.

    Args and errors are those of :func:`binarize`.

    Returns:
        list[PlannedLayer]: in the model's order; :func:`plan_table` prints them.
    """
    if conv is None and linear is None:
        raise ValueError("binarize: neither conv nor linear is given; name a layer, conv=dict(type='ReBNNConv2d')")
    refuse_binary(model)
    kinds: tuple[type[nn.Module], ...] = ()
    if conv is not None:
        check_layer('conv', conv, BinaryConv2d)
        kinds += (nn.Conv2d,)
    if linear is not None:
        check_layer('linear', linear, BinaryLinear)
        kinds += (nn.Linear,)
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, kinds) or (conv is not None and _is_conv(layer))
    }
    if not any(isinstance(layer, kinds) for layer in layers.values()):
        missing = ' or '.join('convolution' if kind is nn.Conv2d else 'linear layer' for kind in kinds)
        raise ValueError(f'binarize: {type(model).__name__} has no {missing}.')
    for key, patterns in (('keep_real', keep_real), ('make_binary', make_binary), ('overrides', overrides)):
        check_names(key, patterns, list(layers))
    forward, images = _run_on(model, example)
    try:
        flow = DataFlow(model, layers, forward, images)
    except Exception as error:
        sizes = ', '.join('x'.join(map(str, image.shape)) for image in images) or 'its example'
        first = str(error).strip().partition('\n')[0]
        raise ValueError(
            f'binarize: {type(model).__name__} could not be run on {sizes} ({type(error).__name__}: {first}). Give '
            'another image_size or example.'
        ) from error
    rows = []
    for name, layer in layers.items():
        because = _real_because(model, name, layer, flow, keep_real, make_binary)
        starves = not because and flow.behind_rectifier(name) and not flow.has_shortcut(name)
        weight = layer.weight
        assert isinstance(weight, Tensor)
        rows.append(PlannedLayer(name, type(layer).__name__, tuple(weight.shape), because, starves))
    return rows


def plan_table(plan: Sequence[PlannedLayer]) -> str:
    """The rows of :func:`plan_binary` as text.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1))
        >>> print(plan_table(plan_binary(model, dict(type='ReBNNConv2d'), example=torch.zeros(1, 3, 9, 9))))
        layer  weight   becomes
        0      8x3x3x3  real: first layer
        2      8x8x3x3  binary, behind a ReLU
        4      2x8x1x1  real: output layer
        1 of 3 layers become binary; they hold 576 of 808 weights (71.3 %).
        1 layers become binary behind a ReLU and without a shortcut of their own (2), so that the next ones see ...
    """
    width = max(len('layer'), *(len(row.name) for row in plan))
    shapes = ['x'.join(map(str, row.shape)) for row in plan]
    wide = max(len('weight'), *map(len, shapes))
    lines = [f'{"layer":{width}}  {"weight":{wide}}  becomes']
    for row, shape in zip(plan, shapes, strict=True):
        becomes = f'real: {row.real_because}' if row.real_because else 'binary'
        lines.append(f'{row.name:{width}}  {shape:{wide}}  {becomes}{", behind a ReLU" if row.starves else ""}')
    values = [torch.Size(row.shape).numel() for row in plan]
    binary = [row.real_because == '' for row in plan]
    held = sum(value for value, counts in zip(values, binary, strict=True) if counts)
    lines.append(
        f'{sum(binary)} of {len(plan)} layers become binary; they hold {held:,} of {sum(values):,} weights '
        f'({100 * held / sum(values):.1f} %).'
    )
    return '\n'.join([*lines, *filter(None, [starving_sentence(plan)])])


def starving_sentence(plan: Sequence[PlannedLayer]) -> str:
    """Which layers hand on nothing but signs of what a ReLU lets through, and what to do; empty if there are none."""
    starving = [row.name for row in plan if row.starves]
    if not starving:
        return ''
    shown = ', '.join(starving[:3]) + (', ...' if len(starving) > 3 else '')
    return (
        f'{len(starving)} layers become binary behind a ReLU and without a shortcut of their own ({shown}), so that '
        'the next ones see sums of signs only: keep some real (keep_real), or take a network with a shortcut for '
        "every convolution (backbone=dict(type='ReBNNResNet'))."
    )


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
    ``--cfg-options model.backbone.depth=34`` means what it did. What is built has the class of the real model.

    Args:
        real: the ``type`` that the model had.
        conv: see :func:`binarize`, as the next four.
        linear: config of a binary linear layer.
        keep_real: names.
        make_binary: names.
        overrides: further options by name.
        image_size: height and width of the image on which the model is run once.
        **model: the config of the real model.

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


def example_image(model: nn.Module, size: tuple[int, int] = (320, 320)) -> Example:
    """An image of zeros, as a model of OpenMMLab or a plain network takes it."""
    image = torch.zeros(1, 3, *size)
    if not isinstance(model, BaseModel):
        return image
    sizes = dict(img_shape=size, ori_shape=size, pad_shape=size, batch_input_shape=size, scale_factor=(1.0, 1.0))
    return dict(inputs=image, data_samples=[BaseDataElement(metainfo=sizes)], mode='tensor')


def replace_layer(model: nn.Module, names: Sequence[str], new: BinaryLayer) -> None:
    """Put a binary layer in the place of a real one, with its values, wherever the model holds it.

    Raises:
        ValueError: the weight is shared with another layer.
    """
    old = model.get_submodule(names[0])
    assert isinstance(old.weight, Tensor)
    shared = _shares_with(model, old)
    if shared:
        raise ValueError(
            f'binarize: {names[0]!r} shares its weight with {shared!r}, and a binary layer would not. Leave both out '
            'of the conversion, or untie them before.'
        )
    new.to(device=old.weight.device, dtype=old.weight.dtype)
    # Through the state dict, so that the quantizer starts from the values as it does with a checkpoint.
    new.load_state_dict(old.state_dict(), strict=False)
    for key, parameter in old.named_parameters():
        new.get_parameter(key).requires_grad_(parameter.requires_grad)
    new.train(old.training)
    for name in names:
        model.set_submodule(name, new)
    new.take_name(names[0])


def refuse_binary(model: nn.Module) -> None:
    """Refuse a model that is binary already.

    Raises:
        ValueError: it is.
    """
    if any(isinstance(module, BinaryLayer) for module in model.modules()):
        raise ValueError(f'binarize: {type(model).__name__} has binary layers already; start from the real model.')


def check_layer(key: str, options: Config, base: type[BinaryLayer]) -> type[BinaryLayer]:
    """The class that a config of a layer names.

    Raises:
        ValueError: there is no such layer, or it has no such option.
    """
    cls = registered_class(options.get('type'), base, f'binarize: {key}={options.get("type")!r} is no such layer.')
    check_options(f'binarize: {key} of type {cls.__name__}', [name for name in options if name != 'type'], cls, base)
    return cls


def check_names(key: str, patterns: Iterable[str], names: Sequence[str]) -> None:
    """Refuse names that fit no layer.

    Raises:
        ValueError: one fits none; the message has the nearest.
    """
    if isinstance(patterns, str):
        raise ValueError(f'binarize: {key}={patterns!r} must be a list of names, [{patterns!r}]')
    for pattern in patterns:
        if any(name_matches(name, [pattern]) for name in names):
            continue
        parts = sorted({part for name in names for part in name.split('.')} | set(names))
        close = difflib.get_close_matches(pattern, parts, n=1)
        hint = f' Did you mean {close[0]!r}?' if close else ''
        raise ValueError(
            f'binarize: {key} names {pattern!r}, which fits no layer of the model.{hint} Layers: '
            f'{", ".join(names[:3])}, ..., {names[-1]}'
        )


def _names(model: nn.Module) -> dict[str, list[str]]:
    """All names of every module, behind the first one."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    return {each[0]: each for each in names.values()}


def _is_conv(module: nn.Module) -> bool:
    # mmcv's deformable convolutions are no subclass of torch's.
    return isinstance(module, _ConvNd) or (hasattr(module, 'deform_groups') and hasattr(module, 'weight'))


def _impossible(model: nn.Module, layer: nn.Module) -> str:
    """Why a binary layer cannot stand for this one; empty if it can."""
    kind = type(layer).__name__
    if not isinstance(layer, nn.Conv2d | nn.Linear):
        return f'{kind} has no binary form'
    plain = [nn.Conv2d.forward, nn.Linear.forward, mmcv.cnn.Conv2d.forward, mmcv.cnn.Linear.forward]
    if type(layer).forward not in plain or getattr(type(layer), '_conv_forward', None) not in (
        None,
        nn.Conv2d._conv_forward,
    ):
        return f'{kind} computes something of its own'
    if is_parametrized(layer):
        return 'its weight is parametrized'
    shared = _shares_with(model, layer)
    return f'shares its weight with {shared}' if shared else ''


def _shares_with(model: nn.Module, layer: nn.Module) -> str:
    for name, module in model.named_modules():
        if module is not layer and any(value is layer.weight for value in module.parameters(recurse=False)):
            return name
    return ''


def _real_because(
    model: nn.Module,
    name: str,
    layer: nn.Module,
    flow: DataFlow,
    keep_real: Sequence[str],
    make_binary: Sequence[str],
) -> str:
    pattern = name_matches(name, tuple(keep_real))
    if pattern is not None:
        return f'named in keep_real ({pattern})'
    impossible = _impossible(model, layer)
    if name_matches(name, tuple(make_binary)) is not None:
        if impossible:
            raise ValueError(f'binarize: make_binary names {name!r}, which cannot become binary: {impossible}.')
        return ''
    rules = (
        (impossible, bool(impossible)),
        ('depthwise', isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels > 1),
        (NOT_CALLED, not flow.was_called(name)),
        ('first layer', flow.is_first(name)),
        ('output layer', flow.is_output(name)),
        ('shortcut', flow.is_shortcut(name)),
    )
    return next((why for why, holds in rules if holds), '')


def _overridden(name: str, overrides: Mapping[str, Config]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pattern in sorted(overrides, key=lambda pattern: (len(pattern), pattern)):
        if name_matches(name, [pattern]):
            options.update(overrides[pattern])
    return options


def _built(old: nn.Module, config: Config) -> BinaryLayer:
    options = {key: value for key, value in config.items() if key != 'type'}
    sizes: dict[str, Any] = dict(bias=old.bias is not None)
    # A layer's own rules and names of shortcuts have been decided already.
    if isinstance(old, nn.Conv2d):
        taken = (
            'in_channels',
            'out_channels',
            'kernel_size',
            'stride',
            'padding',
            'dilation',
            'groups',
            'padding_mode',
        )
        sizes |= {key: getattr(old, key) for key in taken} | dict(keep_real=False)
        return check_layer('conv', config, BinaryConv2d)(**{**sizes, **options})
    assert isinstance(old, nn.Linear)
    sizes |= dict(in_features=old.in_features, out_features=old.out_features, keep_real=())
    return check_layer('linear', config, BinaryLinear)(**{**sizes, **options})


def _run_on(model: nn.Module, example: Example | None) -> tuple[Callable[[nn.Module], Any], list[Tensor]]:
    """What runs a model once, and the images among its arguments."""
    if example is None and hasattr(model, 'dummy_inputs'):
        example = cast(Mapping[str, Any], model.dummy_inputs)  # a model of transformers
    elif example is None and isinstance(model, BaseModel):
        example = example_image(model)
    elif example is None:
        raise ValueError(
            f'binarize: what {type(model).__name__} takes is not known; give example=, a tensor or the keyword '
            'arguments of its forward.'
        )
    images = [leaf for leaf in tree_leaves(example) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if isinstance(example, Tensor):
        return lambda model: model(example), images
    return lambda model: model(**example), images
