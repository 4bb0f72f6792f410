"""Models without a graph for their prediction: what their heads give."""

from typing import Any

import onnx
import torch
from torch import Tensor, nn

from ..trace import trace
from .stages import ImageStage, example_image, two_stage


def raw_graph(model: nn.Module) -> tuple[onnx.ModelProto, list[str]]:
    """The graph of a model that is no classifier and no supported detector: from ``image`` to its head's outputs.

    A one-stage detector gives the maps of its head, a model of mmpretrain what its ``mode='tensor'`` gives. Of a
    detector with a second stage that is not supported there are the maps of the proposal head and the feature maps:
    what comes after them depends on the proposals.

    Args:
        model: of mmdet or mmpretrain, in eval mode, as a rule packed by :func:`rebnn_mm.export.pack`.

    Returns:
        tuple[onnx.ModelProto, list[str]]: the graph, with dynamic batch and image size, and the names of its outputs:
        ``output``, or ``output_`` and the position of each in the model's nested tuples, such as ``output_0_2``.

    Raises:
        ValueError: the model gives nothing for an image alone, or cannot be traced; the message says why.

    Example:
        >>> raw_graph(nn.Conv2d(3, 8, 1))[1]
        ['output']
    """
    module: nn.Module = ImageStage(model) if two_stage(model) else model
    # A dimension that is 1 in the example would be taken for a fixed one.
    example = example_image(model).expand(2, -1, -1, -1)
    try:
        with torch.no_grad():
            outputs = module(example)
    except Exception as error:
        raise ValueError(f'{type(model).__name__} gives no output for an image alone: {error}') from error
    names = _names('output', outputs, type(model).__name__)
    return trace(module, {'image': example}, names, {'image': [0, 2, 3]}), names


def _names(name: str, value: Any, model: str) -> list[str]:
    if isinstance(value, Tensor):
        return [name]
    if isinstance(value, tuple | list):
        return [inner for i, x in enumerate(value) for inner in _names(f'{name}_{i}', x, model)]
    raise ValueError(f'{model} gives a {type(value).__name__} as {name}, which a graph does not hold')
