"""Print what a packed model finds in an image or a text.

rebnn run zoo:blood-cells-tiny zoo:BloodImage_00021.jpg --out painted.png
rebnn run resnet18.onnx cat.jpg
rebnn run sst2.onnx "a gorgeous, witty, seductive movie"
rebnn run faster_rcnn.onnx street.jpg --out street_boxes.jpg --score-thr 0.5
rebnn run faster_rcnn.onnx street.jpg --json > street.json
rebnn run resnet18.onnx photos --batch 8
rebnn run faster_rcnn.onnx street.mp4 --out painted.mp4
rebnn run faster_rcnn.onnx rtsp://door/live --json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from ..errors import CommandParser, report_errors
from ..version import __version__
from .classifier import Classifier, Label
from .detections import Detections
from .detector import Detector
from .draw import can_be_written, save
from .errors import DeployError, ImageError, first_sentence
from .image import read_image
from .loading import load
from .measurement import measure
from .model import ImageModel
from .native import MOST_THREADS
from .painted import open_output
from .session import library_available
from .several import images_of, is_several
from .text_classifier import TextClassifier
from .whole_file import is_input, whole_file
from .zoo import zoo_lines

TOP = 5
"""Classes of a classifier that are printed."""


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('model', help='packed model, written by rebnn export, zoo:<name> or hf:owner/name')
    parser.add_argument('input', help='image file, or the text for a model of texts')
    parser.add_argument(
        'more',
        nargs='*',
        default=[],
        help='further images; any may be a folder, a video file, a camera (0), or rtsp://...',
    )
    parser.add_argument('--batch', type=positive, default=1, help='images per run; default: %(default)s')
    parser.add_argument(
        '--skip-broken',
        action='store_true',
        help='with several images: skip unreadable ones instead of stopping; they are listed, and the exit code is 1',
    )
    parser.add_argument(
        '--size',
        type=positive,
        nargs=2,
        metavar=('WIDTH', 'HEIGHT'),
        help='size of the training images, for a classifier whose file does not contain it',
    )
    parser.add_argument('--pair', metavar='TEXT', help='second text, for a model of pairs')
    parser.add_argument(
        '--out',
        type=Path,
        help='painted image to write; for several images a folder or a .mp4; for the outputs of a raw model a .npz',
    )
    parser.add_argument(
        '--score-thr', type=share, default=0.3, help='lowest score of an object, 0 to 1; default: %(default)s'
    )
    parser.add_argument('--top', type=positive, help=f'how many classes of a classifier; default: {TOP}')
    parser.add_argument(
        '--threads',
        type=_threads,
        default=1,
        help='threads for one image; for several images, how many run at a time; default: %(default)s',
    )
    parser.add_argument(
        '--provider',
        action='append',
        default=[],
        metavar='NAME',
        help='execution provider of ONNX Runtime for full-precision layers, such as CUDA; may be repeated',
    )
    parser.add_argument(
        '--json',
        action='store_true',
        help='print JSON instead of a table: a line {"image": ..., "result": ...} for each image',
    )
    parser.add_argument(
        '--time', type=positive, nargs='?', const=20, metavar='RUNS', help='also time it, %(const)s runs by default'
    )
    models = '\n'.join(zoo_lines())
    parser.add_argument(
        '--list', action='version', version=models, help='list the trained models of the package and exit'
    )
    versions = f'rebnn_mm {__version__}, ONNX Runtime {onnxruntime.__version__}, NumPy {np.__version__}'
    parser.add_argument('--version', action='version', version=versions, help='print versions and exit')
    parser.add_argument('--no-library', action='store_true', help='run without the kernels, slowly')
    return parser.parse_args(arguments)


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; what goes wrong ends it with one sentence and exit code 1."""
    args = parse_args(arguments)
    # what goes wrong is raised; the default logger, unlike a session's, has no option
    onnxruntime.set_default_logger_severity(4)
    warnings.formatwarning = lambda message, *_: f'{os.path.relpath(sys.argv[0])}: {message}\n'
    try:
        for line in run(args):
            print(line, flush=True)
    except MemoryError as error:
        raise DeployError('there is not enough memory for this model and image') from error


