"""Full-precision layers in 8 bits: which ones, calibrated on images, by ONNX Runtime's static quantizer."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple, TypeGuard

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import TensorProto
from onnx_ir.passes import InPlacePass, PassResult

from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.utils.console import quiet
from rebnn_mm.utils.machine import processor_flags

from ...errors import RebnnError
from ..operators import DOMAIN
from ..rewriting import RESIDUAL, constant_array, demand

TIERS = ('heads', 'all', 'stem')
"""Choices of int8 layers: products that never become a sign; also shortcuts and others; also the first layer."""

PRODUCTS = ('Conv', 'ConvTranspose', 'Gemm', 'MatMul')

REAL_OUTPUTS = ('Gemm', 'MatMul')
"""These give real numbers from 8-bit inputs in one step, so that their outputs need not be rounded to 8 bits."""

FREE_INPUTS = {'RealRoiAlign': 1, 'RoiAlign': 1}
"""Operators whose inputs from this one on say where to look, not what is seen: boxes."""

QUANTIZED = '_quantized'
"""Ends the name of a weight that ONNX Runtime's quantizer has written."""

CORRECTION = '.correction'
"""Part of the name of a weight that belongs to a binary layer (:mod:`rebnn_mm.export.two_valued`)."""

ENDS = ('ArgMax', 'NonMaxSuppression', 'NonZero', 'Shape', 'Size')
"""Operators that give places and sizes: their values are no longer those of a map."""

EXTREMES = ('.min', '.max')
"""End the names of the least and the largest of a value."""

Ranges = dict[str, tuple[float, float]]
"""Least and largest value, by the name of a value in a graph."""


class Choice(NamedTuple):
    """A full-precision layer."""

    layer: str  # its name in the model
    int8: bool  # whether it is quantized
    because: str  # the reason, in words
    outputs: tuple[str, ...]  # names of what it gives; several if it is used more than once


class Plan(NamedTuple):
    """Plan of what to quantize and how."""

    choices: list[Choice]  # every full-precision layer with a weight, in the graph's order
    ranges: Ranges  # of what goes into the chosen layers and comes out
    reduced: bool  # whether weights get 7 bits

    @property
    def layers(self) -> list[str]:
        """Names of the layers that become int8."""
        return [choice.layer for choice in self.choices if choice.int8]

    @property
    def weight_bits(self) -> int:
        """Bits of the weights of these layers."""
        return 7 if self.reduced else 8


def plan_int8(
    model: onnx.ModelProto, tier: str, feeds: Iterable[Mapping[str, np.ndarray]], *, reduced: bool = False
) -> Plan:
    """Choose layers and calibrate them."""
    choices = choose(model, tier)
    if not any(choice.int8 for choice in choices):
        real = f' ({choices[0].layer}: {choices[0].because})' if choices else ''
        wider = '' if tier == TIERS[-1] else f' The tier "{TIERS[TIERS.index(tier) + 1]}" takes in more.'
        raise RebnnError(f'int8 finds no layer to quantize{real}.{wider}')
    outputs = {name for choice in choices if choice.int8 for name in choice.outputs}
    chosen = [node for node in model.graph.node if node.output[0] in outputs]
    names = values_of(model, chosen)
    session = open_session(watch_values(model, names), library=library_available())
    return Plan(choices, measure_ranges(session, names, feeds), reduced or saturates())


def choose(model: onnx.ModelProto, tier: str) -> list[Choice]:
    """Every full-precision layer with a weight, and whether it becomes int8.

    A layer may, if no path from what it gives reaches a sign: the paths end at the graph's outputs and where values
    become places or sizes, such as the boxes that ``RoiAlign`` reads.
    """
    graph = ir.from_proto(model).graph
    layers: dict[ir.Value, list[ir.Node]] = {}
    for node in graph:
        weight = node.inputs[1] if node.domain == '' and node.op_type in PRODUCTS else None
        if _is_weight(weight):
            layers.setdefault(weight, []).append(node)
    choices = []
    for weight, nodes in layers.items():
        signs = (sign for node in nodes if (sign := _sign_behind(node.outputs[0])) is not None)
        first, sign = any(node.inputs[0] in graph.inputs for node in nodes), next(signs, None)
        name = str(weight.name)
        if CORRECTION in name:
            int8, because = False, 'it makes the two values of a binary layer exact'
        elif any(map(_not_in_8_bits, nodes)):
            int8, because = False, 'ONNX Runtime does not compute it in 8 bits'
        elif first:
            int8, because = tier == 'stem', f'first layer ({_channels(weight)} input channels)'
        elif sign is not None:
            int8, because = tier != 'heads', f'its values become signs at {sign}'
        else:
            int8, because = True, 'its values never become a sign'
        choices.append(Choice(layer_of(name), int8, because, tuple(str(node.outputs[0].name) for node in nodes)))
    return choices


