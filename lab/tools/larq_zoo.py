"""Keras files of Larq Zoo's networks: their tensors under PyTorch's names, and where each layer has its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import BatchNorm2d

Rule = tuple[str, 'str | Callable[[re.Match[str]], str]']
"""A pattern, and what takes its place, as for :func:`re.sub`."""

Stored = tuple[str, str, NDArray[np.floating[Any]]]
"""Layer, path and value of a tensor in a file."""

HDF5 = b'\x89HDF\r\n\x1a\n'
"""The first bytes of a file."""

NAMES = {
    'kernel': 'weight',
    'depthwise_kernel': 'weight',
    'alpha': 'weight',
    'gamma': 'weight',
    'beta': 'bias',
    'bias': 'bias',
    'moving_mean': 'running_mean',
    'moving_variance': 'running_var',
}
"""PyTorch's names of what Keras' layers hold."""

KERAS_EPS = 1e-3
"""What a batch norm of Keras adds to the variance if it is not told."""


def is_keras_file(path: Path) -> bool:
    """Whether a file begins as HDF5 does.

    Example:
        >>> is_keras_file(Path(__file__))
        False
    """
    with path.open('rb') as file:
        return file.read(len(HDF5)) == HDF5


def keras_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a Keras file of weights, named and laid out as PyTorch's.

    Layers that Keras named itself are counted again, from 0 within each kind and in the order in which they were made:
    ``quant_conv2d_7`` and ``quant_conv2d_8`` become ``quant_conv2d.0`` and ``quant_conv2d.1``. What Keras counts from
    depends on what else had been made before.

    Args:
        path: written by ``save_weights``, or by ``save`` in the same format.

    Raises:
        ImportError: h5py is not installed.
        ValueError: the file is damaged or holds no weights.
    """
    try:
        import h5py
    except ImportError:
        raise ImportError(f'{path} is a Keras file, which h5py reads: pip install h5py.') from None
    try:
        with h5py.File(path) as file:
            found = list(_read_stored(file.get('model_weights', file)))
    except (OSError, KeyError, RuntimeError) as error:
        message = str(error).strip('\'"') or 'a damaged file'
        raise ValueError(f'cannot be read: {message}.') from None
    return as_pytorch(found)


def as_pytorch(stored: Sequence[Stored]) -> dict[str, Tensor]:
    """Convert the tensors of a file to PyTorch's layout.

    Example:
        >>> as_pytorch([('dense_3', 'dense_3/kernel:0', np.zeros((8, 2)))])['dense.0.weight'].shape
        torch.Size([2, 8])
    """
    names = renumber([layer for layer, _, _ in stored])
    state: dict[str, Tensor] = {}
    for layer, path, value in stored:
        name = path.removesuffix(':0').rpartition('/')[2]
        state[f'{names[layer]}.{NAMES.get(name, name)}'] = _laid_out(name, torch.from_numpy(value))
    return state


def _read_stored(root: Any) -> Iterator[Stored]:
    """Layer, name and value of each tensor, in the file's order."""
    if 'layer_names' not in root.attrs:
        raise KeyError('it holds no weights as Keras writes them (layer_names)')
    for layer in map(_text, root.attrs['layer_names']):
        for name in map(_text, root[layer].attrs['weight_names']):
            yield layer, name, root[layer][name][()]


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _laid_out(name: str, value: Tensor) -> Tensor:
    """(height, width, in, out) as (out, in, height, width), (in, out) as (out, in); a row of one value per channel."""
    if name == 'depthwise_kernel':
        return value.permute(2, 3, 0, 1).contiguous()
    if name == 'kernel':
        return (value.permute(3, 2, 0, 1) if value.dim() == 4 else value.T).contiguous()
    return value.flatten()


def renumber(layers: Sequence[str]) -> dict[str, str]:
    """Names of Keras' layers, with numbers that do not depend on the session in which they were made.

    Example:
        >>> renumber(['head_bn', 'conv2d', 'conv2d_10', 'conv2d_9'])
        {'head_bn': 'head_bn', 'conv2d': 'conv2d.0', 'conv2d_9': 'conv2d.1', 'conv2d_10': 'conv2d.2'}
    """
    numbers: dict[str, dict[int, str]] = {}
    names: dict[str, str] = {}
    for layer in layers:
        match = re.fullmatch(
            r'((?:quant_)?(?:depthwise_)?conv2d|batch_normalization|(?:quant_)?dense)(?:_(\d+))?', layer
        )
        if match is None:
            names[layer] = layer
        else:
            numbers.setdefault(match[1], {})[int(match[2] or 0)] = layer
    for kind, numbered in numbers.items():
        names |= {numbered[number]: f'{kind}.{i}' for i, number in enumerate(sorted(numbered))}
    return names


def in_order(kind: str, places: Sequence[str]) -> Rule:
    """The layers of a kind, in the order in which they were made."""

    def place(match: re.Match[str]) -> str:
        index = int(match[1])
        return f'{places[index]}.' if index < len(places) else match[0]

    return rf'^{kind}\.(\d+)\.', place


