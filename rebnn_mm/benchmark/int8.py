"""What a user would pick instead of a binary network: the real-valued one, quantised to 8 bits by ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
import logging
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from .timing import noise_feeds, timed_session

LAYERS = ('Conv', 'Gemm', 'MatMul', 'MaxPool', 'GlobalAveragePool', 'Relu', 'Clip')
"""Operators that are quantised, beside the additions in front of a Relu. The rest of a detector is arithmetic on boxes
and scores."""

CALIBRATION_IMAGES = 8


def quantised(real: Path, size: tuple[int, int], images: list[dict[str, np.ndarray]] | None = None) -> onnx.ModelProto:
    """The network by static quantisation: QDQ, weights per channel in int8, activations in uint8 by their range.

    Args:
        real: the real-valued network.
        size: height and width of an image.
        images: inputs to calibrate on; None for noise, which is enough for times.

    Raises:
        ValueError: the packages are missing, or the network cannot be quantised; one sentence says so.
    """
    try:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise ValueError(f'{error}: quantising needs `pip install onnx onnxruntime`.') from None

    class Calibration(CalibrationDataReader):
        def __init__(self, feeds: Iterator[dict[str, np.ndarray]]) -> None:
            self.feeds = feeds

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.feeds, None)

    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared, out = Path(folder, 'prepared.onnx'), Path(folder, 'int8.onnx')
        # folds batch norms into convolutions; shapes are not needed
        quant_pre_process(real, prepared, skip_symbolic_shape=True)
        model = onnx.load(prepared)
        session = timed_session(prepared, packed=False, threads=1)
        feeds = iter(images) if images else (noise_feeds(session, size, seed) for seed in range(CALIBRATION_IMAGES))
        quantize_static(
            prepared,
            out,
            Calibration(feeds),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=saturates(),
            nodes_to_quantize=layers(model),
        )
        return onnx.load(out)


def saturates() -> bool:
    """Whether this processor adds two int8 products in 16 bits (x86-64 without VNNI), so that weights need 7 bits."""
    info = Path('/proc/cpuinfo')
    flags = info.read_text() if info.is_file() else ''
    return platform.machine() == 'x86_64' and 'vnni' not in flags


def layers(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that are quantised."""
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    return [
        node.name
        for node in model.graph.node
        if node.op_type in LAYERS or (node.op_type == 'Add' and readers.get(node.output[0]) == ['Relu'])
    ]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """ONNX Runtime's tools print and log advice about models that are not ours to change."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(level)