def _not_in_8_bits(node: ir.Node) -> bool:
    """Whether ONNX Runtime's quantizer stops at a product, or what it writes does not run or is another product."""
    if node.op_type == 'ConvTranspose':
        return node.attributes.get_int('group', 1) > 1 and len(node.inputs) > 2
    if node.op_type == 'Gemm':
        return any(node.attributes.get_float(factor, 1.0) != 1 for factor in ('alpha', 'beta'))
    weight = constant_array(node.inputs[1])
    return node.op_type == 'MatMul' and weight is not None and weight.ndim > 2


def _channels(weight: ir.Value) -> int:
    array = constant_array(weight)
    assert array is not None
    return int(array.shape[1])


def _is_weight(value: ir.Value | None) -> TypeGuard[ir.Value]:
    array = constant_array(value) if value is not None and value.is_initializer() else None
    return array is not None and array.dtype == np.float32


def _sign_behind(value: ir.Value) -> str | None:
    """The name of a binary layer that takes the sign of a value, or of what is made of it; None if there is none."""
    seen, ahead = {value}, [value]
    while ahead:
        for node, index in ahead.pop().uses():
            if node.domain == DOMAIN and node.op_type.startswith(('Binary', 'PackedBinary')):
                if index != RESIDUAL.get(node.op_type):  # which is no sign yet
                    return node.name
            elif node.op_type in ENDS or index >= FREE_INPUTS.get(node.op_type, index + 1):
                continue
            behind = [output for output in node.outputs if output not in seen]
            seen.update(behind)
            ahead.extend(behind)
    return None


def layer_of(weight: str) -> str:
    """The name of a layer, from that of its weight in the graph."""
    return weight.partition('.weight')[0].partition(CORRECTION)[0]


