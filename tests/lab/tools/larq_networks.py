"""Larq Zoo's networks, narrow and written out layer by layer, with Keras' padding and names."""

from collections.abc import Callable
from math import ceil

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .released_networks import sign


def same(x: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Padded so that the map comes out at ceil(size / stride), the larger half at the right and the bottom."""
    pads: list[int] = []
    for length in (x.shape[3], x.shape[2]):
        needed = max((ceil(length / stride) - 1) * stride + kernel - length, 0)
        pads += [needed // 2, needed - needed // 2]
    return functional.pad(x, pads, value=value)


class Keras:
    """Layers that draw their values when they are called and are numbered from 8 on, as late in a session.

    Attributes:
        stored: layer, path and value of each tensor, as a file holds them.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.stored: list[tuple[str, str, np.ndarray]] = []
        self.numbers: dict[str, int] = {}

    def layer(self, kind: str, name: str, **values: np.ndarray) -> list[Tensor]:
        if not name:
            number = self.numbers[kind] = self.numbers.get(kind, 7) + 1
            name = f'{kind}_{number}'
        self.stored += [(name, f'{name}/{key}:0', value.astype(np.float32)) for key, value in values.items()]
        return [torch.from_numpy(value.astype(np.float32)).double() for value in values.values()]

    def drawn(self, *shape: int) -> np.ndarray:
        return self.random.normal(0, 0.4, shape)

    def conv(self, x, filters, size, stride=1, *, name='', kind='conv2d', quantize=None, pad=0.0):
        (kernel,) = self.layer(kind, name, kernel=self.drawn(size, size, x.shape[1], filters))
        kernel = kernel.permute(3, 2, 0, 1)
        if quantize is not None:
            x, kernel = sign(x), quantize(kernel)
        return functional.conv2d(same(x, size, stride, pad), kernel, stride=stride)

    def depthwise(self, x, kind, kernel, stride):
        (kernel,) = self.layer(kind, '', depthwise_kernel=kernel)
        return functional.conv2d(same(x, 3, stride), kernel.permute(2, 3, 0, 1), stride=stride, groups=x.shape[1])

    def norm(self, x, name='', *, eps=1e-3, affine=True):
        channels = x.shape[1]
        values = dict(gamma=self.drawn(channels) + 1, beta=self.drawn(channels)) if affine else {}
        moments = dict(moving_mean=self.drawn(channels), moving_variance=self.random.uniform(0.002, 1, channels))
        *affine_values, mean, var = self.layer('batch_normalization', name, **values, **moments)
        return functional.batch_norm(x, mean, var, *affine_values, eps=eps)

    def prelu(self, x, name):
        (alpha,) = self.layer('p_re_lu', name, alpha=self.random.uniform(-0.5, 0.5, (1, 1, x.shape[1])))
        return functional.prelu(x, alpha.flatten())

    def dense(self, x, units, *, kind='dense', name='', bias=True):
        values = dict(kernel=self.drawn(x.shape[1], units), **(dict(bias=self.drawn(units)) if bias else {}))
        kernel, *bias_value = self.layer(kind, name, **values)
        return functional.linear(x, kernel.T, *bias_value)


def scaled(kernel: Tensor) -> Tensor:
    return kernel.abs().mean(dim=(1, 2, 3), keepdim=True) * sign(kernel)


def max_pooled(x: Tensor, size: int) -> Tensor:
    return functional.max_pool2d(same(x, size, 2, -torch.inf), size, 2)


def quicknet(keras: Keras, x: Tensor) -> Tensor:
    widths, depths = (8, 16, 64, 128), (4, 4, 4, 4)
    x = keras.norm(keras.conv(x, widths[0] // 4, 3, 2, kind='quant_conv2d')).relu()
    x = keras.depthwise(x, 'quant_depthwise_conv2d', keras.drawn(3, 3, x.shape[1], 1), 2)
    x = keras.norm(keras.conv(keras.norm(x, affine=False), widths[0], 1, kind='quant_conv2d'))
    blur = np.outer([1, 2, 1], [1, 2, 1])[:, :, None, None] / 16
    for width, depth in zip(widths, depths, strict=True):
        if width != x.shape[1]:
            x = functional.max_pool2d(x.relu(), 2, 1)
            x = keras.depthwise(x, 'depthwise_conv2d', np.repeat(blur, x.shape[1], 2), 2)
            x = keras.norm(keras.conv(x, width, 1, kind='quant_conv2d'), eps=1e-5)
        for _ in range(depth):
            y = keras.conv(x, width, 3, kind='quant_conv2d', quantize=sign, pad=1.0).relu()
            x = keras.norm(y, eps=1e-5) + x
    return keras.dense(x.relu().mean((2, 3)), 1000, kind='quant_dense')


def real_to_binary(keras: Keras, x: Tensor) -> Tensor:
    at = 'r2b_bnn_block_'
    x = keras.prelu(keras.norm(keras.conv(x, 16, 7, 2, name=f'{at}1_conv2d'), f'{at}1_batch_norm'), f'{at}1_prelu')
    x = max_pooled(x, 3)
    for block in range(2, 10):
        for half in 'ab':
            name, before = f'{at}{block}{half}_', x.shape[1]
            widens = half == 'a' and block in (4, 6, 8)
            width = 2 * before if widens else before
            shortcut = x
            if widens:
                shortcut = keras.conv(functional.avg_pool2d(x, 2), width, 1, name=f'{name}shortcut_conv2d')
                shortcut = keras.norm(shortcut, f'{name}shortcut_batch_norm')
            u = keras.norm(x, f'{name}batch_norm')
            y = keras.conv(u, width, 3, 1 + widens, name=f'{name}conv2d', quantize=sign)
            gate = keras.dense(u.mean((2, 3)), before // 8, name=f'{name}scaling_dense_reduce', bias=False).relu()
            gate = keras.dense(gate, width, name=f'{name}scaling_dense_expand', bias=False).sigmoid()
            x = keras.prelu(y * gate[:, :, None, None], f'{name}prelu') + shortcut
    return keras.dense(x.mean((2, 3)), 1000, name=f'{at}10_logits')


def meliusnet(keras: Keras, x: Tensor) -> Tensor:
    def norm(x, name):
        return keras.norm(x, name, eps=1e-5)

    def grouped(x, filters, groups, name):
        parts = enumerate(x.chunk(groups, 1))
        return torch.cat([keras.conv(part, filters // groups, 3, name=f'{name}_conv{i}') for i, part in parts], 1)

    x = norm(keras.conv(x, 8, 3, 2, name='stem_s0_conv'), 'stem_s0_bn').relu()
    x = norm(grouped(x, 8, 4, 'stem_s1_groupconv'), 'stem_s1_bn').relu()
    x = max_pooled(norm(grouped(x, 16, 8, 'stem_s2_groupconv'), 'stem_s2_bn').relu(), 2)
    for section, (blocks, left) in enumerate(((4, 40), (5, 56), (4, 64), (4, 0))):
        for block in range(blocks):
            at = f'section_{section}_block_{block}_'
            y = keras.conv(norm(x, f'{at}dense_bn'), 16, 3, name=f'{at}dense_binconv', quantize=sign)
            x = torch.cat([x, y], 1)
            y = keras.conv(norm(x, f'{at}improve_bn'), 16, 3, name=f'{at}improve_binconv', quantize=sign)
            x = torch.cat([x[:, :-16], x[:, -16:] + y], 1)
        if left:
            at = f'section_{section}_transition_'
            x = keras.conv(max_pooled(norm(x, f'{at}bn'), 2).relu(), left, 1, name=f'{at}pw')
    return keras.dense(norm(x, 'head_bn').relu().mean((2, 3)), 1000, name='head_dense')


def bireal(keras: Keras, x: Tensor) -> Tensor:
    x = max_pooled(keras.norm(keras.conv(x, 8, 7, 2)), 3)
    for block in range(16):
        widens = block in (4, 8, 12)
        width = x.shape[1] * (1 + widens)
        shortcut = keras.norm(keras.conv(functional.avg_pool2d(x, 2), width, 1)) if widens else x
        x = keras.norm(keras.conv(x, width, 3, 1 + widens, kind='quant_conv2d', quantize=scaled)) + shortcut
    return keras.dense(x.mean((2, 3)), 1000)


NETWORKS: dict[str, tuple[Callable[[Keras, Tensor], Tensor], int, dict]] = {
    'quicknet-small': (quicknet, 128, dict(width=0.25)),
    'larq-real-to-binary': (
        real_to_binary,
        128,
        dict(base_channels=16, stem_act=dict(type='PReLU', num_parameters=16)),
    ),
    'larq-meliusnet22': (meliusnet, 128, dict(base_channels=16)),
    'larq-bireal-resnet18': (bireal, 64, dict(base_channels=8)),
}
"""Network, channels of its last map and what makes ours as narrow, by the name that the tool takes."""
