"""Report which layers of a model are binary, which keep full precision, and why."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from .base import IMAGE_CHANNELS, SHORTCUT_NAMES, BinaryLayer


@dataclass(frozen=True)
class LayerRow:
    """One convolution, linear layer or embedding.

    ``why`` it is real is empty for a layer that quantizes; ``shortcut`` is what to call a binary one that looks like a
    shortcut in ``keep_real``.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    weight_bits: int
    activation_bits: int
    why: str
    shortcut: str = ''

    @property
    def values(self) -> int:
        return math.prod(self.shape)


def layer_rows(model: nn.Module) -> list[LayerRow]:
    """Describe every convolution, linear layer and embedding of a model, in its order."""
    weighted = _ConvNd | nn.Linear | nn.MultiheadAttention | nn.Embedding | BinaryLayer
    return [_row(model, name, module) for name, module in model.named_modules() if isinstance(module, weighted)]


def layer_report(model: nn.Module) -> str:
    """The rows as text, with totals and, where a shortcut may have been missed, how to name it."""
    rows = layer_rows(model)
    if not rows:
        return 'no convolution or linear layer'
    width = max(len(row.name) for row in rows)
    lines = [f'{"layer":{width}}  {"bits W/A":>8}  {"weight shape":18}  kind: why it is real']
    for row in rows:
        shape = 'x'.join(map(str, row.shape))
        reason = f'{row.kind}: {row.why}' if row.why else row.kind
        lines.append(f'{row.name:{width}}  {row.weight_bits:>5}/{row.activation_bits:<2}  {shape:18}  {reason}')
    binary = [row for row in rows if not row.why]
    in_binary, in_all = sum(row.values for row in binary), sum(row.values for row in rows)
    lines.append(
        f'{len(binary)} of {len(rows)} layers are binary; they hold {in_binary:,} of {in_all:,} weights '
        f'({100 * in_binary / in_all:.1f} %).'
    )
    suspects = [row for row in rows if row.shortcut]
    if suspects:
        shown = ', '.join(row.name for row in suspects[:4]) + (', ...' if len(suspects) > 4 else '')
        named = (name for module in model.modules() if isinstance(module, BinaryLayer) for name in module.keep_real)
        names = list(dict.fromkeys([*SHORTCUT_NAMES, *named, *(row.shortcut for row in suspects)]))
        lines.append(
            f'{len(suspects)} binary 1x1 convolutions run parallel to other layers, as shortcuts do: {shown}. '
            f'If they are shortcuts, keep them real: conv_cfg=dict(..., keep_real={names}).'
        )
    return '\n'.join(lines)


def weight_shape(layer: nn.Module) -> tuple[int, ...]:
    """Shape of a layer's weight; of an attention that of its projections of the input."""
    if isinstance(layer, nn.MultiheadAttention):
        width = layer.embed_dim
        columns = (width, width if layer.kdim is None else layer.kdim, width if layer.vdim is None else layer.vdim)
        return (width, sum(columns))
    return tuple(cast(Tensor, layer.weight).shape)


def _row(model: nn.Module, name: str, module: nn.Module) -> LayerRow:
    shape = weight_shape(module)
    kind = type(module).__name__
    if isinstance(module, BinaryLayer):
        shortcut = _shortcut_name(model, name, module) if module.binary and module.keep_real else ''
        return LayerRow(name, kind, shape, module.weight_bits, module.activation_bits, module.real_because, shortcut)
    first = isinstance(module, nn.Conv2d) and module.in_channels in IMAGE_CHANNELS
    why = f'first layer ({shape[1]} input channels)' if first else 'made by its module, not through conv_cfg'
    if isinstance(module, nn.Embedding):
        why = 'embedding'
    # Of a layer that rebnn_mm.binarize left as it is.
    why = getattr(module, 'real_because', why)
    return LayerRow(name, kind, shape, 32, 32, why)


def _shortcut_name(model: nn.Module, name: str, layer: nn.Module) -> str:
    """Name a 1x1 convolution in its block, if the block's others lead past it to as many channels."""
    if not isinstance(layer, nn.Conv2d) or layer.kernel_size != (1, 1) or layer.in_channels == layer.out_channels:
        return ''
    parts = name.split('.')
    for depth in reversed(range(len(parts))):
        block = model.get_submodule('.'.join(parts[:depth]))
        path = [module for module in block.modules() if isinstance(module, _ConvNd) and module is not layer]
        if path:
            break
    else:
        return ''
    channels = [(conv.in_channels, conv.out_channels) for conv in path]
    chain = all(before[1] == after[0] for before, after in pairwise(channels))
    past = (channels[0][0], channels[-1][1]) == (layer.in_channels, layer.out_channels)
    # What a list holds is not run one after the other, and one real shortcut is enough.
    listed = isinstance(block, nn.ModuleList | nn.ModuleDict)
    taken = any(conv.weight.shape == layer.weight.shape and not getattr(conv, 'binary', False) for conv in path)
    if listed or taken or not (chain and past):
        return ''
    return name if parts[depth].isdigit() else parts[depth]
