"""Choose the layers of a model that become binary, by their function in it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mmcv.cnn
import torch
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._pytree import tree_leaves

from ..errors import RebnnError, did_you_mean
from ..layers import BinaryConv2d, BinaryLayer, BinaryLinear
from ..layers.naming import name_matches
from ..layers.report import weight_shape
from ..registry import find_class
from ..utils.options import check_options
from .data_flow import CannotCopy, DataFlow

Config = Mapping[str, Any]
Example = Tensor | Mapping[str, Any]

NOT_CALLED, READ = 'not called', 'its weight is used by a function outside of it'


@dataclass(frozen=True)
class PlannedLayer:
    """Plan for a convolution or linear layer."""

    name: str  # dotted, in the model; the first one, if it has several
    kind: str  # name of the class
    shape: tuple[int, ...]  # of the weight
    real_because: str = ''  # why it keeps full precision; empty if it becomes binary
    starves: bool = False  # whether it becomes binary after a ReLU and without a shortcut of its own
    few_inputs: bool = False  # whether it becomes binary with one or three input channels, as many as an image has


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
    """Plan what :func:`rebnn_mm.binarize` would do with each layer of a model, without changing it.

    By what one forward pass shows, a layer keeps full precision if it

    - sees the model's input (first layer),
    - is a 1x1 convolution that is added to what others make of the same input (shortcut),
    - is followed by neither norm, nor activation, nor another product (output layer: a predictor, or a gate),
    - is not called, or computes something of its own (a subclass with its own forward, a transposed or deformable
      convolution, ``nn.MultiheadAttention``),
    - has one input channel for each output (depthwise), or shares a parameter with another module or function,
    - is named in ``keep_real``.

    Args and errors are those of :func:`rebnn_mm.binarize`.

    Returns:
        list[PlannedLayer]: in the model's order; :func:`plan_table` prints them.
    """
    if conv is None and linear is None:
        raise RebnnError("binarize: neither conv nor linear is given; name a layer, conv=dict(type='ReBNNConv2d')")
    refuse_binary(model)
    refuse_unready(model)
    if isinstance(model, nn.Linear) or _is_conv(model):
        raise RebnnError(
            f'binarize: the model is one {type(model).__name__} alone, which nothing holds that could hold another in '
            'its place: put it into nn.Sequential.'
        )
    kinds: tuple[type[nn.Module], ...] = ()
    if conv is not None:
        check_layer('conv', conv, BinaryConv2d)
        kinds += (nn.Conv2d,)
    if linear is not None:
        check_layer('linear', linear, BinaryLinear)
        kinds += (nn.Linear,)
    # An attention projects its input itself.
    listed = kinds if linear is None else (*kinds, nn.MultiheadAttention)
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, listed) or (conv is not None and _is_conv(layer))
    }
    if not any(isinstance(layer, kinds) for layer in layers.values()):
        missing = ' or '.join('convolution' if kind is nn.Conv2d else 'linear layer' for kind in kinds)
        raise RebnnError(f'binarize: {type(model).__name__} has no {missing}.')
    for key, patterns in (('keep_real', keep_real), ('make_binary', make_binary), ('overrides', overrides)):
        check_names(key, patterns, list(layers))
    forward, images = _run_on(model, example)
    try:
        flow = DataFlow(model, layers, forward, images)
    except CannotCopy:
        raise
    except Exception as error:
        sizes = ', '.join('x'.join(map(str, image.shape)) for image in images) or 'its example'
        first = str(error).strip().partition('\n')[0]
        raise RebnnError(
            f'binarize: {type(model).__name__} could not be run on {sizes} ({type(error).__name__}: {first}). Give '
            'another image_size or example.'
        ) from error
    rows = []
    for name, layer in layers.items():
        because = _real_because(model, name, layer, flow, keep_real, make_binary)
        starves = not because and flow.behind_rectifier(name) and not flow.has_shortcut(name)
        few_inputs = not because and isinstance(layer, nn.Conv2d) and layer.in_channels in (1, 3)
        rows.append(PlannedLayer(name, type(layer).__name__, weight_shape(layer), because, starves, few_inputs))
    return rows


def plan_table(plan: Sequence[PlannedLayer]) -> str:
    """The rows of :func:`plan_binary` as text.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1))
        >>> print(plan_table(plan_binary(model, dict(type='ReBNNConv2d'), example=torch.zeros(1, 3, 9, 9))))
        layer  weight   becomes
        0      8x3x3x3  real: first layer
        2      8x8x3x3  binary, after a ReLU
        4      2x8x1x1  real: output layer
        1 of 3 layers become binary; they hold 576 of 808 weights (71.3 %).
        1 layers become binary after a ReLU and without a shortcut of their own (2), so that the next ones see ...
    """
    width = max(len('layer'), *(len(row.name) for row in plan))
    shapes = ['x'.join(map(str, row.shape)) for row in plan]
    wide = max(len('weight'), *map(len, shapes))
    lines = [f'{"layer":{width}}  {"weight":{wide}}  becomes']
    for row, shape in zip(plan, shapes, strict=True):
        becomes = f'real: {row.real_because}' if row.real_because else 'binary'
        lines.append(f'{row.name:{width}}  {shape:{wide}}  {becomes}{", after a ReLU" if row.starves else ""}')
    values = [torch.Size(row.shape).numel() for row in plan]
    binary = [row.real_because == '' for row in plan]
    held = sum(value for value, counts in zip(values, binary, strict=True) if counts)
    lines.append(
        f'{sum(binary)} of {len(plan)} layers become binary; they hold {held:,} of {sum(values):,} weights '
        f'({100 * held / sum(values):.1f} %).'
    )
    return '\n'.join([*lines, *warnings_of(plan)])


def warnings_of(plan: Sequence[PlannedLayer]) -> list[str]:
    """Sentences on the layers of a plan that need a look."""
    return [sentence for sentence in (starving_sentence(plan), image_sentence(plan), idle_sentence(plan)) if sentence]


def idle_sentence(plan: Sequence[PlannedLayer]) -> str:
    """Name the layers that keep full precision because the example did not reach them; empty if there are none."""
    idle = [row.name for row in plan if row.real_because == NOT_CALLED]
    if not idle:
        return ''
    shown = ', '.join(idle[:3]) + (', ...' if len(idle) > 3 else '')
    return (
        f'{len(idle)} layers are not called on the example, as those for training only, and keep full precision '
        f'({shown}): name them in make_binary, or in keep_real if that is right.'
    )


def image_sentence(plan: Sequence[PlannedLayer]) -> str:
    """Name the layers that may see an image, and what to do; empty if there are none."""
    few = [row.name for row in plan if row.few_inputs]
    if not few:
        return ''
    shown = ', '.join(few[:3]) + (', ...' if len(few) > 3 else '')
    return (
        f'1 or 3 input channels, as an image has, in layers that become binary ({shown}): name those that see an '
        'image in keep_real.'
    )


def starving_sentence(plan: Sequence[PlannedLayer]) -> str:
    """Name the layers that pass on only signs of what a ReLU lets through, and what to do; empty if there are none."""
    starving = [row.name for row in plan if row.starves]
    if not starving:
        return ''
    shown = ', '.join(starving[:3]) + (', ...' if len(starving) > 3 else '')
    return (
        f'{len(starving)} layers become binary after a ReLU and without a shortcut of their own ({shown}), so that '
        'the next ones see sums of signs only: keep some real (keep_real), or take a network with a shortcut for '
        "every convolution (backbone=dict(type='BinaryResNet'))."
    )


def example_image(model: nn.Module, size: tuple[int, int] = (320, 320)) -> Example:
    """An image of zeros, as a model of OpenMMLab or a plain network takes it."""
    image = torch.zeros(1, 3, *size)
    if not isinstance(model, BaseModel):
        return image
    sizes = dict(img_shape=size, ori_shape=size, pad_shape=size, batch_input_shape=size, scale_factor=(1.0, 1.0))
    return dict(inputs=image, data_samples=[BaseDataElement(metainfo=sizes)], mode='tensor')


def refuse_binary(model: nn.Module) -> None:
    """Refuse a model that is binary already."""
    if any(isinstance(module, BinaryLayer) for module in model.modules()):
        raise RebnnError(f'binarize: {type(model).__name__} has binary layers already; start from the real model.')


def refuse_unready(model: nn.Module) -> None:
    """Refuse a model whose layers have no sizes yet or are compiled."""
    lazy = next((name for name, value in [*model.named_parameters(), *model.named_buffers()] if is_lazy(value)), None)
    if lazy is not None:
        raise RebnnError(f'binarize: {lazy} has no size yet (a lazy layer); run the model on an image first.')
    compiled = next((name for name, module in model.named_modules() if hasattr(module, '_orig_mod')), None)
    if compiled is not None:
        what = f'its part {compiled!r}' if compiled else 'the model'
        raise RebnnError(f'binarize: {what} is compiled; make the model binary first, then call torch.compile.')


def check_layer(key: str, options: Config, base: type[BinaryLayer]) -> type[BinaryLayer]:
    """The class that a config of a layer names."""
    if not isinstance(options, Mapping):
        raise RebnnError(f'binarize: {key}={options!r} must be a dict, dict(type={options!r})')
    cls = find_class(options.get('type'), base, f'binarize: {key}={options.get("type")!r} is not such a layer.')
    check_options(f'binarize: {key} of type {cls.__name__}', [name for name in options if name != 'type'], cls, base)
    return cls


def check_names(key: str, patterns: Iterable[str], names: Sequence[str]) -> None:
    """Refuse names that fit no layer."""
    if isinstance(patterns, str):
        raise RebnnError(f'binarize: {key}={patterns!r} must be a list of names, [{patterns!r}]')
    if key == 'overrides':
        if not isinstance(patterns, Mapping) or not all(isinstance(each, Mapping) for each in patterns.values()):
            raise RebnnError(f'binarize: overrides={patterns!r} must be a dict of dicts, {{name: dict(gamma=0)}}')
    elif not isinstance(patterns, Iterable) or not all(isinstance(each, str) for each in patterns):
        raise RebnnError(f'binarize: {key}={patterns!r} must be a list of names')
    for pattern in patterns:
        if any(name_matches(name, [pattern]) for name in names):
            continue
        parts = sorted({part for name in names for part in name.split('.')} | set(names))
        raise RebnnError(
            f'{key} names {pattern!r}, which fits no layer of the model.',
            'binarize',
            f'{did_you_mean(pattern, parts)} Layers: {", ".join(names[:3])}, ..., {names[-1]}'.lstrip(),
        )


def _is_conv(module: nn.Module) -> bool:
    # mmcv's deformable convolutions are not subclasses of torch's.
    return isinstance(module, _ConvNd) or (hasattr(module, 'deform_groups') and hasattr(module, 'weight'))


def why_impossible(model: nn.Module, layer: nn.Module) -> str:
    """Say why a binary layer cannot stand for this one; empty if it can."""
    kind = type(layer).__name__
    if not isinstance(layer, nn.Conv2d | nn.Linear):
        return f'{kind} has no binary form'
    plain = [nn.Conv2d.forward, nn.Linear.forward, mmcv.cnn.Conv2d.forward, mmcv.cnn.Linear.forward]
    if type(layer).forward not in plain or getattr(type(layer), '_conv_forward', None) not in (
        None,
        nn.Conv2d._conv_forward,
    ):
        return f'{kind} computes something of its own'
    # Older forms of it, and pruning, compute the weight in a hook and keep the result next to the parameters.
    own = layer._parameters
    if is_parametrized(layer) or own.get('weight') is None or (layer.bias is not None and own.get('bias') is None):
        return 'its weight is parametrized'
    shared = shares_with(model, layer)
    return f'shares a parameter with {shared}' if shared else ''


def shares_with(model: nn.Module, layer: nn.Module) -> str:
    """Name of another module with the same weight or bias, or the model's class; empty if there is none."""
    own = set(layer.parameters(recurse=False))
    for name, module in model.named_modules():
        if module is not layer and not own.isdisjoint(module.parameters(recurse=False)):
            return name or type(model).__name__
    return ''


