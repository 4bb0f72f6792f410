"""Puts binary convolutions and what connects them into the order [N, H, W, C]."""

import onnx
import onnx_ir as ir

from ..operators import DOMAIN
from .graph import BLOCKS, changed, constant_array
from .layout import (
    CONVOLUTIONS,
    TO_FIRST,
    Mover,
    growth,
    is_transpose,
    join_upsampling,
    maps,
    read_directly,
    takes_either,
)

Region = set[ir.Node]


def channels_last(model: onnx.ModelProto, *, regions: bool = False) -> onnx.ModelProto:
    """Let regions of binary convolutions work with the channels last, where their kernels are faster.

    A region grows from the convolutions over standard operators that do the same in either order: elementwise ones,
    ``Concat``, ``Resize`` (by 2 and with an addition behind it ``RealUpsampleAdd``), average pooling of 2x2 squares
    (``RealAveragePool``) and 1x1 convolutions (``MatMul``). It takes in what reads only from it and makes no more
    numbers of that, what only it reads and that makes no fewer, and what reads from it and is read by it. Where a
    value enters or leaves there is a ``Transpose``; a mean over all positions and a shape are taken of either order. A
    region stays as it is if more channels enter and leave than its binary convolutions give: sizes of images are free,
    so channels are counted.

    Values stay as they are to the last bit, but for real sums, those of a mean over all positions and of a 1x1
    convolution, which ONNX Runtime may take in another order, and with ``regions`` those of ``RoiAlign``.

    Args:
        model: from :func:`rebnn_mm.export.fuse`; it is not changed.
        regions: take in ``RoiAlign``, which becomes ``RealRoiAlign``.

    Returns:
        onnx.ModelProto: the same object if nothing is worth it.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import fuse, pack, trace
        >>> from rebnn_mm.models import BinaryReActBlock
        >>> net = nn.Sequential(*(BinaryReActBlock(8, 8, conv_cfg=dict(type='ReBNNConv2d')) for _ in range(2)))
        >>> model = fuse(trace(pack(net).model, {'x': torch.ones(1, 8, 4, 4)}, ['y']))
        >>> [node.op_type for node in channels_last(model).graph.node]
        ['Transpose', 'BinaryBlock', 'PackedBinaryBlock', 'PackedBinaryBlock', 'PackedBinaryBlock', 'Transpose']
    """
    return changed(model, lambda graph: _move(graph, regions))


def _move(graph: ir.Graph, regions: bool) -> bool:
    region = _worth_it(_grown(graph, regions))
    if not region:
        return False
    mover = Mover(graph)
    for node in list(graph):
        if node in region:
            mover.move(node)
    for node in list(graph):
        if is_transpose(node, TO_FIRST):
            read_directly(graph, node)
            if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
                graph.remove(node, safe=True)
    for node in list(graph):
        if node.op_type == 'Add' and node.domain == '':
            join_upsampling(graph, node)
    return True


def _grown(graph: ir.Graph, regions: bool) -> Region:
    """Every node that could work with the channels last."""
    region = {node for node in graph if _is_convolution(node)}
    candidates = [(node, grows) for node in graph if (grows := growth(node)) is not None]
    if not regions:
        candidates = [(node, grows) for node, grows in candidates if node.op_type != 'RoiAlign']
    size = -1
    while len(region) != size:
        size = len(region)
        for node, grows in [*candidates, *reversed(candidates)]:
            output = node.outputs[0]
            inputs = [value.producer() in region for value in maps(node)]
            readers = [reader in region and output in maps(reader) for reader, _ in output.uses()]
            behind = bool(inputs) and all(inputs)
            before = any(readers) and all(readers) and not output.is_graph_output()
            between = any(inputs) and any(readers)
            if any(value.producer() not in region and not _is_image(value) for value in maps(node)):
                continue
            if between or (behind and grows <= 0) or (before and grows >= 0 and len(inputs) < 2):
                region.add(node)
    return region


def _is_image(value: ir.Value) -> bool:
    node = value.producer()
    makes_one = node is not None and node.op_type in ('RealStem', 'RoiAlign')
    return makes_one or (value.shape is not None and len(value.shape) == 4)


def _worth_it(region: Region) -> Region:
    """The nodes of those connected parts through whose borders go no more channels than their convolutions give."""
    kept: Region = set()
    left = set(region)
    while left:
        part = _connected(left)
        left -= part
        inside = {node.outputs[0] for node in part}
        entering = {value for node in part for value in maps(node)} - inside
        leaving = {value for value in inside if value.is_graph_output() or _leaves(value, part)}
        given = sum(_channels(node.outputs[0]) for node in part if _is_convolution(node))
        if sum(map(_channels, entering | leaving)) <= given:
            kept |= part
    return kept


def _connected(nodes: Region) -> Region:
    """Some of the nodes and all that they are connected with."""
    part, ahead = set(), {next(iter(nodes))}
    while ahead:
        node = ahead.pop()
        part.add(node)
        around = {value.producer() for value in node.inputs if value is not None}
        around |= {reader for value in node.outputs for reader, _ in value.uses()}
        ahead |= {other for other in around if other is not None and other in nodes} - part
    return part


def _leaves(value: ir.Value, part: Region) -> bool:
    return any(reader not in part and not takes_either(reader) for reader, _ in value.uses())


def _channels(value: ir.Value) -> int:
    """Channels of an image; 1 if nothing tells them."""
    node = value.producer()
    if node is not None and _is_convolution(node):
        weight = constant_array(node.inputs[1])
        return 1 if weight is None else len(weight)
    if value.shape is not None and isinstance(value.shape[1], int):
        return value.shape[1]
    for reader, index in value.uses():
        if index == 0 and reader.domain == DOMAIN and reader.op_type in ('BinaryConv', *BLOCKS):
            group = reader.attributes['group'].as_int() if 'group' in reader.attributes else 1
            return reader.attributes['channels'].as_int() * group
    return 1


def _is_convolution(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type in CONVOLUTIONS
