"""From an image to a binary detection to the bits of one filter: detects, then recomputes one output map bit by bit.

    python demo/look_inside.py IMAGE [CONFIG] CHECKPOINT --layer backbone.layer1.0.conv1 --filter 0

Read the functions from top to bottom: they are the steps. The picture shows each of them.
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from painting import detections, paint

from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.detector import check_input, load_detector
from rebnn_mm.utils.picture import check_picture, save_picture

POPCOUNT = np.array([bin(byte).count('1') for byte in range(256)])
"""Number of bits 1 in each byte."""


class Look(NamedTuple):
    """One binary convolution with its input, its output and one of its filters.

    Attributes:
        before: input plus the layer's learned shift, float (C, H, W): its sign is taken.
        signs: that sign, -1 or +1, (C, H, W).
        latent: latent weight of the filter, float (C, k, k).
        codes: its sign, -1 or +1, (C, k, k).
        scale: alpha, the factor of the filter's output.
        bias: what is added after it.
        output: the layer's own output of this filter, float (H_out, W_out).
    """

    before: np.ndarray
    signs: np.ndarray
    latent: np.ndarray
    codes: np.ndarray
    scale: np.float32
    bias: np.float32
    output: np.ndarray


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('image', help='image file')
    parser.add_argument('config', nargs='?', help='config file; default: the one in the checkpoint')
    parser.add_argument('checkpoint', help='checkpoint file of a binary detector')
    parser.add_argument('--layer', help='name of a binary convolution; default: the first one that sees the image')
    parser.add_argument('--filter', type=int, default=0, help='output channel')
    parser.add_argument('--channel', type=int, default=0, help='input channel of which maps and weights are drawn')
    parser.add_argument('--score-thr', type=float, default=0.5, help='lowest score to draw')
    parser.add_argument('--out', type=Path, help='picture to write; default: <image name>_look_inside.png here')
    return parser.parse_args()


def choose_layer(model: torch.nn.Module, args: argparse.Namespace) -> tuple[str, BinaryConv2d]:
    """Name and layer to look into; ends the program if the names or numbers asked for do not exist."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, BinaryConv2d) and module.weight_bits == module.activation_bits == 1
    }
    if not layers:
        raise RebnnError('the detector has no layer with 1-bit weights and inputs. Name a binary one.')
    name = args.layer or next(iter(layers))
    if name not in layers:
        close = difflib.get_close_matches(name, layers, n=3, cutoff=0.3) or list(layers)[:3]
        raise RebnnError(
            f'--layer {name} is not a binary convolution of this detector. Did you mean {" or ".join(close)}?'
        )
    layer = layers[name]
    if not (layer.padding_mode == 'zeros' and layer.weight_quantizer.values.has_codes):
        raise RebnnError(
            f'--layer {name} has no two codes per weight or a padding_mode other than zeros; this demo shows neither.'
        )
    for option, number, end in (
        ('--filter', args.filter, layer.out_channels),
        ('--channel', args.channel, layer.in_channels // layer.groups),
    ):
        if not 0 <= number < end:
            raise RebnnError(f'{option} {number} is not in 0 to {end - 1}, what {name} has.')
    return name, layer


@torch.no_grad()
def look(layer: BinaryConv2d, x: torch.Tensor, y: torch.Tensor, number: int) -> Look:
    """Take apart what the layer did with the first of its inputs x (N, C, H, W) when it gave y (N, C_out, H, W)."""
    quantizer = layer.activation_quantizer
    before = x if quantizer.shift is None else x + quantizer.along_channels(quantizer.shift, x)
    codes, scale = layer.weight_quantizer.codes(layer.weight)
    # With groups a filter sees only the channels of its own group.
    channels = layer.in_channels // layer.groups
    first = number // (layer.out_channels // layer.groups) * channels
    own = slice(first, first + channels)
    return Look(
        before=before[0, own].numpy(),
        signs=quantizer(x)[0, own].numpy(),
        latent=layer.weight[number].numpy(),
        codes=codes[number].numpy(),
        scale=np.float32(1 if scale is None else scale[number]),
        bias=np.float32(0 if layer.bias is None else layer.bias[number]),
        output=y[0, number].numpy(),
    )


def pack(values: np.ndarray) -> np.ndarray:
    """Signs (C, H, W) as bits, eight channels to a byte: (H, W, C/8); the bit 1 is a negative value."""
    return np.packbits(np.moveaxis(values < 0, 0, -1), axis=-1, bitorder='little')


def binary_convolution(layer: BinaryConv2d, signs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Convolve one filter with nothing but XOR and counting bits; integers of shape (H_out, W_out).

    Where two signs agree their product is +1 and the XOR of their bits 0; where they differ, -1 and 1. So the sum of K
    products is K - 2 * popcount(XOR). (XNOR counts the agreements instead; the sum is the same.)
    """
    x, w = pack(signs), pack(codes)
    channels, height, width = signs.shape
    # The border: bits like any other if the layer pads with -1 or +1; with 0 it adds nothing, so it must not count.
    left, right, top, bottom = layer._reversed_padding_repeated_twice
    border = ((top, bottom), (left, right))
    filling = pack(np.full((channels, 1, 1), layer.pad_value or 1))
    padded = np.broadcast_to(filling, (top + height + bottom, left + width + right, x.shape[-1])).copy()
    padded[top : top + height, left : left + width] = x
    counts = np.pad(np.ones((height, width), int), border, constant_values=abs(layer.pad_value))

    (kernel_h, kernel_w), (stride_h, stride_w), (dilation_h, dilation_w) = (
        layer.kernel_size,
        layer.stride,
        layer.dilation,
    )
    out_h = (padded.shape[0] - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    out_w = (padded.shape[1] - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    total = np.zeros((out_h, out_w), int)
    for row in range(kernel_h):
        for column in range(kernel_w):
            here = (
                slice(row * dilation_h, row * dilation_h + out_h * stride_h, stride_h),
                slice(column * dilation_w, column * dilation_w + out_w * stride_w, stride_w),
            )
            differing = POPCOUNT[padded[here] ^ w[row, column]].sum(axis=-1)
            total += counts[here] * (channels - 2 * differing)
    return total


def show_map(axis: Axes, values: np.ndarray, title: str, note: str) -> None:
    """A map around zero: blue below, red above."""
    limit = float(np.abs(values).max()) or 1.0
    picture = axis.imshow(values, cmap='RdBu_r', vmin=-limit, vmax=limit)
    axis.figure.colorbar(picture, ax=axis, location='bottom', shrink=0.6, aspect=30)
    axis.set(title=title, xlabel=note, xticks=[], yticks=[])


def show_signs(axis: Axes, values: np.ndarray, title: str, note: str) -> None:
    """A map of two values."""
    picture = axis.imshow(values, cmap=ListedColormap(['#4a7fb5', '#d6604d']), vmin=-1, vmax=1)
    bar = axis.figure.colorbar(picture, ax=axis, location='bottom', shrink=0.6, aspect=30, ticks=[-0.5, 0.5])
    bar.ax.set_xticklabels(['-1', '+1'])
    axis.set(title=title, xlabel=note, xticks=[], yticks=[])


def show_filter(axis: Axes, cells: list[list[str]], colours: np.ndarray, title: str, note: str) -> None:
    """The positions of a filter with something written into each."""
    axis.imshow(colours, cmap='RdBu_r', vmin=-2, vmax=2, aspect='auto')
    for row, texts in enumerate(cells):
        for column, text in enumerate(texts):
            axis.text(column, row, text, ha='center', va='center', family='monospace', fontsize=12)
    axis.set(title=title, xlabel=note, xticks=[], yticks=[])


def hexadecimal(packed: np.ndarray) -> str:
    """The first 16 bytes, two digits each, four to a line."""
    digits = [f'{byte:02x}' for byte in packed[:16]]
    lines = [' '.join(digits[start : start + 4]) for start in range(0, len(digits), 4)]
    return '\n'.join([*lines, '...'] if len(packed) > 16 else lines)


def draw(painted: np.ndarray, seen: Look, total: np.ndarray, args: argparse.Namespace, layer: str) -> Figure:
    """All steps in one picture."""
    channel = args.channel
    latent, codes, packed = seen.latent[channel], seen.codes[channel], pack(seen.codes)
    figure = pyplot.figure(figsize=(16, 8), layout='constrained')
    grid = figure.add_gridspec(2, 4)
    axis = figure.add_subplot(grid[0, :2])
    axis.imshow(painted)
    axis.set(title='1. what the 1-bit detector finds, with scores', xticks=[], yticks=[])
    show_map(
        figure.add_subplot(grid[0, 2]),
        seen.before[channel],
        f'2. input channel {channel}: 32 bits per value',
        "the layer's input plus an offset that it learned",
    )
    show_signs(
        figure.add_subplot(grid[0, 3]),
        seen.signs[channel],
        '3. its sign: one bit per value',
        f'{100 * (seen.signs[channel] < 0).mean():.0f} % of the map is -1',
    )
    show_filter(
        figure.add_subplot(grid[1, 0]),
        [[f'{value:+.4f}' for value in row] for row in latent],
        latent / np.abs(latent).max(),
        f'4. filter {args.filter}, channel {channel}: latent weights',
        'what training keeps: 32 bits each',
    )
    show_filter(
        figure.add_subplot(grid[1, 1]),
        [['1' if value < 0 else '0' for value in row] for row in codes],
        codes,
        '5. their signs as bits',
        'what is deployed: 1 is -1, 0 is +1',
    )
    show_filter(
        figure.add_subplot(grid[1, 2]),
        [[hexadecimal(here) for here in row] for row in packed],
        np.zeros(packed.shape[:2]),
        f'6. filter {args.filter} packed: {packed.size} bytes',
        f'{packed.shape[2]} hexadecimal bytes per position, 8 channels in each',
    )
    show_map(
        figure.add_subplot(grid[1, 3]),
        total.astype(float),
        f'7. output of filter {args.filter}: XOR and popcount',
        f"times {seen.scale:.5f}: the layer's own output",
    )
    figure.suptitle(f'{layer}: {seen.codes.size} weights in {packed.size} bytes')
    return figure


@report_errors
def main() -> None:
    args = parse_args()
    out = args.out or Path(f'{Path(args.image).stem}_look_inside.png')
    check_input(args.image, args.config, args.checkpoint)
    check_picture(out)
    # On the CPU, where a sum of whole numbers is exact.
    detector = load_detector(args.config, args.checkpoint, 'cpu')
    name, layer = choose_layer(detector.model, args)

    calls: list[tuple[torch.Tensor, torch.Tensor]] = []
    handle = layer.register_forward_hook(lambda layer, inputs, output: calls.append((inputs[0], output.clone())))
    found = detections(detector, args.image, args.score_thr)
    handle.remove()
    print(f'objects    {len(found)} with a score of at least {args.score_thr:g} in {args.image}')
    if not calls:
        raise RebnnError(f'{name} was not called: the detector proposed no region. Take a layer of the backbone.')

    seen = look(layer, *calls[0], args.filter)
    if not (set(np.unique(seen.signs)) <= {-1, 1} and set(np.unique(seen.codes)) <= {-1, 1}):
        raise RebnnError(f'{name} has other values than -1 and +1, as DoReFa-Net has. This demo shows signs only.')
    channels, height, width = seen.signs.shape
    print(f'layer      {name}, filter {args.filter} of {layer.out_channels}: {channels} channels of {height}x{width}')
    packed = pack(seen.codes)
    print(f'weights    {seen.codes.size} latent ones in {seen.latent.nbytes} bytes, as bits in {packed.size}')
    print('bytes     ', *hexadecimal(packed[0, 0]).split())

    total = binary_convolution(layer, seen.signs, seen.codes)
    recomputed = total.astype(np.float32) * seen.scale + seen.bias
    equal = recomputed == seen.output
    print(f'output     {total.min()} to {total.max()} times {seen.scale:.6f}, from XOR and popcount')
    print(f"the same   {equal.sum()} of {equal.size} values equal the layer's own output to the last bit")

    matplotlib.use('Agg')
    painted = paint(args.image, found, detector.model.dataset_meta['classes'], width=450)
    with user_errors(output=out):
        save_picture(draw(painted, seen, total, args, name), out, dpi=130)
    print(f'picture    {out}')
    if not equal.all():
        worst = np.abs(recomputed - seen.output).max()
        raise RebnnError(f'the bits give another output than the layer, by up to {worst:g}.')


if __name__ == '__main__':
    main()
