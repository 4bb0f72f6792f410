"""Count the operators that PyTorch computes in a training step of ResNet-18, 1-bit and real.

    python -m lab.tools.count_operators

Each stands for a launch on a GPU. Counted are the leaf operators of PyTorch's profiler on a CPU without our kernels,
those inside our own operators included; views, which compute nothing, are left out, and a ``_foreach_`` counts once.
The profiler does not see NumPy, which packs and unpacks bits on a CPU: on a GPU each is one more launch.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

os.environ['REBNN_TRAINING_KERNELS'] = '0'

import torch
from mmengine.registry import MODELS
from torch import nn
from torch.profiler import ProfilerActivity, profile

import rebnn_mm  # noqa: F401
from rebnn_mm.engine import ResilientGradient
from rebnn_mm.errors import report_errors
from rebnn_mm.functional import bits

PACKINGS = ('pack', 'unpack')
VIEWS = (
    *(
        'as_strided',
        'view',
        'expand',
        'permute',
        'transpose',
        't',
        'select',
        'slice',
        'unsqueeze',
        'squeeze',
        'detach',
    ),
    *('detach_', '_unsafe_view', 'alias', 'reshape', '_reshape_alias', 'split', 'split_with_sizes', 'unflatten'),
    *('empty', 'empty_like', 'empty_strided', 'resize_', 'result_type', 'lift_fresh', 'set_', 'view_as', 'expand_as'),
    *('to', 'flatten', 'scalar_tensor', 'as_strided_', '_nnpack_available', 'resize_as_', 'result_type'),
    *(
        'narrow',
        'is_nonzero',
        'item',
        '_local_scalar_dense',
        'numpy_T',
        'resolve_conj',
        'resolve_neg',
        'size',
        'stride',
    ),
)


@contextmanager
def count_calls() -> Iterator[Counter[str]]:
    """Count how often bits are packed and unpacked."""
    calls: Counter[str] = Counter()
    with ExitStack() as stack:
        for name in PACKINGS:
            wrapped = getattr(bits, name)

            def call(*args: Any, name: str = name, wrapped: Any = wrapped) -> Any:
                calls[name] += 1
                return wrapped(*args)

            stack.enter_context(patch.object(bits, name, call))
        yield calls


def count(net: nn.Module) -> Counter[str]:
    """Return how often a step of SGD computes each operator, and packs or unpacks bits."""
    head = nn.Linear(512, 10)
    parameters = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9, foreach=True)
    resilient = ResilientGradient(net)
    if len(resilient):
        resilient.attach(optimizer)
    x, target = torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)

    def step() -> None:
        optimizer.zero_grad()
        (features,) = net(x)
        nn.functional.cross_entropy(head(features.mean(dim=(2, 3))), target).backward()
        optimizer.step()

    step()
    step()
    with profile(activities=[ProfilerActivity.CPU]) as found, count_calls() as packings:
        step()
    counted: Counter[str] = Counter(packings)

    def walk(event: Any, inside_foreach: bool) -> None:
        name = event.name
        foreach = name.startswith('aten::_foreach')
        if foreach and not inside_foreach:
            counted[name] += 1
        ours = [child for child in event.cpu_children if child.name.startswith(('aten::', 'rebnn::', 'mkldnn'))]
        plain = name.removeprefix('aten::')
        computes = name.startswith('aten::') and plain not in VIEWS and not foreach and not inside_foreach
        if computes and all(child.name.removeprefix('aten::') in VIEWS for child in ours):
            counted[name] += 1
            return
        for child in event.cpu_children:
            walk(child, inside_foreach or foreach)

    for event in found.events():
        if event.cpu_parent is None:
            walk(event, False)
    return counted


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--names', action='store_true', help='print the operators of the 1-bit step')
    args = parser.parse_args()
    torch.set_num_threads(1)
    backbone = dict(type='BinaryResNet', depth=18, out_indices=(3,))
    nets = {'real': dict(backbone, conv_cfg=None, block='relu')}
    for block in ('hardtanh', 'react'):
        for memory in ('plain', 'sums'):
            nets[f'{block}, {memory}'] = dict(backbone, conv_cfg=dict(type='ReBNNConv2d', memory=memory), block=block)
    real = 0
    for name, cfg in nets.items():
        torch.manual_seed(0)
        counted = count(MODELS.build(cfg))
        packings = sum(counted.pop(kind, 0) for kind in PACKINGS)
        total = counted.total()
        real = real or total
        words = f'{total:6} operators, {total / real:.2f} times the real network'
        print(f'{name:18} {words}, and {packings} packings ({(total + packings) / real:.2f})')
        if args.names and name != 'real':
            print('  ', dict(counted.most_common(30)))


if __name__ == '__main__':
    main()
