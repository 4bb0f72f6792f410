"""Reads the parts of an ONNX file that must be checked before a runtime sees it, without the onnx package.

Only protobuf's wire format is used. A file of any content costs one pass over it, and some tens of megabytes at most.

Sources: the protobuf encoding (protobuf.dev/programming-guides/encoding) and the field numbers of onnx.proto.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .errors import ModelFileError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
UINT8 = 2
"""TensorProto.DataType of packed weights."""

DIGEST_KEY = 'rebnn.file_sha256'
"""Metadata key of the SHA-256 of everything that stands before this entry, which is the last of the file."""

UNWEIGHTED = ('BinaryAttention', 'RealAveragePool', 'RealRoiAlign', 'RealStem', 'RealUpsampleAdd')
"""Operators of ours without a packed weight; every other one has it as its second input."""

MAX_FIELDS = 500_000
"""Many times what the largest packed model has. One field is read in some microseconds, and what is kept of so many is
the most memory that a file can cost."""

MAX_TEXT = 2 << 20
"""Bytes of a metadata value, many times what the longest list of classes has; a list of short texts takes thirty times
its length in memory."""

MAX_TOKENIZER = 64 << 20
"""Bytes of the value that holds a tokenizer."""

TOKENIZER_KEY = 'rebnn.tokenizer'

MAX_DEPTH = 100
"""How many messages may lie in each other; protobuf's own readers allow no more."""

# Which fields of a message are messages that may hold a tensor or metadata. "main" and "initializer" are those of the
# model's own graph.
CHILDREN: dict[str, dict[int, str]] = {
    'model': {7: 'main graph', 14: 'metadata entry', 20: 'training', 25: 'function'},
    'main graph': {1: 'main node', 5: 'initializer', 15: 'sparse tensor'},
    'main node': {5: 'attribute'},
    'graph': {1: 'node', 5: 'tensor', 15: 'sparse tensor'},
    'node': {5: 'attribute'},
    'attribute': {5: 'tensor', 6: 'graph', 10: 'tensor', 11: 'graph', 22: 'sparse tensor', 23: 'sparse tensor'},
    'sparse tensor': {1: 'tensor', 2: 'tensor'},
    'function': {7: 'node', 11: 'attribute'},
    'training': {1: 'graph', 2: 'graph'},
    'tensor': {},
    'initializer': {},
    'metadata entry': {},
}

# The fields of a message that are looked at; where one is repeated the last one counts, but for the inputs of a node.
KEPT: dict[str, tuple[int, ...]] = {
    'main node': (1, 3, 4, 7),
    'initializer': (2, 8, 9),
    'function': (1, 10),
    'metadata entry': (1, 2),
}
NAMES: dict[str, tuple[int, ...]] = {
    'function': (8, 12, 14),
    'node': (3, 6, 9),
    'graph': (2, 10, 13, 16),
    'attribute': (13,),
}
"""Fields of a function that change nothing of what it computes, and come and go when a tool writes a file again: names
of nodes and graphs, notes, and types of values."""

SECOND_INPUT = -1
"""Number of the field that holds a node's second input."""


class Field(NamedTuple):
    """One field of a message: its number, wire type, number value (or length), and where value and field begin."""

    number: int
    wire: int
    value: int
    data: int
    start: int


@dataclass(frozen=True, slots=True)
class Initializer:
    """A constant of the model's graph."""

    data_type: int  # number of the TensorProto.DataType
    raw: memoryview | None  # its bytes as they lie in the file, None if it is stored in another way


@dataclass
class OnnxFile:
    """Result of :func:`read_onnx`."""

    metadata: dict[str, str] = field(default_factory=dict)  # the model's metadata_props
    initializers: dict[str, Initializer] = field(default_factory=dict)  # the constants of its graph by name
    has_operators: bool = False  # whether a node is of the domain rebnn, for which we have kernels
    # the name of the packed weight of each such node that has one, by the node's name
    binary_weights: dict[str, str] = field(default_factory=dict)
    # domain and name of every operator of its graph; those inside of other nodes are left out
    operators: set[tuple[str, str]] = field(default_factory=set)
    # domain, name and :func:`function_digest` of each of its functions
    functions: list[tuple[str, str, str]] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)  # names of what ConstantOfShape nodes take their shapes from
    has_training: bool = False  # whether it carries a graph for training
    has_sparse: bool = False  # whether it holds a sparse tensor
    # where the last field of the file begins, if it is the entry with the file's digest
    digest_start: int | None = None
    # where the field with the file's digest begins and ends, wherever it is
    digest_place: tuple[int, int] | None = None


