"""The packed model of a classifier as a file for larq compute engine."""

import onnx

from .operators import TRANSLATIONS
from .translator import Translator


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
