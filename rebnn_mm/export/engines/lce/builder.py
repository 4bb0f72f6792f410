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
        self._operators: list[tuple[int, list[int], int, int, int, int]] = []

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
        """Add an operator with one output."""
        output = self.tensor(shape, dtype)
        kind = getattr(tflite.BuiltinOptions, options_type, 0) if options_type else 0
        builtin = hasattr(tflite.BuiltinOperator, name)
        table = self._table(options_type, options) if options_type else 0
        custom = 0 if builtin else self._builder.CreateByteVector(bytes(flexbuffers.Dumps(options)))
        self._operators.append((self._code(name), list(inputs), output, kind, table, custom))
        return output

    def finish(self, inputs: Sequence[int], outputs: Sequence[int], description: str) -> bytes:
        """Serialise the graph; call once."""
        b = self._builder
        buffers = self._vector([self._buffer(data) for data in self._buffers])
        tensors = self._vector([self._tensor(index, *row) for index, row in enumerate(self._tensors)])
        operators = self._vector([self._operator(*row) for row in self._operators])
        graph_inputs, graph_outputs = self._integers(inputs), self._integers(outputs)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, graph_inputs)
        tflite.SubGraphAddOutputs(b, graph_outputs)
        tflite.SubGraphAddOperators(b, operators)
        graphs = self._vector([tflite.SubGraphEnd(b)])
        codes = self._vector([self._operator_code(name) for name in self._codes])
        text = b.CreateString(description)
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, SCHEMA_VERSION)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, graphs)
        tflite.ModelAddDescription(b, text)
        tflite.ModelAddBuffers(b, buffers)
        b.Finish(tflite.ModelEnd(b), file_identifier=b'TFL3')
        return bytes(b.Output())

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes.append(name)
        return self._codes.index(name)

    def _table(self, kind: str, fields: dict[str, Any]) -> int:
        getattr(tflite, f'{kind}Start')(self._builder)
        for field, value in fields.items():
            camel = ''.join(part.capitalize() for part in field.split('_'))
            getattr(tflite, f'{kind}Add{camel}')(self._builder, value)
        return int(getattr(tflite, f'{kind}End')(self._builder))

    def _buffer(self, data: bytes) -> int:
        vector = 0
        if data:
            self._builder.StartVector(1, len(data), BUFFER_ALIGNMENT)
            self._builder.head -= len(data)
            self._builder.Bytes[self._builder.Head() : self._builder.Head() + len(data)] = data
            vector = self._builder.EndVector()
        tflite.BufferStart(self._builder)
        if data:
            tflite.BufferAddData(self._builder, vector)
        return int(tflite.BufferEnd(self._builder))

    def _tensor(self, index: int, shape: tuple[int, ...], kind: int, buffer: int) -> int:
        sizes, name = self._integers(shape), self._builder.CreateString(f't{index}')
        tflite.TensorStart(self._builder)
        tflite.TensorAddShape(self._builder, sizes)
        tflite.TensorAddType(self._builder, kind)
        tflite.TensorAddBuffer(self._builder, buffer)
        tflite.TensorAddName(self._builder, name)
        return int(tflite.TensorEnd(self._builder))

    def _operator(self, code: int, inputs: list[int], output: int, kind: int, table: int, custom: int) -> int:
        inputs_vector, outputs_vector = self._integers(inputs), self._integers([output])
        tflite.OperatorStart(self._builder)
        tflite.OperatorAddOpcodeIndex(self._builder, code)
        tflite.OperatorAddInputs(self._builder, inputs_vector)
        tflite.OperatorAddOutputs(self._builder, outputs_vector)
        if table:
            tflite.OperatorAddBuiltinOptionsType(self._builder, kind)
            tflite.OperatorAddBuiltinOptions(self._builder, table)
        if custom:
            tflite.OperatorAddCustomOptions(self._builder, custom)
        return int(tflite.OperatorEnd(self._builder))

    def _operator_code(self, name: str) -> int:
        builtin = getattr(tflite.BuiltinOperator, name, tflite.BuiltinOperator.CUSTOM)
        custom = self._builder.CreateString(name) if builtin == tflite.BuiltinOperator.CUSTOM else 0
        tflite.OperatorCodeStart(self._builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(self._builder, builtin)
        if custom:
            tflite.OperatorCodeAddCustomCode(self._builder, custom)
        tflite.OperatorCodeAddVersion(self._builder, 1)
        tflite.OperatorCodeAddBuiltinCode(self._builder, builtin)
        return int(tflite.OperatorCodeEnd(self._builder))

    def _vector(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def _integers(self, values: Sequence[int]) -> int:
        return int(self._builder.CreateNumpyVector(np.asarray(values, np.int32)))
