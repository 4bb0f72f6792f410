"""Writes a TensorFlow Lite file, operator by operator."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import NDArray

SCHEMA_VERSION = 3
BUFFER_ALIGNMENT = 16
"""TensorFlow Lite reads constant tensors in place, from addresses that are multiples of this."""

TENSOR_TYPES = {np.dtype(np.float32): tflite.TensorType.FLOAT32, np.dtype(np.int32): tflite.TensorType.INT32}


class TFLiteBuilder:
    """Collects tensors and operators of one graph and serialises them.

    Operators are named as in TensorFlow Lite's schema (``'CONV_2D'``); any other name is a custom operator whose
    options are a flexbuffer map. Tensors are referred to by their index.
    """

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1 << 20)
        self._tensors: list[tuple[tuple[int, ...], int, int]] = []
        self._buffers: list[bytes] = [b'']  # the first buffer stands for "no data"
        self._codes: list[str] = []
        self._operators: list[tuple[int, list[int], int, dict[str, int]]] = []

    def tensor(self, shape: Sequence[int], dtype: Any) -> int:
        """Add a tensor that an operator fills, or that is an input of the graph."""
        self._tensors.append((tuple(shape), TENSOR_TYPES[np.dtype(dtype)], 0))
        return len(self._tensors) - 1

    def constant(self, values: NDArray[Any]) -> int:
        """Add a constant tensor."""
        self._buffers.append(np.ascontiguousarray(values).tobytes())
        self._tensors.append((values.shape, TENSOR_TYPES[values.dtype], len(self._buffers) - 1))
        return len(self._tensors) - 1

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        options_type: str = '',
        dtype: Any = np.float32,
        **options: Any,
    ) -> int:
        """Add an operator with one output; options have the schema's names, and input -1 is one that is left out."""
        output, written = self.tensor(shape, dtype), {}
        if options_type:
            written['builtin_options_type'] = getattr(tflite.BuiltinOptions, options_type)
            written['builtin_options'] = self._table(options_type, **options)
        elif not hasattr(tflite.BuiltinOperator, name):
            written['custom_options'] = self._builder.CreateByteVector(bytes(flexbuffers.Dumps(options)))
        if name not in self._codes:
            self._codes.append(name)
        self._operators.append((self._codes.index(name), list(inputs), output, written))
        return output

    def finish(self, inputs: Sequence[int], outputs: Sequence[int], description: str) -> bytes:
        """Serialise the graph; call once."""
        b = self._builder
        buffers = self._vector([self._buffer(data) for data in self._buffers])
        tensors = self._vector([self._tensor(index, *row) for index, row in enumerate(self._tensors)])
        operators = self._vector([self._operator(*row) for row in self._operators])
        ends = {'inputs': self._integers(inputs), 'outputs': self._integers(outputs)}
        graphs = self._vector([self._table('SubGraph', tensors=tensors, **ends, operators=operators)])
        codes = self._vector([self._operator_code(name) for name in self._codes])
        about = b.CreateString(description, errors='replace')  # of a name that is no Unicode
        parts = {'operator_codes': codes, 'subgraphs': graphs, 'description': about}
        b.Finish(self._table('Model', version=SCHEMA_VERSION, **parts, buffers=buffers), file_identifier=b'TFL3')
        return bytes(b.Output())

    def _table(self, kind: str, **fields: Any) -> int:
        """Write a table of the schema; a field that is None is left out."""
        getattr(tflite, f'{kind}Start')(self._builder)
        for field, value in fields.items():
            if value is not None:
                camel = ''.join(part.capitalize() for part in field.split('_'))
                getattr(tflite, f'{kind}Add{camel}')(self._builder, value)
        return int(getattr(tflite, f'{kind}End')(self._builder))

    def _buffer(self, data: bytes) -> int:
        if not data:
            return self._table('Buffer')
        self._builder.StartVector(1, len(data), BUFFER_ALIGNMENT)
        self._builder.head -= len(data)
        self._builder.Bytes[self._builder.Head() : self._builder.Head() + len(data)] = data
        return self._table('Buffer', data=self._builder.EndVector())

    def _tensor(self, index: int, shape: tuple[int, ...], kind: int, buffer: int) -> int:
        sizes, name = self._integers(shape), self._builder.CreateString(f't{index}')
        return self._table('Tensor', shape=sizes, type=kind, buffer=buffer, name=name)

    def _operator(self, code: int, inputs: list[int], output: int, options: dict[str, int]) -> int:
        ends = {'inputs': self._integers(inputs), 'outputs': self._integers([output])}
        return self._table('Operator', opcode_index=code, **ends, **options)

    def _operator_code(self, name: str) -> int:
        builtin = getattr(tflite.BuiltinOperator, name, tflite.BuiltinOperator.CUSTOM)
        custom = self._builder.CreateString(name) if builtin == tflite.BuiltinOperator.CUSTOM else None
        codes = {'deprecated_builtin_code': builtin, 'custom_code': custom}
        return self._table('OperatorCode', **codes, version=1, builtin_code=builtin)

    def _vector(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def _integers(self, values: Sequence[int]) -> int:
        return int(self._builder.CreateNumpyVector(np.asarray(values, np.int32)))
