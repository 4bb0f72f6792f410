"""Print and draw which classes a detector confuses, from the predictions that rebnn test --out wrote.

    rebnn test CONFIG CHECKPOINT --out predictions.pkl
    rebnn confusion CONFIG predictions.pkl --out confusion_matrix.png

mmdet's own tool counts; its picture is too small to read with fewer than about ten classes.
"""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure
from mmengine.fileio import load
from mmengine.registry import DATASETS
from rich.table import Table

from rebnn_mm.cli.checks.labels import check_labels
from rebnn_mm.deploy.run import share
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, check_sections, config_file, import_scope
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console
from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.picture import check_picture, plain, save_picture

MOST_NUMBERS = 30
"""With more rows than this the picture shows colours without numbers."""


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config of a detector')
    parser.add_argument('predictions', type=Path, help='pickle file of rebnn test --out')
    parser.add_argument('--out', type=Path, default=Path('confusion_matrix.png'), help='default: %(default)s')
    parser.add_argument('--score-thr', type=share, default=0.3, help='lowest score that counts; default: %(default)s')
    parser.add_argument('--iou-thr', type=share, default=0.5, help='lowest overlap (IoU); default: %(default)s')
    add_options(parser)
    return parser.parse_args()


def check_predictions(path: Path, predictions: Any, dataset: Any) -> None:
    """Refuse predictions of a file that show that they do not belong to a detector for this data set."""
    fix = 'Use the config and --cfg-options that rebnn test ran with.'
    number = len(predictions) if isinstance(predictions, list) else 0
    if number != len(dataset) or not all(isinstance(one, dict) and 'pred_instances' in one for one in predictions):
        raise RebnnError(
            f'{path} holds {number} predictions, the test set {len(dataset)} images of a detector', fix=fix
        )
    classes = dataset.metainfo['classes']
    for index, one in enumerate(predictions):
        found, wanted = one.get('img_path'), dataset.get_data_info(index).get('img_path')
        # the folder may be another one by now
        if found and wanted and Path(found).name != Path(wanted).name:
            raise RebnnError(f'{path} has {found} in the place where the test set has {wanted}', fix=fix)
        if any(label >= len(classes) for label in one['pred_instances']['labels'].tolist()):
            raise RebnnError(f'{path} has labels beyond the {len(classes)} classes of the test set', fix=fix)


def count(dataset: object, predictions: list[dict], score_thr: float, iou_thr: float) -> np.ndarray:
    """Count pairs of an object (rows) and a prediction (columns) by class with mmdet's tool; each overlap counts.

    The last row is the background; the last column holds the objects that no prediction of their class found.
    """
    import mmdet

    tool = runpy.run_path(str(Path(mmdet.__path__[0], '.mim/tools/analysis_tools/confusion_matrix.py')))
    matrix: np.ndarray = tool['calculate_confusion_matrix'](dataset, predictions, score_thr, None, iou_thr)
    print()  # mmdet's progress bar ends without a new line
    return matrix.astype(int)


def print_table(matrix: np.ndarray, classes: tuple[str, ...]) -> None:
    """Print the counts."""
    table = Table('object \\ prediction', *classes, 'missed')
    for name, row in zip((*classes, 'background'), matrix, strict=True):
        table.add_row(name, *map(str, row))
    plain_console(width=max(88, 10 * len(matrix) + 24)).print(table)


def draw(matrix: np.ndarray, classes: tuple[str, ...], title: str) -> Figure:
    """The matrix with each row in percent of its sum."""
    percent = 100 * matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    size = max(5.0, 0.32 * len(matrix))
    figure, axis = pyplot.subplots(figsize=(size + 1.5, size), layout='constrained')
    picture = axis.imshow(percent, cmap='Blues', vmin=0, vmax=100)
    figure.colorbar(picture, label='% of the row', shrink=0.8)
    names, ticks = [*map(plain, classes)], range(len(matrix))
    axis.set_xticks(ticks, [*names, 'missed'], rotation=45, ha='right')
    axis.set_yticks(ticks, [*names, 'background'])
    axis.set(xlabel='predicted as', ylabel='object is', title=title)
    if len(matrix) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(matrix):
            text = f'{percent[row, column]:.0f} %\n{value}' if len(matrix) <= 8 else f'{value}'
            colour = 'white' if percent[row, column] > 60 else 'black'
            axis.text(column, row, text, ha='center', va='center', color=colour, fontsize=9)
    return figure


@report_errors
def main() -> None:
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    check_picture(args.out)
    if not args.predictions.is_file():
        raise RebnnError(
            f'no predictions at {args.predictions}. Write them with rebnn test CONFIG CHECKPOINT --out FILE.pkl.'
        )
    check_sections(cfg, ['test_dataloader'])
    check_data(cfg, ['test'])
    import_scope(cfg)
    check_labels(cfg, ['test'])
    with user_errors(cfg):
        dataset = DATASETS.build(cfg.test_dataloader.dataset)
    try:
        predictions = load(args.predictions)
    except Exception as error:  # a file that is not a pickle makes pickle raise almost anything
        raise RebnnError(
            f'{args.predictions} holds no predictions ({error})', fix='Write them with rebnn test --out FILE.pkl.'
        ) from error
    check_predictions(args.predictions, predictions, dataset)

    matrix = count(dataset, predictions, args.score_thr, args.iou_thr)
    classes = tuple(dataset.metainfo['classes'])
    print_table(matrix, classes)
    matplotlib.use('Agg')
    save_picture(draw(matrix, classes, f'score from {args.score_thr:g}, overlap from {args.iou_thr:g}'), args.out, 120)
    print(f'picture: {args.out}')
