"""How passes change a graph: one conversion in, one out, and what they ask of it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import InPlacePass, PassBase, PassResult, PreconditionError, Sequential
from onnx_ir.passes.common import RemoveUnusedNodesPass

from .operators import DOMAIN, DOMAIN_VERSION, attach_functions

Vector = NDArray[np.float32]

RESIDUAL = {'BinaryBlock': 6, 'BinaryClipBlock': 6, 'PackedBinaryBlock': 5, 'PackedBinaryClipBlock': 5}
"""Number of the input of a block that is added after its sums; scale, mul and add come before it."""

BLOCKS = ('BinaryBlock', 'BinaryClipBlock')
"""Those that take no packed bits."""

DEFAULTS: dict[str, object] = {
    'strides': [1, 1],
    'dilations': [1, 1],
    'pads': [0, 0, 0, 0],
    'auto_pad': 'NOTSET',
    'group': 1,
    'ceil_mode': 0,
    'count_include_pad': 0,
    'storage_order': 0,
}
"""Defaults of the attributes of convolutions and poolings over images."""


class Rewrite(InPlacePass):
    """A pass over a graph. What nothing reads afterwards is left out."""

    @abstractmethod
    def rewrite(self, graph: ir.Graph) -> bool:
        """Change the graph; gives whether anything has changed."""

    def call(self, model: ir.Model) -> PassResult:
        modified = self.rewrite(model.graph)
        if modified:
            RemoveUnusedNodesPass()(model)
        return PassResult(model, modified)


def apply_passes(model: onnx.ModelProto, *passes: PassBase) -> onnx.ModelProto:
    """Run passes on a copy of a model, and attach the functions of the operators that it has then.

    If no pass changes anything, the model itself is returned.

    Raises:
        onnx_ir.passes.PassError: the passes are in an order that one of them does not allow.

    Example:
        >>> from rebnn_mm.export.passes import FuseBlocks, SpreadNorms
        >>> model = onnx.ModelProto()
        >>> apply_passes(model, SpreadNorms()) is model
        True
    """
    if not passes:
        return model
    result = Sequential(*passes)(ir.from_proto(model))
    if not result.modified:
        return model
    proto = ir.to_proto(result.model)
    for node in proto.graph.node:
        node.name = node.name  # an empty one is written, as it has been since the first file
        if node.domain == DOMAIN and node.op_type.endswith('Block') and len(node.output) == 1:
            node.output.append('')  # bits left out; onnx.checker wants an empty name rather than one output less
    return attach_functions(proto)


def demand(true: bool, sentence: str) -> None:
    """Raise what ``onnx_ir`` expects of a precondition that does not hold."""
    if not true:
        raise PreconditionError(sentence)


def operator(
    kind: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], name: str | None, outputs: int = 1
) -> ir.Node:
    """A node of the domain ``rebnn``."""
    return ir.node(kind, inputs, attributes, domain=DOMAIN, version=DOMAIN_VERSION, name=name, num_outputs=outputs)


def constant(graph: ir.Graph, array: NDArray, name: str) -> ir.Value:
    """An initializer; the one of this name if there is one of the same values."""
    known = graph.initializers.get(name)
    stored = constant_array(known)
    if known is not None and stored is not None and np.array_equal(stored, array):
        return known
    value = ir.val(name, const_value=ir.tensor(np.asarray(array, order='C'), name=name))
    graph.register_initializer(value)
    return value


def constant_array(value: ir.Value | None) -> NDArray | None:
    """The constant that a value holds; None if it is computed."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def constant_per_channel(value: ir.Value | None, channels: int) -> Vector | None:
    """A constant as one number per channel, if it has that form next to [N, C, H, W]."""
    array = constant_array(value)
    if array is None or array.dtype != np.float32:
        return None
    if array.size == 1 and array.ndim <= 4:
        return np.full(channels, array.reshape(()), np.float32)
    shape = (1,) * (4 - array.ndim) + array.shape
    return array.reshape(-1) if shape == (1, channels, 1, 1) else None


def only_use(value: ir.Value) -> tuple[ir.Node, int] | None:
    """The one node that reads a value, and which of its inputs the value is; None if anything else sees it, too."""
    uses = list(value.uses())
    return (uses[0][0], uses[0][1]) if len(uses) == 1 and not value.is_graph_output() else None


def has_attributes(node: ir.Node, **wanted: object) -> bool:
    """Whether a convolution or a pooling has these attributes, or their defaults where it names none."""

    def value(key: str) -> object:
        found = node.attributes[key].value if key in node.attributes else DEFAULTS.get(key)
        return list(found) if isinstance(found, tuple | list) else found

    return all(value(key) == expected for key, expected in wanted.items())


def take_over(stored: ir.Value, made: ir.Value) -> None:
    """Put what a node makes in an initializer's place, its name included."""
    made.name, made.shape, made.type = stored.name, stored.shape, stored.type
    stored.replace_all_uses_with(made, replace_graph_outputs=True)


def must_be_stored(value: ir.Value) -> bool:
    """Whether a kernel wants a constant as an initializer of float32: that of the stem wants all of its own."""
    return any(node.op_type == 'RealStem' and index > 0 for node, index in value.uses())
