"""An ONNX graph under construction."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from ..operators import IR_VERSION, OPSET

Attribute: TypeAlias = int | float | str | Sequence[int]
Input: TypeAlias = ir.Value | np.ndarray | float | Sequence[int] | Sequence[float]


class GraphBuilder:
    """Writes standard operators one after another, and takes in graphs that were traced elsewhere.

    Numbers and arrays among the inputs become ``Constant`` nodes: an int or ints are int64, a float or floats float32.
    They are not initializers: those are the network's parameters, which an exporter may store in half precision.
    """

    def __init__(self, name: str) -> None:
        self.graph = ir.Graph([], [], nodes=[], opset_imports={'': OPSET}, name=name)
        self.functions: dict[ir.OperatorIdentifier, ir.Function] = {}

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """A new input of the graph."""
        value = ir.val(name, dtype=dtype, shape=shape)
        self.graph.inputs.append(value)
        return value

    def __call__(self, operator: str, *inputs: Input, **attributes: Attribute) -> ir.Value:
        """Append a standard operator and give its first output."""
        return self._append(operator, inputs, attributes, 1)[0]

    def two(self, operator: str, *inputs: Input, **attributes: Attribute) -> tuple[ir.Value, ir.Value]:
        """Append a standard operator that has two outputs."""
        first, second = self._append(operator, inputs, attributes, 2)
        return first, second

    def length(self, x: ir.Value) -> ir.Value:
        """Size of the first dimension of ``x``, int64 of shape [1]."""
        return self('Shape', x, start=0, end=1)

    def all(self, x: ir.Value, at_most: int) -> ir.Value:
        """Number of elements along the first dimension, or ``at_most`` if that is less and above zero; int64 [1]."""
        return self('Min', self.length(x), [at_most]) if at_most > 0 else self.length(x)

    def where(self, mask: ir.Value) -> ir.Value:
        """Positions in a 1-D mask that are true, int64 [K]."""
        return self('Reshape', self('NonZero', mask), [-1])

    def insert(self, part: ir.Model, *inputs: ir.Value) -> list[ir.Value]:
        """Move all of another graph to the end of this one, with these inputs; return what were its outputs."""
        graph = part.graph
        for placeholder, value in zip(graph.inputs, inputs, strict=True):
            placeholder.replace_all_uses_with(value)
        for initializer in list(graph.initializers.values()):
            # Nodes of two parts may share a name, which finish() settles; initializers are looked up by theirs.
            graph.initializers.pop(str(initializer.name))
            while initializer.name in self.graph.initializers:
                initializer.name = f'{initializer.name}_'
            self.graph.register_initializer(initializer)
        outputs, nodes = list(graph.outputs), list(graph)
        graph.outputs.clear()
        graph.remove(nodes)
        self.graph.extend(nodes)
        for value in outputs:
            # Symbolic sizes of two parts may share a name too, and are different sizes.
            value.shape = None
            value.type = None
        self.functions.update(part.functions)
        for domain, version in part.opset_imports.items():
            self.graph.opset_imports[domain] = max(version, self.graph.opset_imports.get(domain, 0))
        return outputs

    def output(self, name: str, value: ir.Value, dtype: ir.DataType, shape: Sequence[int | str]) -> None:
        """Make a value an output of the graph."""
        result = self('Identity', value)
        result.name, result.dtype, result.shape = name, dtype, ir.Shape(shape)
        self.graph.outputs.append(result)

    def finish(self) -> ir.Model:
        """The model, with a name of its own for every node and value."""
        model = ir.Model(self.graph, ir_version=IR_VERSION, functions=list(self.functions.values()))
        NameFixPass()(model)
        return model

    def _append(
        self, operator: str, inputs: Sequence[Input], attributes: dict[str, Attribute], outputs: int
    ) -> Sequence[ir.Value]:
        values = [x if isinstance(x, ir.Value) else self._constant(x) for x in inputs]
        node = ir.node(operator, values, attributes=attributes, num_outputs=outputs)
        self.graph.append(node)
        return node.outputs

    def _constant(self, value: np.ndarray | float | Sequence[int] | Sequence[float]) -> ir.Value:
        array = np.asarray(value)
        array = array.astype(np.float32 if array.dtype.kind == 'f' else np.int64)
        return self('Constant', value=ir.tensor(array))  # type: ignore[arg-type]
