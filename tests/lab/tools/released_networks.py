"""Small networks of released codes, written out under the names that parameters have there."""

from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]


def sign(x: Tensor) -> Tensor:
    return torch.where(x < 0, -1.0, 1.0).to(x)


def norm(state: State, name: str, x: Tensor) -> Tensor:
    mean, var, weight, bias = (state[f'{name}.{n}'] for n in ('running_mean', 'running_var', 'weight', 'bias'))
    return functional.batch_norm(x, mean, var, weight, bias)


def drawn(shapes: Iterable[tuple[str, tuple[int, ...]]], seed: int = 0) -> State:
    """Random values; those of variances are positive."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes:
        value = 0.3 * torch.randn(shape, generator=generator)
        state[name] = value.abs() + 0.5 if name.endswith('running_var') else value
    return state


def norm_of(name: str, channels: int) -> list[tuple[str, tuple[int, ...]]]:
    parts = ('weight', 'bias', 'running_mean', 'running_var')
    return [*((f'{name}.{part}', (channels,)) for part in parts), (f'{name}.num_batches_tracked', ())]


def scaled(weight: Tensor) -> Tensor:
    return weight.abs().mean(dim=(1, 2, 3), keepdim=True) * sign(weight)


def slope(state: State, name: str, x: Tensor) -> Tensor:
    return functional.prelu(x, state[f'{name}.weight'])


def mobile_channels(first: int) -> list[int]:
    return [first, 2 * first, *[4 * first] * 2, *[8 * first] * 2, *[16 * first] * 6, *[32 * first] * 2]


class ReActNetA:
    """liuzechun/ReActNet, mobilenet/2_step2: binary weights are columns."""

    name, narrow, channels = 'reactnet-a', dict(base_channels=4), 128

    @staticmethod
    def shapes() -> list[tuple[str, tuple[int, ...]]]:
        widths = mobile_channels(4)
        found = [('feature.0.conv1.weight', (4, 3, 3, 3)), *norm_of('feature.0.bn1', 4)]
        for i, (before, after) in enumerate(pairwise(widths), start=1):
            at = f'feature.{i}'
            for move in ('11', '12', '13', '21'):
                found.append((f'{at}.move{move}.bias', (1, before, 1, 1)))
            found += [(f'{at}.move{move}.bias', (1, after, 1, 1)) for move in ('22', '23')]
            found += [(f'{at}.prelu1.weight', (before,)), (f'{at}.prelu2.weight', (after,))]
            found += [(f'{at}.binary_3x3.weights', (9 * before * before, 1)), *norm_of(f'{at}.bn1', before)]
            if before == after:
                found += [(f'{at}.binary_pw.weights', (before * before, 1)), *norm_of(f'{at}.bn2', before)]
            else:
                for half in ('1', '2'):
                    found.append((f'{at}.binary_pw_down{half}.weights', (before * before, 1)))
                    found += norm_of(f'{at}.bn2_{half}', before)
        return [*found, ('fc.weight', (1000, 128)), ('fc.bias', (1000,))]

    @staticmethod
    def forward(state: State, x: Tensor) -> Tensor:
        x = norm(state, 'feature.0.bn1', functional.conv2d(x, state['feature.0.conv1.weight'], stride=2, padding=1))
        for i in range(1, 14):
            at = f'feature.{i}'
            count = x.shape[1]
            widens = f'{at}.bn2.weight' not in state
            stride = 2 if widens and i > 1 else 1

            def moved(y: Tensor, number: str, at: str = at) -> Tensor:
                return y + state[f'{at}.move{number}.bias']

            def product(y: Tensor, name: str, size: int, at: str = at, count: int = count, **options: int) -> Tensor:
                weight = state[f'{at}.{name}.weights'].view(count, count, size, size)
                return functional.conv2d(y, scaled(weight), **options)

            y = norm(state, f'{at}.bn1', product(sign(moved(x, '11')), 'binary_3x3', 3, stride=stride, padding=1))
            y = y + (functional.avg_pool2d(x, 2) if stride == 2 else x)
            y = moved(slope(state, f'{at}.prelu1', moved(y, '12')), '13')
            signs = sign(moved(y, '21'))
            if widens:
                halves = [
                    norm(state, f'{at}.bn2_{n}', product(signs, f'binary_pw_down{n}', 1)) + y for n in ('1', '2')
                ]
                z = torch.cat(halves, dim=1)
            else:
                z = norm(state, f'{at}.bn2', product(signs, 'binary_pw', 1)) + y
            x = moved(slope(state, f'{at}.prelu2', moved(z, '22')), '23')
        return functional.linear(x.mean(dim=(2, 3)), state['fc.weight'], state['fc.bias'])


class SingleConvolutions:
    """liuzechun/ReActNet, resnet/2_step2, and, without shifts, liuzechun/Bi-Real-net: a block is one convolution."""

    narrow, channels = dict(base_channels=4), 32

    def __init__(self, name: str, shifts: bool, weights: str) -> None:
        self.name, self.shifts, self.weights = name, shifts, weights

    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        found = [('conv1.weight', (4, 3, 7, 7)), *norm_of('bn1', 4)]
        before = 4
        for layer in range(4):
            after = 4 * 2**layer
            for i in range(4):
                at = f'layer{layer + 1}.{i}'
                shape = (after, before, 3, 3)
                column = (after * before * 9, 1)
                found.append((f'{at}.binary_conv.{self.weights}', column if self.weights == 'weights' else shape))
                found += norm_of(f'{at}.bn1', after)
                if self.shifts:
                    found.append((f'{at}.move0.bias', (1, before, 1, 1)))
                    found += [(f'{at}.move{n}.bias', (1, after, 1, 1)) for n in (1, 2)]
                    found.append((f'{at}.prelu.weight', (after,)))
                if before != after:
                    found.append((f'{at}.downsample.1.weight', (after, before, 1, 1)))
                    found += norm_of(f'{at}.downsample.2', after)
                before = after
        return [*found, ('fc.weight', (1000, 32)), ('fc.bias', (1000,))]

    def forward(self, state: State, x: Tensor) -> Tensor:
        x = norm(state, 'bn1', functional.conv2d(x, state['conv1.weight'], stride=2, padding=3))
        x = functional.max_pool2d(x, 3, 2, padding=1)
        for at in (f'layer{layer}.{i}' for layer in (1, 2, 3, 4) for i in range(4)):
            after = len(state[f'{at}.bn1.weight'])
            stride = 1 if after == x.shape[1] else 2
            shortcut = x
            if stride == 2:
                pooled = functional.avg_pool2d(x, 2)
                shortcut = norm(
                    state, f'{at}.downsample.2', functional.conv2d(pooled, state[f'{at}.downsample.1.weight'])
                )
            weight = state[f'{at}.binary_conv.{self.weights}'].view(after, x.shape[1], 3, 3)
            signs = sign(x + state[f'{at}.move0.bias'] if self.shifts else x)
            x = norm(state, f'{at}.bn1', functional.conv2d(signs, scaled(weight), stride=stride, padding=1)) + shortcut
            if self.shifts:
                x = slope(state, f'{at}.prelu', x + state[f'{at}.move1.bias']) + state[f'{at}.move2.bias']
        return functional.linear(x.mean(dim=(2, 3)), state['fc.weight'], state['fc.bias'])


class BiReal50:
    """liuzechun/Bi-Real-net, BiReal_50: blocks are counted through the whole network."""

    name, narrow, channels = 'bireal-resnet50', dict(base_channels=4), 128
    depths = (3, 4, 6, 3)

    @classmethod
    def shapes(cls) -> list[tuple[str, tuple[int, ...]]]:
        found = [('conv1.weight', (4, 3, 7, 7)), *norm_of('bn1', 4)]
        before, index = 4, 0
        for stage, depth in enumerate(cls.depths):
            middle, after = 4 * 2**stage, 16 * 2**stage
            for i in range(depth):
                at = f'layers.{index}'
                for n, (out, into, size) in enumerate(
                    [(middle, before, 1), (middle, middle, 3), (after, middle, 1)], start=1
                ):
                    found += [(f'{at}.conv{n}.weight', (out, into, size, size)), *norm_of(f'{at}.bn{n}', out)]
                if not i:
                    # The first block holds one, too, and computes nothing with it.
                    found.append((f'{at}.down_conv1x1.weight', (after // 4, before // 4, 1, 1)))
                    found.append((f'{at}.downsample.1.weight', (after, before, 1, 1)))
                    found += norm_of(f'{at}.downsample.2', after)
                before = after
                index += 1
        return [*found, ('fc.weight', (1000, 128)), ('fc.bias', (1000,))]

    @classmethod
    def forward(cls, state: State, x: Tensor) -> Tensor:
        x = norm(state, 'bn1', functional.conv2d(x, state['conv1.weight'], stride=2, padding=3))
        narrow = wide = functional.max_pool2d(x, 3, 2, padding=1)
        for index in range(sum(cls.depths)):
            at = f'layers.{index}'
            begins = f'{at}.downsample.1.weight' in state
            stride = 2 if begins and index else 1

            def pooled(y: Tensor, stride: int = stride) -> Tensor:
                return functional.avg_pool2d(y, stride)

            first = wide.clamp(-1, 1) + 0.1 * (wide - wide.clamp(-1, 1)) if index == 0 else sign(wide)
            weight = state[f'{at}.conv1.weight']
            y = norm(state, f'{at}.bn1', functional.conv2d(first, weight if index == 0 else scaled(weight)))
            if index and begins:
                narrow = functional.conv2d(narrow, state[f'{at}.down_conv1x1.weight'])
            y = y + narrow if index else y
            z = functional.conv2d(sign(y), scaled(state[f'{at}.conv2.weight']), stride=stride, padding=1)
            z = norm(state, f'{at}.bn2', z) + pooled(y)
            out = norm(state, f'{at}.bn3', functional.conv2d(sign(z), scaled(state[f'{at}.conv3.weight'])))
            if begins:
                shortcut = functional.conv2d(pooled(wide), state[f'{at}.downsample.1.weight'])
                wide = norm(state, f'{at}.downsample.2', shortcut)
            narrow, wide = z, out + wide
        return functional.linear(wide.mean(dim=(2, 3)), state['fc.weight'], state['fc.bias'])


class BiDet18:
    """ZiweiWangTHU/BiDet, faster_rcnn: each convolution has its norm and its shortcut inside; borders are -1."""

    name, narrow, channels = 'bidet-resnet18', dict(base_channels=4), 32

    @staticmethod
    def shapes() -> list[tuple[str, tuple[int, ...]]]:
        found = [('conv1.weight', (4, 3, 7, 7)), *norm_of('bn1', 4)]
        before = 4
        for at, after in BiDet18.units():
            found += [(f'{at}.conv.weight', (after, before, 3, 3)), *norm_of(f'{at}.bn', after)]
            if before != after:
                found.append((f'{at}.res_func.1.weight', (after, before, 1, 1)))
                found += norm_of(f'{at}.res_func.2', after)
            before = after
        return [*found, ('fc.weight', (1000, 32)), ('fc.bias', (1000,))]

    @staticmethod
    def units() -> list[tuple[str, int]]:
        stages = enumerate((4, 8, 16, 32), start=1)
        return [(f'layer{s}.{i}.conv{half}', after) for s, after in stages for i in (0, 1) for half in (1, 2)]

    @staticmethod
    def forward(state: State, x: Tensor) -> Tensor:
        x = norm(state, 'bn1', functional.conv2d(x, state['conv1.weight'], stride=2, padding=3))
        x = functional.max_pool2d(x, 3, 2, padding=1)
        for at, after in BiDet18.units():
            stride = 1 if after == x.shape[1] else 2
            shortcut = x
            if stride == 2:
                pooled = functional.avg_pool2d(x, 2, 2, ceil_mode=True)
                shortcut = norm(state, f'{at}.res_func.2', functional.conv2d(pooled, state[f'{at}.res_func.1.weight']))
            signs = functional.pad(sign(x), (1, 1, 1, 1), value=-1.0)
            y = functional.conv2d(signs, scaled(state[f'{at}.conv.weight']), stride=stride)
            x = norm(state, f'{at}.bn', y) + shortcut
        return functional.linear(x.mean(dim=(2, 3)), state['fc.weight'], state['fc.bias'])


class BNextTiny:
    """hpi-xnor/BNext: each unit holds two activations, whether it computes with them or not."""

    name, narrow, channels = 'bnext-tiny', dict(base_channels=8), 256

    @staticmethod
    def shapes() -> list[tuple[str, tuple[int, ...]]]:
        widths = mobile_channels(8)
        found = [
            ('feature.0.conv1.weight', (8, 3, 3, 3)),
            *norm_of('feature.0.bn1', 8),
            ('feature.0.prelu.weight', (8,)),
        ]
        for i, (before, after) in enumerate(pairwise(widths), start=1):
            pointwise = ('FFN',) if before == after else ('FFN_1', 'FFN_2')
            for unit in ('Attention', *pointwise):
                at, size = f'feature.{i}.{unit}', 3 if unit == 'Attention' else 1
                found += [
                    (f'{at}.move.bias', (1, before, 1, 1)),
                    (f'{at}.binary_activation.temperature', (1,)),
                    (f'{at}.binary_conv.weight', (before, before, size, size)),
                    (f'{at}.binary_conv.temperature', (1,)),
                    *norm_of(f'{at}.norm1', before),
                    *norm_of(f'{at}.norm2', before),
                    (f'{at}.activation1.weight', (before,)),
                    (f'{at}.activation2.weight', (before,)),
                    (f'{at}.se.se.1.weight', (before // 8, before, 1, 1)),
                    (f'{at}.se.se.1.bias', (before // 8,)),
                    (f'{at}.se.se.3.weight', (before, before // 8, 1, 1)),
                    (f'{at}.se.se.3.bias', (before,)),
                    (f'{at}.scale', (1, before, 1, 1)),
                ]
        return [*found, ('prelu.weight', (256,)), ('fc.weight', (1000, 256)), ('fc.bias', (1000,))]

    @staticmethod
    def forward(state: State, x: Tensor) -> Tensor:
        def unit(at: str, x: Tensor, stride: int, attention: bool) -> Tensor:
            weight = sign(state[f'{at}.binary_conv.weight'])
            z = functional.conv2d(
                sign(x + state[f'{at}.move.bias']), weight, stride=stride, padding=weight.shape[-1] // 2
            )
            z = slope(state, f'{at}.activation2', norm(state, f'{at}.norm1', z))
            residual = functional.avg_pool2d(slope(state, f'{at}.activation1', x) if attention else x, stride)
            share = state[f'{at}.scale']
            mean = (share * functional.avg_pool2d(x, stride) + (1 - share) * z).mean(dim=(2, 3), keepdim=True)
            for layer, act in (('1', torch.relu), ('3', torch.sigmoid)):
                mean = act(
                    functional.conv2d(mean, state[f'{at}.se.se.{layer}.weight'], state[f'{at}.se.se.{layer}.bias'])
                )
            z = z * mean * residual if attention else z * mean
            return norm(state, f'{at}.norm2', z) + residual

        x = norm(state, 'feature.0.bn1', functional.conv2d(x, state['feature.0.conv1.weight'], stride=2, padding=1))
        for i in range(1, 14):
            widens = f'feature.{i}.FFN_1.scale' in state
            y = unit(f'feature.{i}.Attention', x, 2 if widens and i > 1 else 1, attention=i % 2 == 0)
            names = ('FFN_1', 'FFN_2') if widens else ('FFN',)
            x = torch.cat([unit(f'feature.{i}.{name}', y, 1, attention=False) for name in names], dim=1)
        x = slope(state, 'prelu', x).mean(dim=(2, 3))
        return functional.linear(x, state['fc.weight'], state['fc.bias'])


class Pairs:
    """The released ResNets whose blocks have two convolutions, of AdaBin, IR-Net and ReCU.

    Args:
        name: as the tool knows it.
        kind: 'adabin', 'irnet' or 'recu'.
        shortcut: 'none', 'shortcut.0', 'downsample.0' or 'downsample.1', which is after a pooling.
        last: name of the classifier.
        more: further names and shapes.
    """

    def __init__(
        self, name: str, kind: str, shortcut: str, last: str = 'fc', more: tuple[tuple[str, tuple[int, ...]], ...] = ()
    ) -> None:
        self.name, self.kind, self.shortcut, self.last, self.more = name, kind, shortcut, last, more
        cifar20 = name.endswith('resnet20')
        self.stages = (4, 8, 16) if cifar20 else (4, 8, 16, 32)
        self.depths = (3, 3, 3) if cifar20 else (3, 4, 6, 3) if '34' in name else (2, 2, 2, 2)
        self.cifar = cifar20 or 'cifar10' in name
        self.narrow, self.channels = dict(base_channels=4), self.stages[-1]

    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        classes, size = (10, 3) if self.cifar else (1000, 7)
        found = [('conv1.weight', (4, 3, size, size)), *norm_of('bn1', 4)]
        if self.kind == 'adabin':
            found += [(f'nonlinear1.{part}_scale', (4,)) for part in ('pos', 'neg')]
        before = 4
        for stage, (after, depth) in enumerate(zip(self.stages, self.depths, strict=True), start=1):
            for i in range(depth):
                at = f'layer{stage}.{i}'
                for half, into in ((1, before), (2, after)):
                    found += [(f'{at}.conv{half}.weight', (after, into, 3, 3)), *norm_of(f'{at}.bn{half}', after)]
                    if self.kind == 'adabin':
                        found += [(f'{at}.nonlinear{half}.{part}_scale', (after,)) for part in ('pos', 'neg')]
                        found += [(f'{at}.conv{half}.binary_a.{part}_a', ()) for part in ('alpha', 'beta')]
                    if self.kind == 'recu':
                        found += [(f'{at}.conv{half}.alpha', (after, 1, 1)), (f'{at}.conv{half}.tau', ())]
                if before != after and self.shortcut != 'none':
                    name, number = self.shortcut.split('.')
                    found.append((f'{at}.{name}.{number}.weight', (after, before, 1, 1)))
                    found += norm_of(f'{at}.{name}.{int(number) + 1}', after)
                before = after
        found += norm_of('bn2', self.channels)
        return [
            *found,
            *self.more,
            (f'{self.last}.weight', (classes, self.channels)),
            (f'{self.last}.bias', (classes,)),
        ]


WRITTEN_OUT = [
    ReActNetA(),
    SingleConvolutions('reactnet-resnet18', shifts=True, weights='weight'),
    SingleConvolutions('bireal-resnet18', shifts=False, weights='weights'),
    BiReal50(),
    BiDet18(),
    BNextTiny(),
]
"""Those with a function, which is compared."""

HEADLESS = tuple((f'nonlinear2.{part}_scale', (32,)) for part in ('pos', 'neg'))
NORM_OF_SCORES = tuple(norm_of('bn3', 1000))
NAMED = [
    Pairs('adabin-resnet20', 'adabin', 'none', last='linear'),
    Pairs('adabin-resnet18-cifar10', 'adabin', 'shortcut.0', last='linear'),
    Pairs('adabin-resnet18', 'adabin', 'downsample.1', more=(*HEADLESS, *NORM_OF_SCORES)),
    Pairs('adabin-resnet34', 'adabin', 'downsample.1', more=(*HEADLESS, *NORM_OF_SCORES)),
    Pairs('irnet-resnet20', 'irnet', 'none', last='linear'),
    Pairs('irnet-resnet18', 'irnet', 'downsample.0', more=NORM_OF_SCORES),
    Pairs('recu-resnet20', 'recu', 'none', last='linear'),
    Pairs('recu-resnet18', 'recu', 'downsample.0'),
    Pairs('recu-resnet34', 'recu', 'downsample.0'),
]
"""Those whose names and shapes are compared."""
