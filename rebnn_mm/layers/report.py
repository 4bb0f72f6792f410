"""Which layers of a model are binary, which are real, and why."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from .base import SHORTCUT_NAMES, BinaryLayer
from .binary_conv import IMAGE_CHANNELS


@dataclass(frozen=True)
class LayerRow:
    """One convolution, linear layer or embedding.

    Attributes:
        name: dotted name in the model.
        kind: class name.
        shape: shape of the weight.
        weight_bits: bits per weight.
        activation_bits: bits per input value.
        why: why it is real; empty for a layer that quantizes.
        maybe_shortcut: binary, 1x1 and changing the number of channels: a shortcut can look like that.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    weight_bits: int
    activation_bits: int
    why: str
    maybe_shortcut: bool

    @property
    def values(self) -> int:
        """Number of weights."""
        product = 1
        for size in self.shape:
            product *= size
        return product


def layer_rows(model: nn.Module) -> list[LayerRow]:
    """Describe every convolution, linear layer and embedding of a model, in its order.

    Example:
        >>> from rebnn_mm.layers import ReBNNConv2d
        >>> for row in layer_rows(nn.Sequential(ReBNNConv2d(3, 8, 3), ReBNNConv2d(8, 8, 3), nn.Conv2d(8, 2, 1))):
        ...     print(row.name, row.weight_bits, row.why or 'binary')
        0 32 first layer (3 input channels)
        1 1 binary
        2 32 made by its module, not through conv_cfg
    """
    weighted = _ConvNd | nn.Linear | nn.Embedding | BinaryLayer
    return [_row(name, module) for name, module in model.named_modules() if isinstance(module, weighted)]


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
    suspects = [row.name for row in rows if row.maybe_shortcut]
    if suspects:
        shown = ', '.join(suspects[:4]) + (', ...' if len(suspects) > 4 else '')
        lines.append(
            f'{len(suspects)} binary 1x1 convolutions change the number of channels ({shown}). No keep_real is given; '
            "if some of them are shortcuts, name them: conv_cfg=dict(..., keep_real=['downsample', 'NAME', ...])."
        )
    return '\n'.join(lines)


def _row(name: str, module: nn.Module) -> LayerRow:
    shape = tuple(cast(Tensor, module.weight).shape)
    kind = type(module).__name__
    if isinstance(module, BinaryLayer):
        one_by_one = len(shape) == 4 and shape[2:] == (1, 1) and shape[0] != shape[1]
        suspect = module.binary and one_by_one and module.keep_real == SHORTCUT_NAMES
        return LayerRow(name, kind, shape, module.weight_bits, module.activation_bits, module.real_because, suspect)
    first = isinstance(module, nn.Conv2d) and module.in_channels in IMAGE_CHANNELS
    why = f'first layer ({shape[1]} input channels)' if first else 'made by its module, not through conv_cfg'
    if isinstance(module, nn.Embedding):
        why = 'embedding'
    return LayerRow(name, kind, shape, 32, 32, why, False)
