"""Writers of files for other engines: larq compute engine and BOLT."""

from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

from rebnn_mm.deploy.session import open_session

from .bolt import emulate_bolt, to_bolt
from .exporter import noise, unfused_graph, write
from .lce.engine import engine_folder, engine_installed, run_engine
from .lce.write import to_lce
from .options import Options
from .source import Source
from .task import Task, task_of
from .verify import Image, verify

AGREEMENT = 0.02
"""Largest difference of an output, relative to its largest value, from the packed file's. Real-valued layers are
computed in another order there, so now and then a value next to zero changes its sign; an error would change most."""


def write_lce(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write a TensorFlow Lite file for larq compute engine, run it there if it is installed, and print what was found.

    Raises:
        ValueError: the model or an option does not go into such a file; no file is left.
    """
    graph, images = _checked(source, 'lce', options, console)
    data = to_lce(graph, source.size, f'rebnn_mm {source.config}')
    _say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first, prepared as docs/format.md says.',
    )
    if engine_installed():
        results = run_engine([(data, np.concatenate([image.values for image in images]))])
        _compare('Larq compute engine', _outputs(graph, images), list(results[0]), console)
    else:
        _say(
            console,
            f'The file was not run: larq compute engine is not in {engine_folder()} (make setup puts it there).',
        )
    write(data, path)
    _say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB.')


def write_bolt(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write an ONNX file that BOLT's converter recognises, check it under BOLT's rules, and print what was found.

    Raises:
        ValueError: the model or an option does not go into such a file; no file is left.
    """
    graph, images = _checked(source, 'bolt', options, console)
    model, excluded = to_bolt(graph, source.size)
    _say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first. Convert it with X2bolt -i BNN.',
    )
    for layer, reason in excluded.items():
        _say(console, f"{layer} stays real-valued there, because BOLT's rules exclude it: {reason}.")
    results = _outputs(emulate_bolt(model), images)
    _compare("BOLT's rules, emulated,", _outputs(graph, images), results, console)
    onnx.checker.check_model(model, full_check=True)
    data = model.SerializeToString()
    write(data, path)
    _say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB, weights as float32 until BOLT converts them.')


def _checked(source: Source, name: str, options: Options, console: Console) -> tuple[onnx.ModelProto, list[Image]]:
    """The packed graph, which agrees with PyTorch, and the images that it was compared on."""
    asked = {
        '--fast': (options.fast, 'kernels'),
        '--half': (options.half, 'number types'),
        '--half-stem': (options.half_stem, 'number types'),
        '--no-fuse': (not options.fused, 'operators'),
    }
    for option, (given, what) in asked.items():
        if given:
            raise ValueError(f'{option} is for --format onnx; --format {name} has the {what} of its engine.')
    task = task_of(source.model)
    if task.name == 'detection':
        raise ValueError(
            f'--format {name} writes classifiers: its engine has no place for the selection of boxes. '
            'Use --format onnx.'
        )
    _say(console, '... packing and tracing')
    graph, _ = unfused_graph(source.model, task, source.size)
    if len(graph.graph.output) != 1:
        raise ValueError(
            f'--format {name} writes models with one output, and this one has {len(graph.graph.output)}. '
            'Use --format onnx.'
        )
    images = source.images or noise(source.preprocess, source.size)
    wrong = next((image for image in images if image.values.shape[2:] != source.size), None)
    if wrong is not None:
        raise ValueError(
            f'an image is {wrong.values.shape[2]}x{wrong.values.shape[3]} after preparation, and the file takes '
            f'{source.size[0]}x{source.size[1]} only; set the size with --shape.'
        )
    _say(console, f'... comparing with PyTorch on {len(images)} images')
    verify(graph, source.model, Task(task.name), images)
    return graph, images


def _outputs(model: onnx.ModelProto, images: list[Image]) -> list[np.ndarray]:
    """What the functions inside of a model with one output give for each image."""
    session = open_session(model.SerializeToString(), library=False)
    name = session.get_inputs()[0].name
    return [np.asarray(session.run(None, {name: image.values})[0]) for image in images]


def _compare(engine: str, expected: list[np.ndarray], results: list[np.ndarray], console: Console) -> None:
    differences = [
        float(np.abs(result.reshape(-1) - value.reshape(-1)).max() / np.abs(value).max())
        for result, value in zip(results, expected, strict=True)
    ]
    if max(differences) > AGREEMENT:
        raise ValueError(
            f'{engine} gives another answer than the packed file: outputs differ by {max(differences):.2g} of the '
            'largest.'
        )
    same = sum(int(result.argmax() == value.argmax()) for result, value in zip(results, expected, strict=True))
    _say(
        console,
        f'{engine} against the packed file on {len(results)} images: outputs differ by at most '
        f'{max(differences):.2g} of the largest, best class the same on {same}.',
    )


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
