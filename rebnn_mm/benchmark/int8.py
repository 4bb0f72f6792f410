"""The alternative to a binary network: the full-precision one, quantized to 8 bits by ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx

from rebnn_mm.export.passes.int8 import insert_int8, measure_ranges, saturates, values_of, watch_values
from rebnn_mm.utils.console import quiet

from .timing import noise_feeds, open_timed

LAYERS = ('Conv', 'Gemm', 'MatMul', 'MaxPool', 'GlobalAveragePool', 'Relu', 'Clip')
"""Operators that are quantized, in addition to additions before a Relu. The rest of a detector is arithmetic on boxes
and scores."""

CALIBRATION_IMAGES = 8


def quantize(
    real: Path, size: tuple[int, int], images: Iterable[dict[str, np.ndarray]] | None = None
) -> onnx.ModelProto:
    """Quantize a network statically, weights per channel; without images calibrated on noise, enough for times."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, quiet():
        prepared, ranged = Path(folder, 'prepared.onnx'), Path(folder, 'ranged.onnx')
        # folds batch norms into convolutions; shapes are not needed
        quant_pre_process(real, prepared, skip_symbolic_shape=True)
        model = onnx.load(prepared)
        # exported files leave the names of standard nodes out, and the quantizer knows nodes by their names only
        for index, node in enumerate(model.graph.node):
            node.name = node.name or f'node_{index}'
        names = layers(model)
        nodes = [node for node in model.graph.node if node.name in names]
        ranged.write_bytes(watch_values(model, values_of(model, nodes)))
        session = open_timed(ranged, packed=False, threads=1)
        noise = (noise_feeds(session, size, seed) for seed in range(CALIBRATION_IMAGES))
        ranges = measure_ranges(session, values_of(model, nodes), noise if images is None else images)
    return insert_int8(model, names, ranges, reduced=saturates())


def layers(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that are quantized; a Clip only after one of them, as decoding boxes has others."""
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    names: list[str] = []
    made: set[str] = set()
    for node in model.graph.node:
        is_layer = node.op_type in LAYERS or (node.op_type == 'Add' and readers.get(node.output[0]) == ['Relu'])
        if is_layer and (node.op_type != 'Clip' or node.input[0] in made):
            names.append(node.name)
            made.update(node.output)
    return names
