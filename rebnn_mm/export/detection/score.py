"""Scores a packed detector on a config's test set, beside the checkpoint that it was made from.

python -m rebnn_mm.export.detection.score CONFIG CHECKPOINT model.onnx
"""

import argparse
import io
import sys
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from .agreement import IOU, SCORE, Agreement, agreement


class Score(NamedTuple):
    """What :func:`score` finds.

    Attributes:
        torch: the metrics of the checkpoint in PyTorch.
        packed: those of the packed file.
        detections: how many objects PyTorch finds.
        agreements: one comparison for each image.
    """

    torch: dict[str, float]
    packed: dict[str, float]
    detections: int
    agreements: list[Agreement]


def score(config: str, checkpoint: str, file: str, use_library: bool = True) -> Score:
    """Run a packed detector and its checkpoint on the images of a config's test set.

    The packed file prepares the images itself, through :mod:`rebnn_mm.deploy`; PyTorch uses the config's pipeline.
    Boxes are compared in the original image.

    Args:
        config: of the detector; its ``test_dataloader`` and ``test_evaluator`` are used.
        checkpoint: its weights.
        file: what ``tools/export.py`` made of them.
        use_library: run the binary layers by our kernels, not by the functions in the file.

    Raises:
        ValueError: a file does not exist or does not fit, or the file is no detector; one sentence says which.
    """
    import torch
    from mmdet.registry import DATASETS
    from mmengine.config import Config
    from mmengine.evaluator import Evaluator

    from rebnn_mm.deploy import load
    from rebnn_mm.deploy.detector import Detector

    from ..source import load_source

    model: Any = load_source(config, checkpoint).model
    packed = load(file, use_library=use_library)
    if not isinstance(packed, Detector):
        raise ValueError(f'{file} is no detector: it gives no boxes.')
    cfg = Config.fromfile(config)
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    evaluators = [Evaluator(cfg.test_evaluator), Evaluator(cfg.test_evaluator)]
    for evaluator in evaluators:
        evaluator.dataset_meta = dataset.metainfo
    agreements, detections = [], 0
    for i in track(range(len(dataset)), 'images', transient=True, console=Console(stderr=True)):
        data = dataset[i]
        with torch.no_grad():
            (sample,) = model.test_step(dict(inputs=[data['inputs']], data_samples=[data['data_samples']]))
        found = packed(dataset.get_data_info(i)['img_path'])
        of_torch = sample.pred_instances
        agreements.append(
            agreement(
                (of_torch.bboxes.numpy(), of_torch.scores.numpy(), of_torch.labels.numpy()),
                (found.boxes, found.scores, found.labels),
            )
        )
        detections += len(of_torch)
        evaluators[0].process([sample])
        copy = sample.clone()
        values = dict(bboxes=found.boxes, scores=found.scores, labels=found.labels)
        copy.pred_instances = type(of_torch)(**{name: torch.from_numpy(value) for name, value in values.items()})
        evaluators[1].process([copy])
    with redirect_stdout(io.StringIO()):  # pycocotools prints its tables
        metrics = [evaluator.evaluate(len(dataset)) for evaluator in evaluators]
    return Score(metrics[0], metrics[1], detections, agreements)


def show(result: Score, console: Console) -> None:
    """Print a score as a table and what the images have in common."""
    table = Table()
    for name in ('metric', 'PyTorch', 'packed file'):
        table.add_column(name)
    for name, value in result.torch.items():
        if isinstance(value, float):
            table.add_row(name, f'{value:.3f}', f'{result.packed[name]:.3f}')
    console.print(table)
    count, same = len(result.agreements), sum(entry.same for entry in result.agreements)
    missing, extra = (sum(getattr(entry, name) for entry in result.agreements) for name in ('missing', 'extra'))
    scores = [entry.score for entry in result.agreements]
    lines = (
        f'{result.detections} detections in {count} images; {missing} of them missing in the file, {extra} new.',
        f'The same in {same} images: boxes overlap by {IOU} or more, scores differ by {SCORE:g} or less.',
        f'Largest difference of a score: {np.median(scores):.1g} in the median image, {max(scores):.2g} overall.',
    )
    console.print('\n'.join(lines), highlight=False)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m rebnn_mm.export.detection.score', description=__doc__)
    parser.add_argument('config', help='config file of the detector')
    parser.add_argument('checkpoint', help='its checkpoint')
    parser.add_argument('file', help='the packed file')
    parser.add_argument('--no-library', action='store_true', help='run the binary layers without our kernels')
    args = parser.parse_args()
    try:
        result = score(args.config, args.checkpoint, args.file, use_library=not args.no_library)
    except (ValueError, OSError) as error:
        sys.exit(f'{parser.prog}: {error}')
    show(result, Console(width=110))


if __name__ == '__main__':
    main()
