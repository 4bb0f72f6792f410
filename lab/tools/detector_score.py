"""Scores a packed detector on a config's test set, compared with the checkpoint that it was made from.

python -m lab.tools.detector_score CONFIG CHECKPOINT model.onnx
"""

import argparse
import io
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.export.difference import IOU, SCORE, Agreement, Found, agreement

REFERENCE, PACKED, OTHER_ROUNDING = 'PyTorch', 'packed file', 'PyTorch without oneDNN'
"""Names of the runs."""


class Run(NamedTuple):
    """One way of running the detector.

    Attributes:
        metrics: of the config's ``test_evaluator``.
        agreements: what each image has in common with PyTorch.
    """

    metrics: dict[str, float]
    agreements: list[Agreement]


class Score(NamedTuple):
    """Result of :func:`score`.

    Attributes:
        images: how many there are.
        detections: how many objects PyTorch finds.
        runs: by name, PyTorch first.
    """

    images: int
    detections: int
    runs: dict[str, Run]


def score(config: str, checkpoint: str, file: str, *, use_library: bool = True, other_rounding: bool = False) -> Score:
    """Run a packed detector and its checkpoint on the images of a config's test set.

    The packed file prepares the images itself, through :mod:`rebnn_mm.deploy`; PyTorch uses the config's pipeline.
    Boxes are compared in the original image.

    Args:
        config: of the detector; its ``test_dataloader`` and ``test_evaluator`` are used.
        checkpoint: its weights.
        file: what ``tools/export.py`` made of them.
        use_library: run the binary layers by our kernels, not by the functions in the file.
        other_rounding: also compare PyTorch with itself, with the convolutions that it uses without oneDNN: they add
            up in another order, so this is what rounding alone does.

    Raises:
        ValueError: a file does not exist or does not fit, or the file is not a detector; one sentence says which.
    """
    import torch
    from mmdet.registry import DATASETS
    from mmengine.config import Config
    from mmengine.evaluator import Evaluator

    from rebnn_mm.deploy import load
    from rebnn_mm.deploy.detector import Detector
    from rebnn_mm.export.source import load_source

    model: Any = load_source(config, checkpoint).model
    packed = load(file, use_library=use_library)
    if not isinstance(packed, Detector):
        raise RebnnError(f'{file} is not a detector: it gives no boxes.')
    cfg = Config.fromfile(config)
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    names = [REFERENCE, PACKED] + [OTHER_ROUNDING] * other_rounding
    evaluators = {name: Evaluator(cfg.test_evaluator) for name in names}
    agreements: dict[str, list[Agreement]] = {name: [] for name in names}
    detections = 0
    for i in track(range(len(dataset)), 'images', transient=True, console=Console(stderr=True)):
        data = dataset[i]
        batch = dict(inputs=[data['inputs']], data_samples=[data['data_samples']])
        samples = {}
        with torch.no_grad():
            (samples[REFERENCE],) = model.test_step(batch)
            if other_rounding:
                with torch.backends.mkldnn.flags(enabled=False):
                    (samples[OTHER_ROUNDING],) = model.test_step(batch)
        found = packed(dataset.get_data_info(i)['img_path'])
        values = dict(bboxes=found.boxes, scores=found.scores, labels=found.labels)
        instances = type(samples[REFERENCE].pred_instances)
        samples[PACKED] = samples[REFERENCE].clone()
        samples[PACKED].pred_instances = instances(**{name: torch.from_numpy(x) for name, x in values.items()})
        detections += len(samples[REFERENCE].pred_instances)
        for name, sample in samples.items():
            agreements[name].append(agreement(_find_objects(samples[REFERENCE]), _find_objects(sample)))
            evaluators[name].process([sample])
    runs = {}
    for name, evaluator in evaluators.items():
        evaluator.dataset_meta = dataset.metainfo
        with redirect_stdout(io.StringIO()):  # pycocotools prints its tables
            runs[name] = Run(evaluator.evaluate(len(dataset)), agreements[name])
    return Score(len(dataset), detections, runs)


def show(result: Score, console: Console) -> None:
    """Print the runs side by side."""
    table = Table(caption=f'{result.detections} detections of {REFERENCE} in {result.images} images')
    table.add_column()
    for name in result.runs:
        table.add_column(name)
    for metric, value in result.runs[REFERENCE].metrics.items():
        if isinstance(value, float):
            table.add_row(metric, *(f'{run.metrics.get(metric, np.nan):.3f}' for run in result.runs.values()))
    table.add_section()
    compared = [run.agreements for run in result.runs.values()]
    for label, cells in (
        ('images with the same detections', [str(sum(image.same for image in run)) for run in compared]),
        ('detections missing', [str(sum(image.missing for image in run)) for run in compared]),
        ('detections new', [str(sum(image.extra for image in run)) for run in compared]),
        (
            'difference of scores, median image',
            [f'{np.median([image.score for image in run]):.0e}' for run in compared],
        ),
        ('difference of scores, worst image', [f'{max(image.score for image in run):.1g}' for run in compared]),
    ):
        table.add_row(label, '', *cells[1:])
    console.print(table)
    console.print(f'The same: boxes overlap by {IOU} or more, scores differ by {SCORE:g} or less.', highlight=False)


@report_errors
def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m lab.tools.detector_score', description=__doc__)
    parser.add_argument('config', help='config file of the detector')
    parser.add_argument('checkpoint', help='its checkpoint')
    parser.add_argument('file', help='the packed file')
    parser.add_argument('--no-library', action='store_true', help='run the binary layers without our kernels')
    parser.add_argument(
        '--other-rounding', action='store_true', help='also compare PyTorch with itself, with other convolutions'
    )
    args = parser.parse_args()
    result = score(
        args.config, args.checkpoint, args.file, use_library=not args.no_library, other_rounding=args.other_rounding
    )
    show(result, Console(width=110))


def _find_objects(sample: Any) -> Found:
    instances = sample.pred_instances
    return instances.bboxes.numpy(), instances.scores.numpy(), instances.labels.numpy()


if __name__ == '__main__':
    main()