class QuantizeInt8(InPlacePass):
    """Give the chosen layers 8-bit weights, by channel, and 8-bit inputs.

    Convolutions get 8-bit outputs as well. Whoever else reads the same values reads them unrounded.

    Args:
        plan: from :func:`plan_int8`, of the same graph.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def requires(self, model: ir.Model) -> None:
        weights = (node.inputs[1] for node in self._find_chosen(model))
        found = {layer_of(str(weight.name)) for weight in weights if _is_weight(weight)}
        missing = set(self.plan.layers) - found
        demand(not missing, f'the plan is of another graph, or weights are not float32: {missing}.')

    def call(self, model: ir.Model) -> PassResult:
        chosen = self._find_chosen(model)
        _read_alone(model.graph, chosen)
        for node in chosen:
            node.name = node.outputs[0].name
        proto, names = ir.to_proto(model), {node.name for node in chosen}
        values = values_of(proto, [node for node in proto.graph.node if node.name in names])
        model.graph = ir.from_proto(
            insert_int8(
                proto,
                [str(node.name) for node in chosen],
                {name: self.plan.ranges[name.removesuffix(ALONE)] for name in values},
                reduced=self.plan.reduced,
                extra={'OpTypesToExcludeOutputQuantization': list(REAL_OUTPUTS)},
            )
        ).graph
        for node in list(model.graph):
            if str(node.outputs[0].name).endswith(ALONE) and node.inputs[0] is not None:
                node.outputs[0].replace_all_uses_with(node.inputs[0])
                model.graph.remove(node, safe=True)
        return PassResult(model, True)

    def ensures(self, model: ir.Model) -> None:
        # the quantizer leaves out, with a line in its log, what it knows no way for
        stored = ((name, constant_array(value)) for name, value in model.graph.initializers.items())
        names = (name for name, array in stored if array is not None and array.dtype == np.int8)
        found = {layer_of(name.removesuffix(QUANTIZED).removesuffix(ALONE)) for name in names}
        demand(found >= set(self.plan.layers), f'not every layer became int8: {set(self.plan.layers) - found}.')

    def _find_chosen(self, model: ir.Model) -> list[ir.Node]:
        outputs = {name for choice in self.plan.choices if choice.int8 for name in choice.outputs}
        return [node for node in model.graph if node.outputs[0].name in outputs]


ALONE = '.int8'
"""Ends the name of a value, or of a constant, that only chosen nodes read."""


def _read_alone(graph: ir.Graph, chosen: list[ir.Node]) -> None:
    """Let nobody else read what chosen nodes read: the quantizer puts the rounded value in its place for all."""
    for node in chosen:
        for value in node.inputs:
            uses = list(value.uses()) if value is not None else []
            if value is None or not (value.is_graph_output() or any(reader not in chosen for reader, _ in uses)):
                continue
            name = f'{value.name}{ALONE}'
            array = constant_array(value) if value.is_initializer() else None
            if array is not None:
                alone = ir.val(name, const_value=ir.tensor(array, name=name))
                graph.register_initializer(alone)
            else:
                copy = ir.node('Identity', [value])
                graph.insert_before(node, copy)
                alone = copy.outputs[0]
                alone.name = name
            for reader, index in uses:
                if reader in chosen:
                    reader.replace_input_with(index, alone)


def saturates() -> bool:
    """Whether this processor adds two int8 products in 16 bits (x86-64 without VNNI), so that weights need 7 bits."""
    return platform.machine() == 'x86_64' and not any('vnni' in flag for flag in processor_flags())


def insert_int8(
    model: onnx.ModelProto, nodes: Sequence[str], ranges: Ranges, *, reduced: bool, extra: Mapping[str, object] = {}
) -> onnx.ModelProto:
    """Let the nodes of these names work on 8 bits: weights int8 by channel, activations uint8."""
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from onnxruntime.quantization.calibrate import TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    bounds = {
        name: TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))
        for name, (low, high) in ranges.items()
    }
    copy = deepcopy(model)
    # The quantizer leaves out values that it knows no type of. These are told; the mark keeps it from inferring those
    # of all others.
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ranges)
    onnx.helper.set_model_props(copy, {'onnx.infer': 'onnxruntime.quant'})
    with quiet():  # ONNX Runtime's tools give advice about models that are not ours to change
        quantizer = QDQQuantizer(
            copy,
            per_channel=True,
            reduce_range=reduced,
            weight_qType=QuantType.QInt8,
            activation_qType=QuantType.QUInt8,
            tensors_range=TensorsData(CalibrationMethod.MinMax, bounds),
            nodes_to_quantize=list(nodes),
            nodes_to_exclude=[],
            op_types_to_quantize=sorted({node.op_type for node in model.graph.node if node.name in nodes}),
            extra_options=dict(extra),
        )
        quantizer.quantize_model()
        quantizer.model.topological_sort()
    result: onnx.ModelProto = quantizer.model.model
    del result.graph.value_info[:], result.metadata_props[:]
    return result


def measure_ranges(
    session: onnxruntime.InferenceSession, names: Sequence[str], feeds: Iterable[Mapping[str, np.ndarray]]
) -> Ranges:
    """Least and largest of some values, over all inputs."""
    outputs = [f'{name}{end}' for name in names for end in EXTREMES]
    ranges = {name: np.array([np.inf, -np.inf]) for name in names}
    count = 0
    for feed in feeds:
        count += 1
        found = iter(session.run(outputs, dict(feed)))
        for name, low, high in zip(names, found, found, strict=True):
            if low.dtype.kind != 'f':
                ranges.pop(name, None)
                continue
            ranges[name] = np.array([np.minimum(ranges[name][0], low), np.maximum(ranges[name][1], high)])
    if not count:
        raise RebnnError('there is no image to calibrate int8 layers on.')
    for name, bounds in ranges.items():
        if not np.isfinite(bounds).all():
            raise RebnnError(
                f'int8 cannot be calibrated: the value {name} is empty or not finite on the {count} images. Give '
                'images like those that the model was trained on.'
            )
    return {name: (float(low), float(high)) for name, (low, high) in ranges.items()}


def values_of(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """List inputs and outputs of these nodes, without constants and ignored values."""
    constants = {tensor.name for tensor in model.graph.initializer}
    names = dict.fromkeys(name for node in nodes for name in [*node.input, *node.output])
    return [name for name in names if name and name not in constants]


def watch_values(model: onnx.ModelProto, names: Sequence[str]) -> bytes:
    """Let a graph also give the least and the largest of some values, for :func:`measure_ranges`; serialised."""
    copy = deepcopy(model)
    for name in names:
        for kind, end in zip(('ReduceMin', 'ReduceMax'), EXTREMES, strict=True):
            copy.graph.node.append(onnx.helper.make_node(kind, [name], [name + end], keepdims=0))
            copy.graph.output.append(onnx.ValueInfoProto(name=name + end))
    return copy.SerializeToString()