def read_onnx(data: bytes) -> OnnxFile:
    """Walk through a whole ONNX file; the text of an error does not name it."""
    view, found, seen = memoryview(data), OnnxFile(), 0

    def read(kind: str, start: int, content: slice, depth: int) -> None:
        nonlocal seen
        kept: dict[int, Field] = {}
        for item in fields_of(view, content.start, content.stop):
            seen += 1
            if seen > MAX_FIELDS:
                raise ModelFileError(f'it has more than {MAX_FIELDS} fields, which no packed model needs')
            _keep(kind, kept, item)
            child = CHILDREN[kind].get(item.number)
            if child is not None:
                if depth == MAX_DEPTH:
                    raise _report_damage(f'more than {MAX_DEPTH} messages lie in each other at byte {item.start}')
                read(child, item.start, slice(*span_of(item)), depth + 1)
        _take(view, kind, kept, start, content, found)

    read('model', 0, slice(0, len(data)), 1)
    return found


def check_packed(file: OnnxFile, expected: Mapping[str, str]) -> None:
    """Compare the packed weights with their SHA-256."""
    for name, digest in expected.items():
        tensor = file.initializers.get(name)
        if tensor is None or tensor.raw is None or tensor.data_type != UINT8:
            raise ModelFileError(f'the packed weight {name!r} that its metadata lists is not there as raw bytes')
        if hashlib.sha256(tensor.raw).hexdigest() != digest.lower():
            raise ModelFileError(f'the packed weight {name!r} is damaged: its SHA-256 is not that of the metadata')
    for node, weight in file.binary_weights.items():
        if weight not in expected:
            raise ModelFileError(f'the weight {weight!r} of node {node!r} has no SHA-256 in the metadata')


def check_digest(data: bytes, file: OnnxFile) -> None:
    """Compare the whole file with the SHA-256 that its last entry gives."""
    expected = file.metadata.get(DIGEST_KEY)
    if expected is None:
        raise ModelFileError(f'it is damaged: its last entry, {DIGEST_KEY}, is missing')
    if file.digest_start is None:
        raise ModelFileError(
            f'it was changed after it was written: {DIGEST_KEY} is not its last entry any more; if that was a tool of '
            'yours, rebnn seal checks it and seals it again'
        )
    if hashlib.sha256(memoryview(data)[: file.digest_start]).hexdigest() != expected:
        raise ModelFileError(f'it is damaged: its SHA-256 is not that of {DIGEST_KEY}')


def seal(model: bytes) -> bytes:
    """Append the entry with the file's SHA-256, which :func:`check_digest` compares."""
    if DIGEST_KEY in read_onnx(model).metadata:
        raise ModelFileError(f'it has an entry {DIGEST_KEY} already')
    key, value = DIGEST_KEY.encode(), hashlib.sha256(model).hexdigest().encode()
    entry = b'\x0a' + bytes([len(key)]) + key + b'\x12' + bytes([len(value)]) + value
    return model + bytes([14 << 3 | LENGTH, len(entry)]) + entry


def remove_seal(data: bytes) -> bytes:
    """Take out the entry with the file's SHA-256, wherever a tool has put it."""
    place = read_onnx(data).digest_place
    return data if place is None else data[: place[0]] + data[place[1] :]


def function_digest(function: memoryview) -> str:
    """SHA-256 of what a serialised ``FunctionProto`` computes, which :data:`NAMES` have no part in."""
    digest = hashlib.sha256()

    def add(kind: str, start: int, end: int) -> None:
        for item in fields_of(function, start, end):
            is_standard = kind == 'node' and item.number == 7 and not item.value  # a domain that is written or not
            if item.number in NAMES.get(kind, ()) or is_standard:
                continue
            child = CHILDREN[kind].get(item.number)
            if child is not None:
                digest.update(b'(%d' % item.number)
                add(child, *span_of(item))
                digest.update(b')')
            else:
                content = function[item.data : item.data + item.value] if item.wire != VARINT else b''
                digest.update(b'%d %d %d ' % (item.number, item.wire, item.value))
                digest.update(content)

    add('function', 0, len(function))
    return digest.hexdigest()


