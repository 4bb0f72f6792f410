"""The packed model of a classifier as a file for larq compute engine."""

from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

from rebnn_mm.deploy.session import open_session

from ....errors import RebnnError
from ...detection.traced_parts import image_channels
from ...distance import distance_of
from ...examples import Image, noise
from ...exporter import build_unfused_graph
from ...exporter import write as write_whole
from ...options import Options
from ...report import say
from ...source import Source
from ...tasks import task_of
from ...verify import verify
from .engine import engine_folder, has_engine, run_engine
from .operators import Translator

AGREEMENT = 0.02
"""Largest difference of an output, relative to its largest value, from the packed file's. Full-precision layers are
computed in another order there, so now and then a value next to zero changes its sign; an error would change most."""


def write(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write a file for larq compute engine if it gives the packed file's answer there, where that is installed."""
    graph, images = _check_graph(source, options, console)
    data = Translator(graph, source.size).translate(f'rebnn_mm {source.config}')
    say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first, prepared as docs/format.md says.',
    )
    if has_engine():
        results = run_engine([(data, np.concatenate([image.values for image in images]))])
        _compare(_outputs_of(graph, images), list(results[0]), console)
    else:
        say(
            console,
            f'The file was not run: larq compute engine is not in {engine_folder()} (make setup puts it there).',
        )
    write_whole(data, path)
    say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB.')


def _check_graph(source: Source, options: Options, console: Console) -> tuple[onnx.ModelProto, list[Image]]:
    """The packed graph, which agrees with PyTorch, and the images that it was compared on."""
    if source.tokenizer is not None:
        raise RebnnError('--format lce holds image classifiers, and this model takes texts; use onnx.')
    if options.given():
        raise RebnnError(
            f'{options.given()[0]} is an option of --format onnx; --format lce has the operators and number types '
            'of its engine.'
        )
    task = task_of(source.model)
    if task.name == 'detection':
        raise RebnnError(
            '--format lce writes classifiers: its engine has no place for the selection of boxes. Use --format onnx.'
        )
    images = [example for example in source.examples if isinstance(example, Image)]
    images = images or noise(source.preprocess or {'channels': 'rgb'}, source.size, image_channels(source.model))
    wrong = next((image for image in images if image.values.shape[2:] != source.size), None)
    if wrong is not None:
        raise RebnnError(
            f'an image is {wrong.values.shape[2]}x{wrong.values.shape[3]} after preparation, and the file takes '
            f'{source.size[0]}x{source.size[1]} only; set the size with --shape.'
        )
    say(console, '... packing and tracing')
    graph, _ = build_unfused_graph(source.model, task, source.size)
    if len(graph.graph.output) != 1:
        raise RebnnError(
            f'--format lce writes models with one output, and this one has {len(graph.graph.output)}; use onnx.'
        )
    say(console, f'... comparing with PyTorch on {len(images)} images')
    verify(graph, source.model, task, images)
    return graph, images


def _outputs_of(model: onnx.ModelProto, images: list[Image]) -> list[np.ndarray]:
    """Run the functions inside of a model with one output on each image."""
    session = open_session(model.SerializeToString(), library=False)
    name = session.get_inputs()[0].name
    return [np.asarray(session.run(None, {name: image.values})[0]) for image in images]


def _compare(expected: list[np.ndarray], results: list[np.ndarray], console: Console) -> None:
    differences = [
        distance_of(value.reshape(-1), result.reshape(-1)).relative
        for result, value in zip(results, expected, strict=True)
    ]
    if max(differences) > AGREEMENT:
        raise RebnnError(
            'larq compute engine gives another answer than the packed file: outputs differ by '
            f'{max(differences):.2g} of the largest.'
        )
    same = sum(int(result.argmax() == value.argmax()) for result, value in zip(results, expected, strict=True))
    say(
        console,
        f'Larq compute engine against the packed file on {len(results)} images: outputs differ by at most '
        f'{max(differences):.2g} of the largest, best class the same on {same}.',
    )
