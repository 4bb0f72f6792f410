"""How many classes a packed detector tells apart, as its graph says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .onnx_file import Field, fields_of, span_of, text_of

CARRIES = ('Identity', 'Gather', 'Concat')
"""Operators that give labels where they get labels; a ``Gather`` as its first input."""


def label_count(data: bytes) -> int | None:
    """Find how many classes the output ``labels`` of a detector chooses from; None for a graph not of our exporter.

    It writes a label as a remainder by their number or, of YOLOX, as the place of the largest in a row of as many.
    """
    nodes, numbers = _read(memoryview(data))
    counts: set[int | None] = set()
    left, seen = ['labels'], set()
    while left:
        name = left.pop()
        operator, inputs = nodes.get(name, ('', []))
        if operator == 'ArgMax' and inputs:
            operator, inputs = nodes.get(inputs[0], ('', []))
            if operator == 'Sigmoid' and inputs:
                operator, inputs = nodes.get(inputs[0], ('', []))
            counts.add(numbers.get(inputs[1]) if operator == 'Reshape' and len(inputs) == 2 else None)
        elif operator == 'Mod' and len(inputs) == 2:
            counts.add(numbers.get(inputs[1]))
        elif operator in CARRIES and name not in seen:
            left += inputs if operator == 'Concat' else inputs[:1]
        elif name not in seen:
            return None
        seen.add(name)
    return counts.pop() if len(counts) == 1 else None


def _read(view: memoryview) -> tuple[dict[str, tuple[str, list[str]]], dict[str, int]]:
    """Operator and inputs of each node by its outputs; the last number of each constant of int64, if it is above 0."""
    nodes: dict[str, tuple[str, list[str]]] = {}
    numbers: dict[str, int] = {}

    def inside(parents: Iterable[Field], number: int) -> Iterator[Field]:
        return (item for parent in parents for item in fields_of(view, *span_of(parent)) if item.number == number)

    def note(names: Iterable[Field], tensors: Iterable[Field]) -> None:
        for start, end in map(span_of, inside(tensors, 9)):
            if end - start >= 8:
                number = int(np.frombuffer(view[end - 8 : end], '<i8')[0])
                numbers.update((text_of(view, name), number) for name in names if number > 0)

    graphs = [item for item in fields_of(view, 0, len(view)) if item.number == 7]
    for tensor in inside(graphs, 5):
        note(inside([tensor], 8), [tensor])
    for node in inside(graphs, 1):
        parts = list(fields_of(view, *span_of(node)))
        inputs, outputs, operator, attributes = ([item for item in parts if item.number == i] for i in (1, 2, 4, 5))
        of_node = ''.join(text_of(view, item) for item in operator), [text_of(view, item) for item in inputs]
        nodes.update((text_of(view, item), of_node) for item in outputs)
        if of_node[0] == 'Constant':
            note(outputs, inside(attributes, 5))
    return nodes, numbers
