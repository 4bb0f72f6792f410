"""Compare accuracy, time and size of packed models, and mark those that no other beats: table, JSON and picture.

rebnn choose configs/bccd/faster_rcnn_r18_rebnn_bccd.py "1 bit=cells.onnx" "fp32=full.onnx" --int8-of fp32

Write the files with rebnn export, full-precision ones, too. Each is scored on the config's test set and timed on its
images, in turns, with all optimisations that the file allows. Scores are kept in the JSON file, so a second call
only measures time.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from rich.console import Console

from rebnn_mm.benchmark.choice import Point, draw, int8_of, markdown
from rebnn_mm.benchmark.timing import open_timed
from rebnn_mm.cli.checks.labels import check_testing
from rebnn_mm.deploy import load
from rebnn_mm.deploy.loading import locate_model
from rebnn_mm.deploy.measurement import describe_cpu, measure, pin, versions
from rebnn_mm.deploy.model import ImageModel
from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.deploy.run import positive
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.evaluation.packed_predictor import score
from rebnn_mm.export.calibration import CalibrationImages, dataset_images
from rebnn_mm.utils.command_line import (
    add_options,
    check_writable,
    config_file,
    import_scope,
    load_config,
    quote_command,
)
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console
from rebnn_mm.utils.data_files import check_data, data_paths
from rebnn_mm.utils.picture import check_picture

IMAGES = 8
"""Test images that are timed."""

METRICS = {'coco/bbox_mAP': 'AP', 'pascal_voc/mAP': 'AP50', 'accuracy/top1': 'accuracy'}
"""Scores that are looked for, in this order, if none is named, and their names."""


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config with the test set')
    parser.add_argument('files', nargs='+', metavar='LABEL=FILE', help='files by rebnn export')
    parser.add_argument(
        '--int8-of', nargs='+', default=[], metavar='LABEL', help="full-precision files to add in ONNX Runtime's int8"
    )
    parser.add_argument('--metric', help=f'key of the score; default: {" or ".join(METRICS)}')
    parser.add_argument('--threads', type=positive, default=1, help='default: %(default)s')
    parser.add_argument(
        '--rounds', type=positive, default=5, help=f'runs of {IMAGES} images each; default: %(default)s'
    )
    parser.add_argument('--json', type=Path, default=Path('work_dirs/choose.json'), help='default: %(default)s')
    parser.add_argument('--picture', type=Path, help='.png, .svg or .pdf')
    add_options(parser)
    parser.set_defaults(launcher='none', local_rank=0, work_dir=None)
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore')
    for path in filter(None, (args.json, args.picture)):
        check_writable(path, inputs=[args.config, *(word.partition('=')[2] for word in args.files)])
    if args.picture:
        check_picture(args.picture)
    cfg = load_config(args)
    import_scope(cfg)
    check_testing(cfg)
    console = plain_console(stderr=True, soft_wrap=True)
    with user_errors(cfg):
        report = compare(cfg, args, console)
    points = [Point(**entry) for entry in report['points']]
    name = METRICS.get(report['metric'], report['metric'])
    print('\n'.join(markdown(points, name)), flush=True)
    if args.picture:
        draw(points, name, args.picture)


def compare(cfg: Config, args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Score and time everything asked for, as JSON holds it, and write it to ``args.json`` step by step."""
    files = label_files(args.files)
    for label in args.int8_of:
        if label not in files:
            raise RebnnError(f'--int8-of {label}: the files are called {", ".join(files)}.')
        if f'{label}, int8' in files:
            raise RebnnError(f"--int8-of {label} makes '{label}, int8', which is given: choose another name for it.")
    report = load_report(args.json)
    with tempfile.TemporaryDirectory() as folder:
        for number, label in enumerate(dict.fromkeys(args.int8_of)):
            console.print(f'... quantizing {label}')
            path = Path(folder, f'{number}.onnx')
            path.write_bytes(int8_of(files[label], calibration_images(cfg, files[label])))
            files[f'{label}, int8'] = path
        scores = report.setdefault('scores', {})
        keys = {label: key_of(path, cfg) for label, path in files.items()}
        for label, path in files.items():
            if keys[label] not in scores:
                console.print(f'... scoring {label}')
                try:
                    scores[keys[label]] = score(cfg, load(path))
                except ValueError as error:
                    raise RebnnError(f'{label}: {error}') from error
                write(args.json, report)
        metric = metric_of({label: scores[key] for label, key in keys.items()}, args.metric)
        for label, key in keys.items():
            if metric not in scores[key]:
                console.print(f'note: {label} finds nothing, which counts as 0')
        console.print(f'... timing {len(files)} files in turns')
        times = time_files(cfg, files, args)
        sizes = {label: round(path.stat().st_size / 1e6, 3) for label, path in files.items()}
    report |= {
        'metric': metric,
        **circumstances(args),
        'keys': keys,
        'points': [
            Point(
                label, round(percent(metric, scores[keys[label]].get(metric, 0)), 2), times[label], sizes[label]
            )._asdict()
            for label in files
        ],
    }
    write(args.json, report)
    return report


