"""Rename the parameters of published CIFAR-10 ResNet-20s to those of this project's configs.

    python tools/model_converters/cifar_resnet20.py --src resnet20-12fca82f.th --dest resnet20_plain.pth
    python tools/test.py configs/cifar10/reference/resnet20_plain_cifar10.py resnet20_plain.pth

Takes the real-valued ResNet-20 of akamaster/pytorch_resnet_cifar10 (resnet20_plain_cifar10.py) and AdaBin's 1-bit one
of huawei-noah/Efficient-Computing (resnet20_adabin_cifar10.py).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch
from torch import Tensor

# Applied in this order to each name; the first four are outside the stages.
RULES = (
    (r'^module\.', ''),
    (r'^linear\.', 'head.fc.'),
    (r'^bn2\.', 'neck.norm.'),
    (r'^nonlinear1\.', 'backbone.stem_act.'),
    (r'^(conv1|bn1|layer)', r'backbone.\1'),
    (r'\.nonlinear([12])\.', r'.act\1.'),
    (r'\.pos_scale$', '.positive'),
    (r'\.neg_scale$', '.negative'),
    (r'\.binary_a\.(alpha|beta)_a$', r'.activation_quantizer.\1'),
)


def renamed(name: str) -> str:
    """The name that our config's model gives to a parameter.

    Raises:
        ValueError: no rule puts it into one of our model's three parts.
    """
    new = name
    for pattern, replacement in RULES:
        new = re.sub(pattern, replacement, new)
    if not new.startswith(('backbone.', 'neck.', 'head.')):
        raise ValueError(f'{name!r} is no parameter of a ResNet-20 that this tool knows.')
    return new


def convert(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict under our names."""
    return {renamed(name): value for name, value in state.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--src', type=Path, required=True, help='published file')
    parser.add_argument('--dest', type=Path, required=True, help='file to write')
    args = parser.parse_args()
    if not args.src.is_file():
        sys.exit(f'cifar_resnet20.py: no {args.src}. Give the published file as --src.')
    loaded = torch.load(args.src, map_location='cpu', weights_only=True)
    try:
        state = convert(loaded.get('state_dict', loaded))
    except ValueError as problem:
        sys.exit(f'cifar_resnet20.py: {args.src}: {problem}')
    torch.save(dict(state_dict=state), args.dest)
    print(f'{len(state)} tensors written to {args.dest}')


if __name__ == '__main__':
    main()
