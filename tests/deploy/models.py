"""Small packed models, written with ``onnx.helper`` straight from docs/format.md, and their pieces."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy.onnx_file import seal
from rebnn_mm.export.operators import operator_function

OPSET = helper.make_opsetid('', 18)
REBNN = helper.make_opsetid('rebnn', 1)
IR_VERSION = 9
PREPROCESS = {'channels': 'rgb', 'mean': [123.675, 116.28, 103.53], 'std': [58.395, 57.12, 57.375]}
RESIZE = {'resize': {'mode': 'short_edge', 'size': 40}}
CLASSES = ('cat', 'dog', 'horse', 'ship')


def pack(signs: np.ndarray) -> np.ndarray:
    """The packed weights [O, KH, KW, ceil(C / 8)] of signs [O, C, KH, KW]."""
    return np.packbits(np.moveaxis(signs, 1, -1) < 0, axis=-1, bitorder='little')


def binary_conv_function() -> onnx.FunctionProto:
    """``rebnn.BinaryConv`` as the exporter writes it: a file with another one is refused."""
    return operator_function('BinaryConv')


def binary_conv(name: str, x: str, y: str, signs: np.ndarray, rng: np.random.Generator) -> tuple[list, list]:
    """One ``BinaryConv`` node, 3x3 with a border of 1, and its initializers; names begin with ``name``."""
    out, channels = signs.shape[:2]
    tensors = {
        'weight': pack(signs),
        'shift': rng.normal(0, 0.1, channels).astype(np.float32),
        'scale': rng.uniform(0.01, 0.1, out).astype(np.float32),
        'bias': rng.normal(0, 0.5, out).astype(np.float32),
    }
    initializers = [numpy_helper.from_array(value, f'{name}.{key}') for key, value in tensors.items()]
    inputs = [x, *(tensor.name for tensor in initializers)]
    attributes = dict(channels=channels, strides=[1, 1], pads=[1] * 4, dilations=[1, 1], group=1)
    return [helper.make_node('BinaryConv', inputs, [y], name=name, domain='rebnn', **attributes)], initializers


def backbone(rng: np.random.Generator) -> tuple[list, list]:
    """Nodes and initializers of image -> real convolution -> batch norm -> binary convolution -> ``maps``."""
    tensors = {
        'stem.weight': rng.normal(0, 0.2, (12, 3, 3, 3)),
        'norm.weight': rng.uniform(0.5, 1.5, 12),
        'norm.bias': rng.normal(0, 0.3, 12),
        'norm.mean': rng.normal(0, 0.3, 12),
        'norm.var': rng.uniform(0.5, 1.5, 12),
    }
    initializers = [numpy_helper.from_array(value.astype(np.float32), key) for key, value in tensors.items()]
    names = list(tensors)
    nodes = [
        helper.make_node('Conv', ['image', names[0]], ['stem'], pads=[1] * 4, strides=[2, 2], name='stem'),
        helper.make_node('BatchNormalization', ['stem', *names[1:]], ['normed'], name='norm'),
    ]
    binary_nodes, binary_initializers = binary_conv(
        'layer', 'normed', 'maps', rng.choice([-1, 1], (16, 12, 3, 3)), rng
    )
    return nodes + binary_nodes, initializers + binary_initializers


def classifier(seed: int = 0, size: tuple[int | str, int | str] = ('H', 'W')) -> onnx.ModelProto:
    """image [N, 3, H, W] -> scores [N, 4]."""
    rng = np.random.default_rng(seed)
    nodes, initializers = backbone(rng)
    weight = rng.normal(0, 1, (len(CLASSES), 16)).astype(np.float32)
    initializers.append(numpy_helper.from_array(weight, 'fc.weight'))
    nodes += [
        helper.make_node('GlobalAveragePool', ['maps'], ['pooled']),
        helper.make_node('Flatten', ['pooled'], ['flat']),
        helper.make_node('Gemm', ['flat', 'fc.weight'], ['logits'], transB=1),
        helper.make_node('Softmax', ['logits'], ['scores']),
    ]
    inputs = [helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, *size])]
    outputs = [helper.make_tensor_value_info('scores', TensorProto.FLOAT, ['N', len(CLASSES)])]
    return model(helper.make_graph(nodes, 'classifier', inputs, outputs, initializers), 'classification')


def detector(seed: int = 0, boxes: int = 5) -> onnx.ModelProto:
    """Boxes at fixed places relative to the valid size, with scores that depend on the image."""
    rng = np.random.default_rng(seed)
    nodes, initializers = backbone(rng)
    corners = np.sort(rng.uniform(0, 1, (boxes, 2, 2)), axis=1).reshape(boxes, 4).astype(np.float32)
    tensors = {
        'corners': corners,
        'axes': np.array([1, 0, 1, 0]),
        'mix': rng.normal(0, 1, (16, boxes)).astype(np.float32),
        'count': np.array([boxes]),
        'labels_all': rng.integers(0, len(CLASSES), boxes),
        'row': np.array([-1]),
    }
    initializers += [numpy_helper.from_array(value, key) for key, value in tensors.items()]
    nodes += [
        helper.make_node('Cast', ['valid_size'], ['size'], to=TensorProto.FLOAT),
        helper.make_node('Gather', ['size', 'axes'], ['edges']),
        helper.make_node('Mul', ['corners', 'edges'], ['boxes_all']),
        helper.make_node('GlobalAveragePool', ['maps'], ['pooled']),
        helper.make_node('Flatten', ['pooled'], ['flat']),
        helper.make_node('MatMul', ['flat', 'mix'], ['logits']),
        helper.make_node('Sigmoid', ['logits'], ['chances']),
        helper.make_node('Reshape', ['chances', 'row'], ['scores_all']),
        helper.make_node('TopK', ['scores_all', 'count'], ['scores', 'order']),
        helper.make_node('Gather', ['boxes_all', 'order'], ['boxes']),
        helper.make_node('Gather', ['labels_all', 'order'], ['labels']),
    ]
    inputs = [
        helper.make_tensor_value_info('image', TensorProto.FLOAT, [1, 3, 'H', 'W']),
        helper.make_tensor_value_info('valid_size', TensorProto.INT64, [2]),
    ]
    outputs = [
        helper.make_tensor_value_info('boxes', TensorProto.FLOAT, ['K', 4]),
        helper.make_tensor_value_info('scores', TensorProto.FLOAT, ['K']),
        helper.make_tensor_value_info('labels', TensorProto.INT64, ['K']),
    ]
    return model(helper.make_graph(nodes, 'detector', inputs, outputs, initializers), 'detection')


def raw(seed: int = 0) -> onnx.ModelProto:
    """image -> the maps of the backbone."""
    nodes, initializers = backbone(np.random.default_rng(seed))
    inputs = [helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])]
    outputs = [helper.make_tensor_value_info('maps', TensorProto.FLOAT, ['N', 16, 'h', 'w'])]
    graph = helper.make_graph(nodes, 'raw', inputs, outputs, initializers)
    return model(graph, 'raw', **{'rebnn.outputs': '["maps"]'})


def model(graph: onnx.GraphProto, task: str, **changes: Any) -> onnx.ModelProto:
    """A model of the graph with the function of its binary operator and complete metadata."""
    functions = [binary_conv_function()] if any(node.domain == 'rebnn' for node in graph.node) else []
    proto = helper.make_model(graph, opset_imports=[OPSET, REBNN], ir_version=IR_VERSION, functions=functions)
    entries = {
        'rebnn.format': '1',
        'rebnn.producer': 'tests',
        'rebnn.task': task,
        'rebnn.config': 'small.py',
        'rebnn.classes': json.dumps(CLASSES),
        'rebnn.preprocess': json.dumps(PREPROCESS | (RESIZE if task == 'classification' else {})),
        'rebnn.sign': 'negative is bit 1',
        'rebnn.packed_sha256': json.dumps(packed_digests(graph)),
    }
    helper.set_model_props(proto, {**entries, **changes})
    return proto


def write(proto: onnx.ModelProto, path: Path) -> Path:
    """Write the file as the exporter does, the digest last."""
    path.write_bytes(seal(proto.SerializeToString()))
    return path


def packed_digests(graph: onnx.GraphProto) -> dict[str, str]:
    """The SHA-256 of every packed weight."""
    packed = [tensor for tensor in graph.initializer if tensor.data_type == TensorProto.UINT8]
    return {tensor.name: hashlib.sha256(tensor.raw_data).hexdigest() for tensor in packed}


def sealed_files() -> list[bytes]:
    """A classifier, a detector and a raw model as they are written."""
    return [seal(make().SerializeToString()) for make in (classifier, detector, raw)]
