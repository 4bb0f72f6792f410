"""Real-valued layers in 8 bits: which ones, calibrated on images, by ONNX Runtime's static quantiser."""

from __future__ import annotations

import contextlib
import io
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.utils.machine import processor_flags

from ..errors import RebnnError
from .operators import DOMAIN

TIERS = ('heads', 'all', 'stem')
"""Choices of int8 layers: products that never become a sign; also shortcuts and others; also the first layer."""

PRODUCTS = ('Conv', 'ConvTranspose', 'Gemm', 'MatMul')

REAL_OUTPUTS = ('Gemm', 'MatMul')
"""These give real numbers from 8-bit inputs in one step, so that their outputs need not be rounded to 8 bits."""

RESIDUAL = {'BinaryBlock': 6, 'BinaryClipBlock': 6, 'PackedBinaryBlock': 5, 'PackedBinaryClipBlock': 5}
"""Number of the block's input that is added after its sums, and so is no sign yet."""

FREE_INPUTS = {'RealRoiAlign': 1, 'RoiAlign': 1}
"""Operators whose inputs from this one on say where to look, not what is seen: boxes."""

CORRECTION = '.correction'
"""Part of the name of a weight that belongs to a binary layer (:mod:`rebnn_mm.export.two_valued`)."""

ENDS = ('ArgMax', 'NonMaxSuppression', 'NonZero', 'Shape', 'Size')
"""Operators that give places and sizes: their values are no values of a map any more."""

EXTREMES = ('.min', '.max')
"""End the names of the least and the largest of a value."""

Ranges = dict[str, tuple[float, float]]
"""Least and largest value, by the name of a value in a graph."""


class Choice(NamedTuple):
    """A real-valued layer.

    Attributes:
        layer: its name in the model.
        int8: whether it is quantised.
        because: the reason, in words.
        outputs: names of what it gives; several if it is used more than once.
    """

    layer: str
    int8: bool
    because: str
    outputs: tuple[str, ...]


class Plan(NamedTuple):
    """Plan of what to quantise and how.

    Attributes:
        choices: every real-valued layer with a weight, in the graph's order.
        ranges: of what goes into the chosen layers and comes out.
        reduced: whether weights get 7 bits.
    """

    choices: list[Choice]
    ranges: Ranges
    reduced: bool

    @property
    def layers(self) -> list[str]:
        """Names of the layers that become int8."""
        return [choice.layer for choice in self.choices if choice.int8]

    @property
    def weight_bits(self) -> int:
        """Bits of the weights of these layers."""
        return 7 if self.reduced else 8


def planned(
    model: onnx.ModelProto, tier: str, feeds: Iterable[Mapping[str, np.ndarray]], *, reduced: bool = False
) -> Plan:
    """Choose layers and calibrate them.

    Args:
        model: the finished graph, in single precision.
        tier: one of :data:`TIERS`.
        feeds: inputs of the graph to calibrate on.
        reduced: weights of 7 bits in any case, not only where this processor needs them.

    Raises:
        ValueError: there is nothing to quantise or to calibrate on, or a layer's values cannot be.
    """
    choices = choose(model, tier)
    if not any(choice.int8 for choice in choices):
        real = f' ({choices[0].layer}: {choices[0].because})' if choices else ''
        wider = '' if tier == TIERS[-1] else ' --int8-layers all takes in more.'
        raise RebnnError(f'--int8 finds no layer to quantise{real}.{wider}')
    chosen = _nodes_of(model.graph, choices)
    names = values_of(model, chosen)
    session = open_session(watched(model, names), library=library_available())
    return Plan(choices, calibrated(session, names, feeds), reduced or saturates())