def label_files(given: list[str]) -> dict[str, Path]:
    """The files by label."""
    files: dict[str, Path] = {}
    for text in given:
        label, equals, path = text.partition('=')
        if not equals or not label or label in files:
            raise RebnnError(f'{text}: give each file a label of its own, as in "1 bit=model.onnx".')
        files[label] = Path(locate_model(path))
        if not isinstance(load(path), ImageModel):  # which also says what is wrong with a file, before the work
            raise RebnnError(f'{path} takes texts, and only models of images are compared here.')
    return files


def calibration_images(cfg: Config, path: Path) -> CalibrationImages:
    """Images of the training set, prepared as a file wants them."""
    if cfg.get('train_dataloader') is None:
        raise RebnnError('--int8-of takes images of the training set, and the config has none.')
    check_data(cfg, ['train'])
    steps = json.loads(read_onnx(path.read_bytes()).metadata['rebnn.preprocess'])
    return CalibrationImages(steps, dataset_images(cfg.train_dataloader.dataset))


def load_report(path: Path) -> dict[str, Any]:
    """Read what an earlier call has written."""
    try:
        report = json.loads(path.read_text(encoding='utf-8')) if path.is_file() else {}
        if report == {} or (isinstance(report, dict) and isinstance(report.get('scores'), dict)):
            return report
    except ValueError:
        pass
    raise RebnnError(f'--json {path} was not written by this program: name another, or remove it.')


def key_of(path: Path, cfg: Config) -> str:
    """Name what a score depends on: the file, the test set with its annotations, and the evaluator."""
    digest = hashlib.sha256(path.read_bytes())
    digest.update(repr((cfg.test_dataloader.dataset, cfg.test_evaluator)).encode())
    for entry in data_paths(cfg, ['test']):
        if Path(entry.path).is_file():
            digest.update(Path(entry.path).read_bytes())
    return digest.hexdigest()[:16]


def percent(metric: str, score: float) -> float:
    """A score in percent, by its key: mmpretrain's are so already."""
    return 100 * score if metric.startswith(('coco/', 'pascal_voc/')) else score


def metric_of(scores: Mapping[str, Mapping[str, float]], wanted: str | None) -> str:
    """The key of the score that counts; mmdet gives none to a detector that finds nothing."""
    if not any(scores.values()):
        return wanted or 'coco/bbox_mAP'
    known = list(dict.fromkeys(key for own in scores.values() for key in own))
    found = next((key for key in ([wanted] if wanted else METRICS) if key in known), None)
    if found is None:
        raise RebnnError(f'there is no {wanted or " or ".join(METRICS)}; choose by --metric from {", ".join(known)}.')
    return found


def time_files(cfg: Config, files: dict[str, Path], args: argparse.Namespace) -> dict[str, float]:
    """Median milliseconds for a prepared test image, by label; the files take turns."""
    images = dataset_images(cfg.test_dataloader.dataset, IMAGES)
    runs: dict[str, Callable[[], object]] = {}
    for label, path in files.items():
        packed = load(path)
        assert isinstance(packed, ImageModel)
        packed.session = open_timed(path, read_onnx(path.read_bytes()).has_operators, args.threads)
        prepared = [packed.prepare(image if isinstance(image, np.ndarray) else str(image)) for image in images]
        # each call takes the next image
        runs[label] = map(packed.run, itertools.cycle(prepared)).__next__
    allowed = os.sched_getaffinity(0)
    try:
        if args.threads == 1:
            pin(None, Path('/'))
        for run in runs.values():
            run()
        times = measure(runs, args.rounds * len(images))
    finally:
        os.sched_setaffinity(0, allowed)
    return {label: round(statistics.median(ms), 3) for label, ms in times.items()}


def circumstances(args: argparse.Namespace) -> dict[str, Any]:
    """Describe the conditions of the measurement, as JSON holds them."""
    return {
        'date': datetime.now(timezone.utc).isoformat(timespec='seconds'),
        'command': quote_command(),
        'threads': args.threads,
        'cpu': describe_cpu(None, Path('/')),
        'versions': versions(),
    }


def conditions(report: dict[str, Any]) -> str:
    """State the conditions of the numbers, in a sentence."""
    cpu, versions_ = report['cpu'], report['versions']
    name = cpu['cpuinfo'].get('model name', cpu['machine'])
    return (
        f'Measured {report["date"][:10]} by `{report["command"]}`: {name}, {report["threads"]} thread(s), batch 1, '
        f'medians in turns; onnxruntime {versions_["onnxruntime"]}, kernels {versions_["kernels"]}.'
    )


def write(path: Path, report: dict[str, Any]) -> None:
    """The file whole or not at all."""
    with whole_file(path) as part:
        part.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
