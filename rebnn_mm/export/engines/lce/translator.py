"""Translates an ONNX graph of a classifier into TensorFlow Lite, with images in NHWC order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from ....errors import RebnnError
from .builder import TFLiteBuilder


@dataclass(frozen=True)
class Activation:
    """A tensor of the graph."""

    index: int  # in the TensorFlow Lite file
    shape: tuple[int, ...]  # as ONNX has it; an image (four dimensions) is NCHW there and NHWC in the file

    @property
    def is_image(self) -> bool:
        """Whether the order of dimensions differs between the two files."""
        return len(self.shape) == 4


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """NCHW to NHWC; other shapes stay."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


class Translator:
    """Walks the nodes of a graph in their order and writes each as one or several operators.

    Raises:
        ValueError: an operator, or an option of one, that is not translated; the sentence names the node.
    """

    def __init__(
        self, model: onnx.ModelProto, size: tuple[int, int], translations: 'Mapping[str, Translation]'
    ) -> None:
        self.model = model
        self.translations = translations
        self.builder = TFLiteBuilder()
        self.values: dict[str, Activation | NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        image = model.graph.input[0]
        channels = image.type.tensor_type.shape.dim[1].dim_value
        self.image = Activation(self.builder.tensor((1, *size, channels), np.float32), (1, channels, *size))
        self.values[image.name] = self.image

    def translate(self, description: str) -> bytes:
        """The TensorFlow Lite file."""
        for node in self.model.graph.node:
            self._node(node)
        outputs = [self.activation(output.name).index for output in self.model.graph.output]
        return self.builder.finish([self.image.index], outputs, description)

    def activation(self, name: str) -> Activation:
        """The tensor of that name, written as a constant if it is one."""
        value = self.values[name]
        if isinstance(value, Activation):
            return value
        order = value.transpose(0, 2, 3, 1) if value.ndim == 4 else value
        return Activation(self.builder.constant(order.astype(np.float32)), value.shape)

    def constant(self, node: onnx.NodeProto, index: int) -> NDArray[Any]:
        """An input that has to be known when the file is written."""
        value = self.values[node.input[index]]
        if isinstance(value, Activation):
            raise RebnnError(f'{describe(node)}: input {index} must be a constant, and it is computed')
        return value

    def write(
        self, name: str, inputs: list[int], shape: tuple[int, ...], options_type: str = '', **options: Any
    ) -> Activation:
        """Add an operator whose output has this shape in ONNX's order."""
        return Activation(self.builder.operator(name, inputs, image_shape(shape), options_type, **options), shape)

    def _node(self, node: onnx.NodeProto) -> None:
        known = [self.values.get(name) for name in node.input if name]
        if node.op_type == 'Shape' and isinstance(known[0], Activation):
            options = attributes(node)
            part = slice(options.get('start'), options.get('end'))
            self.values[node.output[0]] = np.array(known[0].shape[part], np.int64)
        elif all(isinstance(value, np.ndarray) for value in known) and node.domain != 'rebnn':
            feeds = {name: self.values[name] for name in node.input if name}
            results: list[Any] = list(ReferenceEvaluator(node).run(None, feeds))
            self.values.update(zip(node.output, results, strict=True))
        else:
            translate = self.translations.get(node.op_type)
            if translate is None:
                raise RebnnError(
                    f'{describe(node)}: {node.op_type} is not translated to TensorFlow Lite. --format lce writes '
                    f'classifiers of these operators: {", ".join(sorted(self.translations))}. Use --format onnx.'
                )
            self.values[node.output[0]] = translate(self, node)


Translation = Callable[[Translator, onnx.NodeProto], Activation]
"""Writes a node's operators and returns its output."""


def describe(node: onnx.NodeProto) -> str:
    """Operator and name of a node, to begin an error message with."""
    return f'{node.op_type} {node.name!r}'


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
