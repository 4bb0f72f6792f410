"""Metadata of a packed file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import onnx
from onnx import numpy_helper

from rebnn_mm.deploy.errors import clean_text
from rebnn_mm.deploy.metadata import FORMAT, SIGN, Metadata
from rebnn_mm.deploy.onnx_file import UNWEIGHTED
from rebnn_mm.version import __version__

from .operators import DOMAIN, all_nodes


def set_metadata(
    model: onnx.ModelProto,
    task: str,
    *,
    config: str = '',
    classes: Sequence[str] = (),
    preprocess: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    int8: Mapping[str, Any] | None = None,
    blocked: bool = False,
) -> None:
    """Write the entries of docs/format.md into a model, in place of those that it has."""
    entries: dict[str, Any] = {
        'format': FORMAT,
        'producer': f'rebnn_mm {__version__}',
        'task': task,
        'config': config,
        'classes': list(classes),
        **({'tokenizer': dict(tokenizer)} if tokenizer else {'preprocess': dict(preprocess or {'channels': 'rgb'})}),
        'sign': SIGN,
        **({} if int8 is None else {'int8': dict(int8)}),
        **({'real_layout': 'blocked'} if blocked else {}),
        'packed_sha256': compute_digests(model),
        **({'outputs': [value.name for value in model.graph.output]} if task == 'raw' else {}),
    }
    model.producer_name, model.producer_version = 'rebnn_mm', __version__
    write = partial(json.dumps, separators=(',', ':'), ensure_ascii=False)
    texts = {f'rebnn.{key}': clean_text(v if isinstance(v, str) else write(v)) for key, v in entries.items()}
    Metadata.parse(texts)  # what no reader takes is not written
    onnx.helper.set_model_props(model, texts)


def is_blocked(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime may lay full-precision maps of a graph out in blocks."""
    return any(entry.key == 'rebnn.real_layout' for entry in model.metadata_props)


def find_packed_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Find the nodes whose second input is a packed weight."""
    return [node for node in all_nodes(model.graph) if node.domain == DOMAIN and node.op_type not in UNWEIGHTED]


def find_packed_weights(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Find the initializers that hold packed weights, by name."""
    names = {node.input[1] for node in find_packed_nodes(model)}
    return {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in names}


def compute_digests(model: onnx.ModelProto) -> dict[str, str]:
    """SHA-256 of the bytes of each packed weight, in hexadecimal."""
    tensors = find_packed_weights(model).items()
    return {name: hashlib.sha256(numpy_helper.to_array(tensor).tobytes()).hexdigest() for name, tensor in tensors}
