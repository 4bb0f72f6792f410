"""Show two detectors on one image, side by side: boxes, scores, and what each costs.

    python demo/compare.py IMAGE CONFIG_A CHECKPOINT_A CONFIG_B CHECKPOINT_B --out compare.png

Made for a binary detector and its full-precision counterpart; any two detectors will do.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure
from mmengine.config import Config
from painting import detections, paint
from rich.console import Console
from rich.table import Table

from rebnn_mm.analysis.config_network import input_shape
from rebnn_mm.analysis.layer_cost import NetworkCost
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.detector import check_input, load_detector
from rebnn_mm.utils.picture import check_picture, save_picture


class Side(NamedTuple):
    """One of the two detectors.

    Attributes:
        name: what to call it.
        painted: the image with its boxes.
        scores: score of each object it found.
        cost: its layers, at the size of image that its config tests with.
    """

    name: str
    painted: np.ndarray
    scores: list[float]
    cost: NetworkCost

    @property
    def megabytes(self) -> float:
        """Deployed size: binary weights at one bit, everything else a prediction needs at 32."""
        return self.cost.deployed_bytes / 1e6

    @property
    def ops(self) -> float:
        """OPs per image: BOPs / 64 + FLOPs."""
        return self.cost.ops


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('image', help='image file')
    parser.add_argument('config_a', help='config of the left detector, for instance the binary one')
    parser.add_argument('checkpoint_a', help='its checkpoint')
    parser.add_argument('config_b', help='config of the right detector, for instance the full-precision one')
    parser.add_argument('checkpoint_b', help='its checkpoint')
    parser.add_argument('--names', nargs=2, metavar=('A', 'B'), help='what to call them; default: the configs')
    parser.add_argument('--out', type=Path, help='picture to write; default: <image name>_compare.png here')
    parser.add_argument('--score-thr', type=float, default=0.3, help='lowest score to count and draw')
    parser.add_argument('--device', help='cpu, cuda:0, ...; default: the first GPU if there is one')
    return parser.parse_args()


def run(name: str, config: str, checkpoint: str, args: argparse.Namespace) -> Side:
    """Detect with one of the two, and count what it costs."""
    try:
        shape = input_shape(Config.fromfile(config))
    except ValueError as error:
        raise RebnnError(
            'no data pipeline says the size of an image, on which the OPs depend.',
            config,
            'Add a Resize with a scale to test_dataloader.dataset.pipeline.',
        ) from error
    detector = load_detector(config, checkpoint, args.device)
    found = detections(detector, args.image, args.score_thr)
    painted = paint(args.image, found, detector.model.dataset_meta['classes'])
    cost = network_cost(detector.model.cpu(), (shape.height, shape.width))
    return Side(name, painted, found.scores.tolist(), cost)


def seen_on(cost: NetworkCost) -> str:
    """On what the OPs are counted."""
    regions = '' if cost.rois is None else f', {cost.rois} regions'
    return f'{cost.shape[1]}x{cost.shape[0]}{regions}'


def print_table(sides: list[Side], score_thr: float) -> None:
    """Print size and operations of both, and how they compare."""
    table = Table('', *(side.name for side in sides), title='Two detectors on one image')
    rows = {
        f'objects with a score of at least {score_thr:g}': [f'{len(side.scores)}' for side in sides],
        'deployed size, MB': [f'{side.megabytes:.2f}' for side in sides],
        'OPs per image, 1e9': [f'{side.ops / 1e9:.2f}' for side in sides],
        'multiply-accumulates with 1 bit, %': [f'{100 * side.cost.binary_share():.1f}' for side in sides],
        'counted on an image of': [seen_on(side.cost) for side in sides],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    Console(width=120).print(table)


def draw(sides: list[Side], score_thr: float) -> Figure:
    """Both images side by side, the costs below."""
    height = max(side.painted.shape[0] / side.painted.shape[1] for side in sides)
    figure, axes = pyplot.subplots(1, 2, figsize=(15, 7.3 * height + 1.1), layout='constrained')
    for axis, side in zip(axes, sides, strict=True):
        axis.imshow(side.painted)
        axis.set(xticks=[], yticks=[])
        axis.set_title(side.name, fontsize=14)
        axis.set_xlabel(
            f'{side.megabytes:.2f} MB deployed, {side.ops / 1e9:.2f}e9 OPs ({seen_on(side.cost)})\n'
            f'{len(side.scores)} objects with a score of at least {score_thr:g}',
            fontsize=13,
        )
    return figure


@report_errors
def main() -> None:
    args = parse_args()
    out = args.out or Path(f'{Path(args.image).stem}_compare.png')
    files = [(args.config_a, args.checkpoint_a), (args.config_b, args.checkpoint_b)]
    for config, checkpoint in files:
        check_input(args.image, config, checkpoint)
    check_picture(out)

    names = args.names or [Path(config).stem for config, _ in files]
    sides = [run(name, *pair, args) for name, pair in zip(names, files, strict=True)]
    print_table(sides, args.score_thr)
    matplotlib.use('Agg')
    with user_errors(output=out):
        save_picture(draw(sides, args.score_thr), out, dpi=110)
    print(f'picture: {out}')


if __name__ == '__main__':
    main()
