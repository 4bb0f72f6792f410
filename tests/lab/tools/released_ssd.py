"""ZiweiWangTHU/BiDet's SSD300 on VOC, written out: its network, prior boxes and detections, under its names."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from .released_networks import State, norm, norm_of

CLASSES = 21
"""The background, which is the first, among them."""

ANCHORS = (4, 6, 6, 6, 4, 4)
BLOCKS = (1, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8)
"""Channels of the layers 0 and 2 to 17, over those of the first."""

STRIDED = (3, 6, 10, 14)


def shapes(width: int = 64, classes: int = CLASSES) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all parameters, in a network whose first layer has so many channels."""
    found = [('vgg.layers.0.weight', (width, 3, 3, 3)), *norm_of('vgg.layers.1', width)]
    widths = [width, *(width * times for times in (1, *BLOCKS[1:]))][: len(BLOCKS)]
    for index, (before, after) in enumerate(pairwise(widths), start=2):
        at = f'vgg.layers.{index}'
        found += [(f'{at}.conv.weight', (after, before, 3, 3)), *norm_of(f'{at}.bn', after)]
        if index in STRIDED:
            found += [(f'{at}.downsample.1.weight', (after, before, 1, 1)), *norm_of(f'{at}.downsample.2', after)]
    last = 16 * width
    found += [('vgg.layers.19.weight', (last, 8 * width, 3, 3)), *norm_of('vgg.layers.20', last)]
    found += [('vgg.layers.22.weight', (last, last, 1, 1)), ('vgg.layers.22.bias', (last,))]
    found += [*norm_of('vgg.layers.23', last), ('L2Norm.weight', (8 * width,))]
    maps, before = [8 * width, last], last
    for index, times in enumerate((4, 8, 2, 4, 2, 4, 2, 4)):
        size = 3 if index % 2 else 1
        after = times * width
        found.append((f'extras.{index}.weight', (after, before, size, size)))
        maps += [after] if index % 2 else []
        before = after
    for index, times in enumerate((4, 8, 2, 4, 2, 4, 2, 4)):
        found += norm_of(f'extra_bns.{index}', times * width)
    for name, values in (('loc', 8), ('conf', classes)):
        for i, (channels, anchors) in enumerate(zip(maps, ANCHORS, strict=True)):
            found.append((f'{name}.{i}.weight', (anchors * values, channels, 3, 3)))
            found.append((f'{name}.{i}.bias', (anchors * values,)))
    return found


def binary(state: State, name: str, x: Tensor, stride: int = 1, padding: int = 0, dilation: int = 1) -> Tensor:
    """Signs, of which that of 0 is 0, in a border of -1, and a weight with one scale per filter."""
    weight = state[f'{name}.weight']
    scaled = weight.abs().mean(dim=(1, 2, 3), keepdim=True) * weight.sign()
    signs = functional.pad(x.sign(), [padding] * 4, value=-1.0)
    return functional.conv2d(signs, scaled, stride=stride, dilation=dilation)


def maps(state: State, images: Tensor) -> list[Tensor]:
    """The six maps that the heads see."""
    x = functional.conv2d(images, state['vgg.layers.0.weight'], padding=1)
    x = norm(state, 'vgg.layers.1', x)
    for index in range(2, 18):
        at = f'vgg.layers.{index}'
        strided = index in STRIDED
        shortcut = x
        if strided:
            pooled = functional.avg_pool2d(x, 2, 2, ceil_mode=index == 10)
            shortcut = functional.conv2d(pooled, state[f'{at}.downsample.1.weight'])
            shortcut = norm(state, f'{at}.downsample.2', shortcut)
        x = norm(state, f'{at}.bn', binary(state, f'{at}.conv', x, 2 if strided else 1, 1)) + shortcut
        if index == 13:
            length = x.square().sum(dim=1, keepdim=True).sqrt() + 1e-10
            found = [state['L2Norm.weight'].view(-1, 1, 1) * x / length]
    x = functional.max_pool2d(x, 3, 1, padding=1)
    x = norm(state, 'vgg.layers.20', binary(state, 'vgg.layers.19', x, padding=6, dilation=6)).relu()
    x = functional.conv2d(x, state['vgg.layers.22.weight'], state['vgg.layers.22.bias'])
    x = norm(state, 'vgg.layers.23', x).relu()
    found.append(x)
    for index in range(8):
        stride, padding = (2, 1) if index in (1, 3) else (1, 0)
        x = norm(state, f'extra_bns.{index}', binary(state, f'extras.{index}', x, stride, padding))
        if index % 2:
            found.append(x)
    return found


def predictions(state: State, images: Tensor) -> tuple[Tensor, Tensor]:
    """Of every prior box log variances and means, (N, 8732, 8), and class scores, (N, 8732, 21)."""
    both = []
    for name, values in (('loc', 8), ('conf', CLASSES)):
        levels = []
        for i, x in enumerate(maps(state, images)):
            y = functional.conv2d(x, state[f'{name}.{i}.weight'], state[f'{name}.{i}.bias'], padding=1)
            levels.append(y.permute(0, 2, 3, 1).reshape(len(y), -1, values))
        both.append(torch.cat(levels, dim=1))
    return both[0], both[1]


def prior_boxes() -> Tensor:
    """Centre and size of each, as shares of the image's, (8732, 4)."""
    sizes = (30, 60, 111, 162, 213, 264, 315)
    found = []
    for level, (cells, step, ratios) in enumerate(
        zip((38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300), ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)), strict=True)
    ):
        side, next_side = sizes[level], sizes[level + 1]
        boxes = [(side, side), ((side * next_side) ** 0.5,) * 2]
        for ratio in ratios:
            long, short = side * ratio**0.5, side / ratio**0.5
            boxes += [(long, short), (short, long)]
        for row in range(cells):
            for column in range(cells):
                found += [((column + 0.5) * step, (row + 0.5) * step, *box) for box in boxes]
    return (torch.tensor(found, dtype=torch.float64) / 300).clamp(0, 1)


def decoded(means: Tensor) -> Tensor:
    """Corners of the predicted boxes as shares of the image's size; they may leave it."""
    priors = prior_boxes()
    centre = priors[:, :2] + 0.1 * means[:, :2] * priors[:, 2:]
    half = priors[:, 2:] * (0.2 * means[:, 2:]).exp() / 2
    return torch.cat([centre - half, centre + half], dim=1)


def detections(boxes: Tensor, scores: Tensor, threshold: float) -> list[Tensor]:
    """For each class but the background score and corners of what survives, best first, (K, 5)."""
    found = []
    for score in scores.unbind(1)[1:]:
        order = score.argsort(descending=True, stable=True)
        order = order[score[order] > threshold][:200]
        kept: list[int] = []
        for i in order.tolist():
            if not kept or overlap(boxes[i], boxes[kept]).max() <= 0.45:
                kept.append(i)
        found.append(torch.cat([score[kept, None], boxes[kept]], dim=1))
    return found


def overlap(one: Tensor, others: Tensor) -> Tensor:
    def area(corners: Tensor) -> Tensor:
        return (corners[:, 2:] - corners[:, :2]).clamp(min=0).prod(dim=1)

    shared = area(torch.cat([torch.maximum(one[:2], others[:, :2]), torch.minimum(one[2:], others[:, 2:])], dim=1))
    return shared / (area(one[None]) + area(others) - shared)