def quicknet_rules(depths: Sequence[int]) -> list[Rule]:
    """Map QuickNet's layers to places in our network.

    Args:
        depths: blocks of each stage.
    """
    convs, norms = ['backbone.stem.0', 'backbone.stem.5'], [f'backbone.stem.{i}' for i in (1, 4, 6)]
    for stage, blocks in enumerate(depths, start=1):
        if stage > 1:
            convs.append(f'backbone.layer{stage}.0.3')
            norms.append(f'backbone.layer{stage}.0.4')
        inside = [f'backbone.layer{stage}.{i + (stage > 1)}' for i in range(blocks)]
        convs += [f'{block}.conv' for block in inside]
        norms += [f'{block}.bn' for block in inside]
    return [
        in_order('quant_conv2d', convs),
        in_order('batch_normalization', norms),
        in_order('quant_depthwise_conv2d', ['backbone.stem.3']),
        in_order('depthwise_conv2d', [f'backbone.layer{stage}.0.2' for stage in range(2, len(depths) + 1)]),
        in_order('quant_dense', ['head.fc']),
    ]


BLURS = tuple(f'backbone.layer{stage}.0.2.weight' for stage in (2, 3, 4))
"""QuickNet's fixed filters, which the file holds in addition to the learned ones."""


def quicknet_values(found: dict[str, Tensor]) -> None:
    """Take QuickNet's fixed filters away, and see to the epsilon of the stem's norms.

    Raises:
        ValueError: a fixed filter is another one than ours.
    """
    line = torch.tensor([0.25, 0.5, 0.25])
    for key in BLURS:
        if not torch.equal(found[key], torch.outer(line, line).expand_as(found[key])):
            raise ValueError(f'the blurring filter that would become {key!r} is none: it is not (1, 2, 1) / 4.')
        del found[key]
    with_keras_eps({key: value for key, value in found.items() if '.stem.' in key})


def with_keras_eps(found: dict[str, Tensor]) -> None:
    """Add to each variance what Keras' batch norm adds more than PyTorch's; the norm computes the same then."""
    for key, value in found.items():
        if key.endswith('.running_var'):
            value += KERAS_EPS - BatchNorm2d(1).eps


def _real_to_binary_layer(match: re.Match[str]) -> str:
    block, half = int(match[1]) - 2, 'ab'.index(match[2]) + 1
    names = {
        'batch_norm': f'bn{half}',
        'conv2d': f'conv{half}',
        'prelu': f'act{half}',
        'scaling_dense_reduce': f'gate{half}.squeeze',
        'scaling_dense_expand': f'gate{half}.excite',
        'shortcut_conv2d': 'downsample.0',
        'shortcut_batch_norm': 'downsample.1',
    }
    return f'backbone.layer{block // 2 + 1}.{block % 2}.{names.get(match[3], match[3])}.'


REAL_TO_BINARY: list[Rule] = [
    (r'^\w+_block_1_conv2d\.', 'backbone.conv1.'),
    (r'^\w+_block_1_batch_norm\.', 'backbone.bn1.'),
    (r'^\w+_block_1_prelu\.', 'backbone.stem_act.'),
    (r'^\w+_block_([2-9])([ab])_(\w+)\.', _real_to_binary_layer),
    (r'^\w+_block_10_logits\.', 'head.fc.'),
]

MELIUSNET: list[Rule] = [
    (r'^stem_s0_conv\.', 'backbone.stem.0.'),
    (
        r'^stem_s([12])_groupconv_conv(\d)\.(.+)$',
        lambda match: f'backbone.stem.{3 * int(match[1])}.{match[3]}#{match[2]}',
    ),
    (r'^stem_s([012])_bn\.', lambda match: f'backbone.stem.{3 * int(match[1]) + 1}.'),
    (
        r'^section_(\d)_block_(\d)_(dense|improve)_(bn|binconv)\.',
        lambda match: (
            f'backbone.layer{int(match[1]) + 1}.{int(match[2]) + (match[1] != "0")}.'
            f'{"bn" if match[4] == "bn" else "conv"}{1 if match[3] == "dense" else 2}.'
        ),
    ),
    (r'^section_(\d)_transition_bn\.', lambda match: f'backbone.layer{int(match[1]) + 2}.0.0.'),
    (r'^section_(\d)_transition_pw\.', lambda match: f'backbone.layer{int(match[1]) + 2}.0.3.'),
    (r'^head_bn\.', 'backbone.layer4.5.'),
    (r'^head_dense\.', 'head.fc.'),
]


def _bireal_rules() -> list[Rule]:
    convs, shortcuts, norms = [], ['backbone.conv1'], ['backbone.bn1']
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            prefix = f'backbone.layer{stage}.{block}.'
            if stage > 1 and block == 0:
                shortcuts.append(f'{prefix}downsample.0')
                norms.append(f'{prefix}downsample.1')
            convs += [f'{prefix}conv1', f'{prefix}conv2']
            norms += [f'{prefix}bn1', f'{prefix}bn2']
    return [
        in_order('conv2d', shortcuts),
        in_order('quant_conv2d', convs),
        in_order('batch_normalization', norms),
        in_order('dense', ['head.fc']),
    ]


BIREAL_18 = _bireal_rules()
