"""From a trained text classifier to a verified packed file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.deploy.onnx_file import seal

from .convert import pack
from .difference import difference_of
from .exporter import Export
from .metadata import set_metadata
from .operators import DOMAIN
from .passes import compact, keep_signs, to_half
from .report import report_of
from .task import Task
from .text import Text, input_names, longest_text, random_texts, text_graph, text_logits
from .verify import Example, verify

TASK = Task('text-classification')

COUNTED = 128
"""Tokens of the text that multiply-accumulates are counted for."""


def export_text(
    trained: nn.Module,
    *,
    tokenizer: Mapping[str, Any] | None = None,
    config: str = '',
    classes: Sequence[str] = (),
    texts: Sequence[Text] = (),
    half: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    watch: Callable[[Sequence[Example]], Iterable[Example]] = iter,
) -> Export:
    """Export a trained text classifier and verify what came out. Nothing is written.

    Args:
        trained: a :class:`rebnn_mm.models.language.TextClassifier`; it is not changed.
        tokenizer: the object ``rebnn.tokenizer`` of docs/format.md; None if only the length is known.
        config: file name of the training config.
        classes: class names.
        texts: what to compare with PyTorch on; none for random tokens.
        half: store real constants as float16.
        progress: called with what begins.
        watch: wraps the texts while they are compared, as a progress bar does.

    Raises:
        ValueError: the model cannot be exported, or the file does not give PyTorch's answer; the message says why.
    """
    trained = deepcopy(trained).cpu().float().eval()
    progress('packing and tracing')
    packed = pack(trained)
    graph = compact(keep_signs(text_graph(packed.model)))
    tokenizer = tokenizer or {'max_length': longest_text(trained)}
    set_metadata(graph, TASK.name, config=config, classes=classes, tokenizer=tokenizer)
    # Random ones always: they have padding, as a batch has.
    examples = [*random_texts(trained), *texts]
    progress(f'comparing with PyTorch on {sum(len(text.inputs["input_ids"]) for text in examples)} texts')
    verification = verify(graph, trained, TASK, watch(examples))
    halved = None
    if half:
        progress('comparing half with single precision')
        single, graph = graph, to_half(graph)
        halved = difference_of(single, graph, TASK, examples, option='--half')
    progress('counting')
    data = seal(graph.SerializeToString())
    length = min(COUNTED, longest_text(trained))
    ones = Text({name: np.ones((1, length), np.int64) for name in input_names(trained)})
    costs = count_layers(trained, lambda: text_logits(trained, ones))
    report = report_of(graph, costs, packed.packed, packed.real, f'a text of {length} tokens', len(data))
    return Export(data, TASK, [], report, verification, halved)


def part_sizes(data: bytes) -> dict[str, int]:
    """Bytes of the parts of a packed text classifier, by what they are for; together the file.

    Args:
        data: the bytes of the file.
    """
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