def choose(model: onnx.ModelProto, tier: str) -> list[Choice]:
    """Every real-valued layer with a weight, and whether it becomes int8.

    A layer may, if no path from what it gives reaches a sign: the paths end at the graph's outputs and where values
    become places or sizes, such as the boxes that ``RoiAlign`` reads.

    Args:
        model: the finished graph, in single precision.
        tier: one of :data:`TIERS`.

    Example:
        >>> weight = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), 'fc.weight')
        >>> node = onnx.helper.make_node('Gemm', ['x', 'fc.weight'], ['y'], transB=1)
        >>> model = onnx.helper.make_model(onnx.helper.make_graph([node], 'g', [], [], [weight]))
        >>> choose(model, 'heads')
        [Choice(layer='fc', int8=True, because='its values never become a sign', outputs=('y',))]
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT}
    images = {value.name for value in graph.input}
    readers = _readers(graph)
    layers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        if node.domain == '' and node.op_type in PRODUCTS and node.input[1] in weights:
            layers.setdefault(node.input[1], []).append(node)
    choices = []
    for weight, nodes in layers.items():
        signs = (sign for node in nodes if (sign := _sign_behind(node.output[0], readers)) is not None)
        first, sign = any(node.input[0] in images for node in nodes), next(signs, None)
        if CORRECTION in weight:
            int8, because = False, 'it makes the two values of a binary layer exact'
        elif first:
            channels = weights[weight].dims[1]
            int8, because = tier == 'stem', f'first layer ({channels} input channels)'
        elif sign is not None:
            int8, because = tier != 'heads', f'its values become signs at {sign}'
        else:
            int8, because = True, 'its values never become a sign'
        choices.append(Choice(layer_of(weight), int8, because, tuple(node.output[0] for node in nodes)))
    return choices


def layer_of(weight: str) -> str:
    """The name of a layer, from that of its weight in the graph.

    Example:
        >>> layer_of('layer2.0.downsample.0.weight.folded1_matrix'), layer_of('fc.weight')
        ('layer2.0.downsample.0', 'fc')
    """
    return weight.partition('.weight')[0].partition(CORRECTION)[0]


def quantise_rest(model: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Give the chosen layers 8-bit weights, by channel, and 8-bit inputs.

    Convolutions get 8-bit outputs as well. Whoever else reads the same values reads them unrounded.

    Args:
        model: the graph in front of :func:`rebnn_mm.export.compact`; it is not changed.
        plan: from :func:`planned`.
    """
    model = _alone(model, _nodes_of(model.graph, plan.choices))
    chosen = _nodes_of(model.graph, plan.choices)
    quantised = inserted(
        model,
        [node.name for node in chosen],
        {name: plan.ranges[name.removesuffix(ALONE)] for name in values_of(model, chosen)},
        reduced=plan.reduced,
        extra={'OpTypesToExcludeOutputQuantization': list(REAL_OUTPUTS)},
    )
    return _without_copies(quantised)


def saturates() -> bool:
    """Whether this processor adds two int8 products in 16 bits (x86-64 without VNNI), so that weights need 7 bits."""
    return platform.machine() == 'x86_64' and not any('vnni' in flag for flag in processor_flags())