def run(args: argparse.Namespace) -> Iterable[str]:
    """The lines to print; ``--out`` is written."""
    sources = [args.input, *args.more]
    several = len(sources) > 1 or is_several(args.input)
    # Each of several images has a thread of its own, which wastes less than threads that share an image.
    size = None if args.size is None else (args.size[0], args.size[1])
    threads = 1 if several else args.threads
    model = load(args.model, threads, not args.no_library, size, args.provider)
    if args.top is not None and not isinstance(model, Classifier | TextClassifier):
        raise ImageError(f'--top is for classifiers, which {args.model} is not; leave it out')
    args.top = args.top or TOP
    if args.pair is not None and not isinstance(model, TextClassifier):
        raise ImageError(f'--pair: {args.model} takes images')
    if several and not isinstance(model, TextClassifier):
        return run_several(args, model, sources)
    if args.more:
        raise ImageError(f'{args.model} takes one text, or two with --pair; here are {len(sources)}')
    if args.out is not None:
        _check_out(args.out, model)
        if is_input(args.out, [args.model, args.input]):
            raise ImageError(f'--out {args.out} would overwrite an input; give another name')
    if isinstance(model, TextClassifier):
        text = args.input if args.pair is None else (args.input, args.pair)
        labels = model(text, top=args.top)
        lines = [json.dumps({'text': text, 'result': as_json(labels)})] if args.json else _table(labels)
        return lines + _time_model(args, lambda: model(text))
    image = read_image(args.input)
    result = model(image, top=args.top) if isinstance(model, Classifier) else model(image)
    if isinstance(result, Detections):
        result = result.at_least(args.score_thr)
    if args.out is not None:
        if isinstance(result, Detections):
            save(result.draw(image), args.out)
        elif isinstance(result, dict):
            _save_outputs(result, args.out)
    times = _time_model(args, lambda: model(image))
    if args.json:
        return [json.dumps({'image': args.input, 'result': as_json(result)})]
    lines = _table(result)
    if isinstance(result, Detections):
        lines.append(f'{len(result)} objects with a score of at least {args.score_thr:g} in {args.input}')
    return [*lines, *times] if args.out is None else [*lines, *times, f'written: {args.out}']


def _time_model(args: argparse.Namespace, run: Callable[[], object]) -> list[str]:
    """Time the whole call for ``--time``, with preparation but without reading the file; to stderr with JSON."""
    if args.time is None:
        return []
    (times,) = measure({args.model: run}, args.time).values()
    how = 'without our kernels' if args.no_library or not library_available() else 'with our kernels'
    threads = f'{args.threads} thread{"s" if args.threads > 1 else ""}'
    median, least, most = statistics.median(times), min(times), max(times)
    line = f'{median:.2f} ms, median of {args.time} runs ({least:.2f} to {most:.2f}), {threads}, {how}'
    if args.json:
        print(line, file=sys.stderr)
    return [] if args.json else [line]


NOTHING = np.zeros((0, 0, 3), np.uint8)


