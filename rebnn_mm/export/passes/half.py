"""Real weights in half precision, arithmetic in single precision."""

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from ..rewriting import constant_array, must_be_stored, take_over

SMALL = 16384
"""A constant of so many values or fewer stays: it costs little, and before a sign every rounding counts."""


class ToHalf(InPlacePass):
    """Store large float32 initializers as float16, each followed by a ``Cast`` to float32.

    Packed bits, integers and small constants (norms, scaling factors, a first layer) stay. Values beyond float16's
    largest become that one.

    Example:
        >>> weight = ir.val('w', const_value=ir.tensor(np.full(SMALL + 1, 0.1, np.float32)))
        >>> negated = ir.node('Neg', [weight])
        >>> graph = ir.Graph([], negated.outputs, nodes=[negated], initializers=[weight])
        >>> _ = ToHalf()(ir.Model(graph, ir_version=9))
        >>> [node.op_type for node in graph], graph.initializers['w.half'].const_value.dtype
        (['Cast', 'Neg'], FLOAT16)
    """

    def call(self, model: ir.Model) -> PassResult:
        graph = model.graph
        largest = float(np.finfo(np.float16).max)
        casts = []
        for name, value in list(graph.initializers.items()):
            del graph.initializers[name]  # each one is registered again, so that they keep their order
            array = constant_array(value)
            if array is not None and array.dtype == np.float32 and array.size > SMALL and not must_be_stored(value):
                halved = np.clip(array, -largest, largest).astype(np.float16)
                stored = ir.val(f'{name}.half', const_value=ir.tensor(halved))
                stored.shape = stored.type = None  # the tensor says both
                casts.append(ir.node('Cast', [stored], {'to': ir.DataType.FLOAT}, name=f'{name}.cast'))
                take_over(value, casts[-1].outputs[0])
                value = stored
            graph.register_initializer(value)
        if casts:
            graph.insert_before(graph[0], casts)
        return PassResult(model, bool(casts))
