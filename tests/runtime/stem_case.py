"""The full-precision stem as an ONNX model of one node, and computed by NumPy as docs/operators.md says."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import ModelProto, TensorProto, helper, numpy_helper

from rebnn_mm.export.operators import attach_functions

TOLERANCE = 2e-5
"""Of the largest value: Winograd's sums are off by about two units in the last place of the largest term."""


HALF_TOLERANCES = {'float16': 0.03, 'bfloat16': 0.15, 'float32': TOLERANCE}
"""Of the largest value, with products of 16 bits: the transforms add up what was rounded, with factors up to 8."""


def stem_constants(channels: int, outputs: int) -> dict[str, np.ndarray]:
    """Random weights, factors and terms."""
    rng = np.random.default_rng(channels + outputs)
    return {
        'W': rng.normal(size=(outputs, channels, 7, 7)).astype(np.float32) / 10,
        'mul': rng.normal(size=outputs).astype(np.float32),
        'add': rng.normal(size=outputs).astype(np.float32),
    }


def stem_model(
    constants: Mapping[str, np.ndarray],
    *,
    computed: Iterable[str] = (),
    inputs: Iterable[str] = ('X', 'W', 'mul', 'add'),
    name: str = 'conv1',
    **attributes: Any,
) -> ModelProto:
    """A model whose input is the image.

    Args:
        constants: of the node.
        computed: those that are fed at run time instead.
        inputs: of the node.
        name: of the node.
        **attributes: of the node.
    """
    node = helper.make_node('RealStem', list(inputs), ['Y'], name, domain='rebnn', **attributes)
    stored = {key: value for key, value in constants.items() if key not in computed}
    graph = helper.make_graph(
        [node],
        'stem',
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, None) for key in ('X', *computed)],
        [helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in stored.items()],
    )
    return attach_functions(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9))


def stem_of(x: np.ndarray, constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the operator gives for an image [N, C, H, W], in float64: [N, O, H', W']."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (3, 3), (3, 3)))
    windows = sliding_window_view(padded, (7, 7), (2, 3))[:, :, ::2, ::2]
    sums = np.einsum('nchwij,ocij->nohw', windows, constants['W'].astype(np.float64))
    scaled = sums * constants['mul'][:, None, None] + constants['add'][:, None, None]
    padded = np.pad(scaled, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