def _real_because(
    model: nn.Module, name: str, layer: nn.Module, flow: DataFlow, keep_real: Sequence[str], make_binary: Sequence[str]
) -> str:
    pattern = name_matches(name, tuple(keep_real))
    if pattern is not None:
        return f'named in keep_real ({pattern})'
    impossible = why_impossible(model, layer) or (READ if flow.is_read(name) else '')
    if name_matches(name, tuple(make_binary)) is not None:
        if impossible:
            raise RebnnError(f'binarize: make_binary names {name!r}, which cannot become binary: {impossible}.')
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


def _run_on(model: nn.Module, example: Example | None) -> tuple[Callable[[nn.Module], Any], list[Tensor]]:
    """Function that runs a model once, and the images among its arguments."""
    if example is None and hasattr(model, 'dummy_inputs'):
        example = cast(Mapping[str, Any], model.dummy_inputs)  # a model of transformers
    elif example is None and isinstance(model, BaseModel):
        example = example_image(model)
    elif example is None:
        raise RebnnError(
            f'binarize: what {type(model).__name__} takes is not known; give example=, a tensor or the keyword '
            'arguments of its forward.'
        )
    images = [leaf for leaf in tree_leaves(example) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if isinstance(example, Tensor):
        return lambda model: model(example), images
    return lambda model: model(**example), images
