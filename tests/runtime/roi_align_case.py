"""The alignment of regions as an ONNX model of one node, by our operator or by the standard one, and random cases."""

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from rebnn_mm.export.operators import attach_functions

TOLERANCE = 1e-5
"""Of the map's largest value: a bin is the mean of up to a thousand products, taken in another order."""

INPUTS = {'X': TensorProto.FLOAT, 'rois': TensorProto.FLOAT, 'batch_indices': TensorProto.INT64}

Feeds = dict[str, np.ndarray]


def roi_align_model(*, standard: bool = False, **attributes: Any) -> ModelProto:
    """A model of one node; ``standard`` for ONNX's own operator, whose maps have the channels first."""
    op_type, domain = ('RoiAlign', '') if standard else ('RealRoiAlign', 'rebnn')
    graph = helper.make_graph(
        [helper.make_node(op_type, list(INPUTS), ['Y'], 'regions', domain=domain, **attributes)],
        'one',
        [helper.make_tensor_value_info(name, kind, None) for name, kind in INPUTS.items()],
        [helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)],
    )
    return attach_functions(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9))


def random_case(rng: np.random.Generator) -> tuple[Feeds, dict[str, Any]]:
    """Inputs with the channels last and attributes; regions of any size, beyond the map, too, and some of no size."""
    n, h, w = (int(side) for side in rng.integers(1, [4, 30, 30]))
    channels, count = int(rng.choice([1, 3, 4, 8, 17, 64, 150])), int(rng.integers(0, 12))
    scale = float(rng.choice([1.0, 0.5, 0.0625]))
    corners = rng.uniform(-0.6, 1.6, (count, 2, 2)) * [w / scale, h / scale]
    corners.sort(axis=1)
    flat = rng.random(count) < 0.1
    corners[flat, 1] = corners[flat, 0]
    feeds = {
        'X': rng.normal(size=(n, h, w, channels)).astype(np.float32),
        'rois': corners.reshape(count, 4).astype(np.float32),
        'batch_indices': rng.integers(0, n, count),
    }
    attributes = {
        'output_height': int(rng.integers(1, 8)),
        'output_width': int(rng.integers(1, 8)),
        'spatial_scale': scale,
        'sampling_ratio': int(rng.integers(0, 4)),
        'coordinate_transformation_mode': str(rng.choice(['half_pixel', 'output_half_pixel'])),
    }
    return feeds, attributes