def inserted(
    model: onnx.ModelProto, nodes: Sequence[str], ranges: Ranges, *, reduced: bool, extra: Mapping[str, object] = {}
) -> onnx.ModelProto:
    """A graph whose nodes of these names work on 8 bits: weights int8 by channel, activations uint8.

    Args:
        model: it is not changed.
        nodes: names.
        ranges: of the values in :func:`values_of`.
        reduced: weights of 7 bits.
        extra: further options of ONNX Runtime's quantiser.

    Raises:
        ValueError: a package is missing; one sentence says which.
    """
    try:
        from onnxruntime.quantization import CalibrationMethod, QuantType
        from onnxruntime.quantization.calibrate import TensorData, TensorsData
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    except ImportError as error:
        raise RebnnError(f'{error}: quantising needs `pip install onnx onnxruntime`.') from None
    bounds = {
        name: TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))
        for name, (low, high) in ranges.items()
    }
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    # The quantiser leaves out values that it knows no type of. These are told; the mark keeps it from inferring those
    # of all others.
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ranges)
    onnx.helper.set_model_props(copy, {'onnx.infer': 'onnxruntime.quant'})
    with quiet():
        quantiser = QDQQuantizer(
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
        quantiser.quantize_model()
        quantiser.model.topological_sort()
    result: onnx.ModelProto = quantiser.model.model
    del result.graph.value_info[:], result.metadata_props[:]
    return result


def calibrated(
    session: onnxruntime.InferenceSession, names: Sequence[str], feeds: Iterable[Mapping[str, np.ndarray]]
) -> Ranges:
    """Least and largest of some values, over all inputs.

    Args:
        session: of a graph from :func:`watched`.
        names: of the values; integers among them are left out.
        feeds: inputs.

    Raises:
        ValueError: there are no inputs, or a value is nowhere or not finite.
    """
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


def watched(model: onnx.ModelProto, names: Sequence[str]) -> bytes:
    """A serialised graph that also gives the least and the largest of some values, for :func:`calibrated`."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in names:
        for kind, end in zip(('ReduceMin', 'ReduceMax'), EXTREMES, strict=True):
            copy.graph.node.append(onnx.helper.make_node(kind, [name], [name + end], keepdims=0))
            copy.graph.output.append(onnx.ValueInfoProto(name=name + end))
    return copy.SerializeToString()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """ONNX Runtime's tools print and log advice about models that are not ours to change."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(level)


Readers = dict[str, list[tuple[onnx.NodeProto, int]]]


def _readers(graph: onnx.GraphProto) -> Readers:
    readers: Readers = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, index))
    return readers


def _sign_behind(value: str, readers: Readers) -> str | None:
    """The name of a binary layer that takes the sign of a value, or of what is made of it; None if there is none."""
    seen, ahead = {value}, [value]
    while ahead:
        for node, index in readers.get(ahead.pop(), []):
            if node.domain == DOMAIN and node.op_type.startswith(('Binary', 'PackedBinary')):
                if index != RESIDUAL.get(node.op_type):
                    return node.name
            elif node.op_type in ENDS or index >= FREE_INPUTS.get(node.op_type, index + 1):
                continue
            behind = [name for name in node.output if name and name not in seen]
            seen.update(behind)
            ahead.extend(behind)
    return None


def _nodes_of(graph: onnx.GraphProto, choices: Sequence[Choice]) -> list[onnx.NodeProto]:
    outputs = {name for choice in choices if choice.int8 for name in choice.outputs}
    return [node for node in graph.node if node.output and node.output[0] in outputs]


ALONE = '.int8'
"""Ends the name of a value, or of a constant, that only chosen nodes read."""


def _alone(model: onnx.ModelProto, chosen: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """A copy in which chosen nodes have names, and nobody else reads what they read.

    The quantiser puts the rounded value in the place of the exact one for every reader.
    """
    outputs = {node.output[0] for node in chosen}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    mine = [node for node in graph.node if node.output and node.output[0] in outputs]
    inputs = {name for node in mine for name in node.input if name}
    shared = {value.name for value in graph.output}
    for node in graph.node:
        if not node.output or node.output[0] not in outputs:
            shared |= inputs & set(node.input)
    nodes = []
    made = set()
    for node in graph.node:
        if node.output and node.output[0] in outputs:
            node.name = node.output[0]
            for index, name in enumerate(node.input):
                if name not in shared:
                    continue
                node.input[index] = name + ALONE
                if name in made:
                    continue
                made.add(name)
                if name in constants:
                    graph.initializer.append(constants[name])
                    graph.initializer[-1].name = name + ALONE
                else:
                    nodes.append(onnx.helper.make_node('Identity', [name], [name + ALONE]))
        nodes.append(node)
    ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(ordered)
    return copy


def _without_copies(model: onnx.ModelProto) -> onnx.ModelProto:
    """Read the values that :func:`_alone` copied directly again, in place."""
    copies = {node.output[0]: node for node in model.graph.node if node.output[0].endswith(ALONE)}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name in copies:
                node.input[index] = copies[name].input[0]
    kept = [node for node in model.graph.node if node.output[0] not in copies]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model
