"""The packed model of a classifier as a file for larq compute engine."""

from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

from ...exporter import write as write_whole
from ...options import Options
from ...source import Source
from ..common import check_graph, compare, outputs_of, say
from .engine import engine_folder, has_engine, run_engine
from .operators import TRANSLATIONS
from .translator import Translator


def write(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write a TensorFlow Lite file for larq compute engine, run it there if it is installed, and print what was found.

    Raises:
        ValueError: the model or an option does not go into such a file; no file is left.
    """
    graph, images = check_graph(source, 'lce', options, console)
    data = to_lce(graph, source.size, f'rebnn_mm {source.config}')
    say(
        console,
        f'The file takes one {source.size[0]}x{source.size[1]} image, height first, prepared as docs/format.md says.',
    )
    if has_engine():
        results = run_engine([(data, np.concatenate([image.values for image in images]))])
        compare('Larq compute engine', outputs_of(graph, images), list(results[0]), console)
    else:
        say(
            console,
            f'The file was not run: larq compute engine is not in {engine_folder()} (make setup puts it there).',
        )
    write_whole(data, path)
    say(console, f'Wrote {path}: {len(data) / 1e6:.2f} MB.')


def to_lce(model: onnx.ModelProto, size: tuple[int, int], description: str) -> bytes:
    """Write a TensorFlow Lite file with larq compute engine's binary operators.

    The file takes one image [1, H, W, C], normalised as ``rebnn.preprocess`` says, and gives what the model gives.
    Sums are the same integers; scaling factors and batch norms stay operators of their own, in the same order.

    Args:
        model: an ONNX model whose binary operators are not fused.
        size: height and width of the image, which the file fixes.
        description: of the model, kept in the file.

    Raises:
        ValueError: an operator, or an option of one, that is not translated; the sentence names the node.

    Source: larq compute engine 0.16 (operators ``LceQuantize`` and ``LceBconv2d``).
    """
    return Translator(model, size, TRANSLATIONS).translate(description)