def fields_of(view: memoryview, start: int, end: int) -> Iterator[Field]:
    """Give the fields of the message between two bytes, without looking into them."""
    position = start
    while position < end:
        first = position
        key, position = _varint(view, position, end)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, after = _varint(view, position, end)
        elif wire == LENGTH:
            value, position = _varint(view, position, end)
            after = position + value
        elif wire in (FIXED32, FIXED64):
            value = 4 if wire == FIXED32 else 8
            after = position + value
        else:
            raise _report_damage(f'wire type {wire} at byte {first} does not exist in it')
        if after > end:
            raise _report_damage(f'a length at byte {first} reaches beyond its end')
        if not 0 < number < 1 << 29:
            raise _report_damage(f'a field number at byte {first} is out of range')
        yield Field(number, wire, value, position, first)
        position = after


def _varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise _report_damage(f'it ends inside a number at byte {position}')
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _report_damage(f'a number at byte {position} is too long')


def _report_damage(how: str) -> ModelFileError:
    return ModelFileError(f'it is not a packed model, or it is damaged: {how}')


def span_of(item: Field) -> tuple[int, int]:
    """Give the bytes at which the content of a message or text begins and ends."""
    if item.wire != LENGTH:
        raise _report_damage(f'field {item.number} at byte {item.start} has wire type {item.wire}')
    return item.data, item.data + item.value


def text_of(view: memoryview, item: Field) -> str:
    """Give the text that a field holds."""
    start, end = span_of(item)
    try:
        return str(view[start:end], 'utf-8')
    except UnicodeDecodeError:
        raise _report_damage(f'the text at byte {start} is not UTF-8') from None


def _keep(kind: str, kept: dict[int, Field], item: Field) -> None:
    """Look at one field of a message, and keep it if it is needed at the end of the message."""
    number = item.number
    if kind in ('tensor', 'initializer') and (number == 13 or (number == 14 and item.value != 0)):
        raise ModelFileError('it keeps a tensor in another file, which a packed model never does')
    if number not in KEPT.get(kind, ()):
        return
    if kind == 'main node' and number == 1 and 1 in kept:
        kept.setdefault(SECOND_INPUT, item)
    else:
        kept[number] = item


def _take(view: memoryview, kind: str, kept: dict[int, Field], start: int, content: slice, found: OnnxFile) -> None:
    """Put what was kept of a message into the result; its field begins at ``start``."""
    if kind == 'metadata entry':
        key = text_of(view, kept[1]) if 1 in kept else ''
        if key in found.metadata:
            raise ModelFileError(f'its metadata holds {key!r} twice')
        limit = MAX_TOKENIZER if key == TOKENIZER_KEY else MAX_TEXT
        if 2 in kept and kept[2].value > limit:
            raise ModelFileError(f'its {key[:60]} is longer than {limit >> 20} MiB, which no packed model needs')
        value = text_of(view, kept[2]) if 2 in kept else ''
        found.metadata[key] = value
        if key == DIGEST_KEY:
            found.digest_place = start, content.stop
            found.digest_start = start if content.stop == len(view) else None
    elif kind == 'initializer':
        name = text_of(view, kept[8]) if 8 in kept else ''
        if name in found.initializers:
            raise ModelFileError(f'it holds the constant {name!r} twice')
        raw = slice(*span_of(kept[9])) if 9 in kept else None
        found.initializers[name] = Initializer(kept[2].value if 2 in kept else 0, None if raw is None else view[raw])
    elif kind == 'main node':
        _take_node(view, kept, found)
    elif kind == 'function':
        name, domain = (text_of(view, kept[number]) if number in kept else '' for number in (1, 10))
        found.functions.append((domain, name, function_digest(view[content])))
    elif kind == 'training':
        found.has_training = True
    elif kind == 'sparse tensor':
        found.has_sparse = True


def _take_node(view: memoryview, kept: dict[int, Field], found: OnnxFile) -> None:
    name, operator, domain = (text_of(view, kept[number]) if number in kept else '' for number in (3, 4, 7))
    found.operators.add((domain, operator))
    if (domain, operator) == ('', 'ConstantOfShape') and 1 in kept:
        found.filled.append(text_of(view, kept[1]))
    if domain != 'rebnn':
        return
    found.has_operators = True
    if operator in UNWEIGHTED:
        return
    node = name or f'{operator} {len(found.binary_weights)}'
    if SECOND_INPUT not in kept:
        raise ModelFileError(f'node {node!r} has no weight')
    found.binary_weights[node] = text_of(view, kept[SECOND_INPUT])