def run_several(args: argparse.Namespace, model: ImageModel, sources: Sequence[str]) -> Iterator[str]:
    """Run several images, and write each result as soon as it is there."""
    if args.time is not None:
        raise ImageError('--time takes one image; for several, the last line gives images per second')
    if args.out is not None and not isinstance(model, Detector):
        raise ImageError(f'--out {args.out}: only a detector paints several images, and {args.model} is none')
    seen: deque[tuple[str, np.ndarray]] = deque()

    def images() -> Iterator[np.ndarray | ImageError]:
        for name, image in images_of(sources):
            seen.append((name, image if args.out is not None and isinstance(image, np.ndarray) else NOTHING))
            yield image

    options = {'top': args.top} if isinstance(model, Classifier) else {}
    start, number, broken = time.perf_counter(), 0, []
    with nullcontext() if args.out is None else open_output(args.out, sources) as add:
        for result in model.stream(images(), batch=args.batch, workers=args.threads, on_error='return', **options):
            name, image = seen.popleft()
            if isinstance(result, ImageError):
                if not args.skip_broken:
                    raise ImageError(f'{result}; --skip-broken continues with the next image')
                warnings.warn(f'skipped: {result}', stacklevel=1)
                broken.append(name)
                continue
            number += 1
            if isinstance(result, Detections):
                result = result.at_least(args.score_thr)
                if add is not None:
                    add(name, result.draw(image))
            if args.json:
                yield json.dumps({'image': name, 'result': as_json(result)})
            else:
                yield from [name, *(f'  {line}' for line in _table(result))]
    if not args.json:
        seconds = time.perf_counter() - start
        yield f'{number} images, {number / seconds:.1f} per second'
        if args.out is not None:
            yield f'written: {args.out}'
    if broken:
        raise ImageError(f'{len(broken)} of {number + len(broken)} images were skipped: {", ".join(broken)}')


Result = list[Label] | Detections | dict[str, np.ndarray]


def positive(text: str) -> int:
    """A number of an argument that counts something."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'must be a whole number, not {text}') from None
    if value < 1:
        raise argparse.ArgumentTypeError('must be at least 1')
    return value


def _threads(text: str) -> int:
    value = positive(text)
    if value > MOST_THREADS:
        raise argparse.ArgumentTypeError(f'must be at most {MOST_THREADS}')
    return value


def share(text: str) -> float:
    """A number of an argument from 0 to 1, as scores and overlaps are."""
    try:
        value = float(text)
    except ValueError:
        value = float('nan')
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'must be a number from 0 to 1, not {text}')
    return value


def _check_out(out: Path, model: object) -> None:
    if isinstance(model, Detector):
        if not can_be_written(out):
            raise ImageError(f'{out}: images are written as .jpg or .png')
    elif isinstance(model, Classifier | TextClassifier):
        raise ImageError(f'--out {out}: a classifier has no boxes to draw; its labels are printed')
    elif out.suffix != '.npz':
        raise ImageError(f'--out {out}: the outputs of a raw model are written as .npz')


def _save_outputs(outputs: Mapping[str, np.ndarray], out: Path) -> None:
    """Write arrays as ``numpy.savez`` does, which refuses an output named "file"."""
    try:
        with whole_file(out) as part, zipfile.ZipFile(part, 'w') as archive:
            for name, value in outputs.items():
                with archive.open(f'{name}.npy', 'w', force_zip64=True) as member:
                    np.lib.format.write_array(member, value, allow_pickle=False)
    except OSError as error:
        raise ImageError(f'{out} cannot be written ({first_sentence(error)})') from None


def as_json(result: Result) -> Any:
    if isinstance(result, Detections):
        return result.to_dicts()
    if isinstance(result, dict):
        return {name: {'shape': list(value.shape), 'type': str(value.dtype)} for name, value in result.items()}
    return [{'name': label.name, 'label': label.number, 'score': label.score} for label in result]


def _table(result: Result) -> list[str]:
    if isinstance(result, Detections):
        rows = [['object', 'score', 'x1', 'y1', 'x2', 'y2']]
        rows += [[one.name, f'{one.score:.3f}', *(f'{edge:.1f}' for edge in one.box)] for one in result]
    elif isinstance(result, dict):
        rows = [['output', 'type', 'shape']]
        rows += [[name, str(value.dtype), ' x '.join(map(str, value.shape))] for name, value in result.items()]
    else:
        rows = [['class', 'score'], *([label.name, f'{label.score:.3f}'] for label in result)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        '  '.join(
            [row[0].ljust(widths[0]), *(cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


if __name__ == '__main__':
    main()
