"""Write a trained network as a start of the package, which detectors take as rebnn://NAME.

    python -m lab.tools.pack_start work_dirs/one_bit_tiny_classes/epoch_12.pth rebnn_mm/starts/one_bit_tiny.npz

Of a classifier it is the backbone, of a detector all of it. Weights become int8 with a factor per output channel,
those of binary layers signs with their scaling factor; the rest stays float32. Detectors designed for one bit take BGR
images: the first layer of a classifier of RGB images is turned round.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.checkpoint import SCALE, SIGNS, check_checkpoint_file
from rebnn_mm.utils.command_line import check_writable

PARTS = ('backbone.', 'neck.', 'bbox_head.')


def pack_start(checkpoint: str | Path, out: Path) -> None:
    """Write the backbone of a checkpoint, and neck and head of a detector's, to ``out``, an .npz file.

    Raises:
        RebnnError: it holds no backbone, or does not say in which order its channels of colour are.
    """
    content = torch.load(checkpoint, map_location='cpu', weights_only=False)
    state = {key: value for key, value in content['state_dict'].items() if key.startswith(PARTS)}
    if not any(key.startswith('backbone.') for key in state) or 'cfg' not in content.get('meta', {}):
        raise RebnnError(
            'not the checkpoint of a classifier or detector.', str(checkpoint), 'Take one of mmengine with its config.'
        )
    preprocessor = Config.fromstring(content['meta']['cfg'], '.py').model.data_preprocessor
    if preprocessor.get('to_rgb'):
        first = next(key for key, value in state.items() if value.dim() == 4)
        state[first] = state[first].flip(1)
    arrays: dict[str, Any] = {}
    for key, value in state.items():
        if value.dim() < 2:
            arrays[key] = value.numpy()
            continue
        alpha = state.get(f'{key.removesuffix("weight")}weight_quantizer.alpha')
        if alpha is not None:
            arrays[SIGNS + key] = np.packbits(value.numpy() >= 0, axis=1)
            arrays[SCALE + key] = alpha.view(-1, 1, 1, 1).numpy()
            continue
        values, scale = to_int8(value)
        arrays |= {key: values.numpy(), SCALE + key: scale.numpy()}
    np.savez_compressed(out, **arrays)


def to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a weight to int8 values and a factor per output channel, whose product is nearest to it.

    Example:
        >>> values, scale = to_int8(torch.tensor([[1.0, -254.0], [0.0, 0.0]]))
        >>> values.tolist(), (values * scale).tolist()
        ([[0, -127], [0, 0]], [[0.0, -254.0], [0.0, 0.0]])
    """
    largest = weight.abs().amax(dim=tuple(range(1, weight.dim())), keepdim=True)
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    return (weight / scale).round().to(torch.int8), scale


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('checkpoint', help='of mmengine, with its config in it')
    parser.add_argument('out', type=Path, help='.npz file to write')
    args = parser.parse_args()
    check_checkpoint_file(args.checkpoint)
    check_writable(args.out, inputs=[args.checkpoint])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    pack_start(args.checkpoint, args.out)
    print(f'{args.out}: {args.out.stat().st_size / 1e6:.2f} MB')


if __name__ == '__main__':
    main()
