"""Say how many bytes of a packed text classifier are for what.

python -m lab.tools.text_file_parts bert.onnx
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
from onnx import numpy_helper

from rebnn_mm.export.operators import DOMAIN


def part_sizes(data: bytes) -> dict[str, int]:
    """Bytes of the parts of a packed text classifier, by what they are for; together the file."""
    model = onnx.load_from_string(data)
    parts = dict.fromkeys(
        ('bits of the word embedding', 'bits of linear layers', 'scaling factors', 'biases and shifts', 'norms'), 0
    )
    parts |= {'position and token-type embeddings': 0, 'other real constants': 0}
    # In half precision a constant and its name in the graph have a cast between them.
    aliases = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == 'Cast'}
    roles: dict[str, str] = {}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            role = _role(node, index)
            if role:
                roles.setdefault(aliases.get(name, name), role)
    for tensor in model.graph.initializer:
        parts[roles.get(tensor.name, 'other real constants')] += numpy_helper.to_array(tensor).nbytes
    tokenizer = sum(len(entry.value) for entry in model.metadata_props if entry.key == 'rebnn.tokenizer')
    parts['tokenizer'] = tokenizer
    parts['graph, functions and metadata'] = len(data) - sum(parts.values())
    return parts


def _role(node: onnx.NodeProto, index: int) -> str:
    if node.domain == DOMAIN:
        return {
            ('BinaryEmbedding', 1): 'bits of the word embedding',
            ('BinaryLinear', 1): 'bits of linear layers',
            ('BinaryEmbedding', 2): 'scaling factors',
            ('BinaryLinear', 3): 'scaling factors',
            ('BinaryLinear', 2): 'biases and shifts',
            ('BinaryLinear', 4): 'biases and shifts',
        }.get((node.op_type, index), '')
    if node.op_type == 'LayerNormalization' and index:
        return 'norms'
    return 'position and token-type embeddings' if node.op_type == 'Gather' and index == 0 else ''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', type=Path)
    for part, size in part_sizes(parser.parse_args().file.read_bytes()).items():
        print(f'{part}: {size:,}')


if __name__ == '__main__':
    main()
