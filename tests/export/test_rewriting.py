"""Passes run in an order that they allow, on a copy."""

import onnx
import pytest
from onnx_ir.passes import PassError, PreconditionError

from rebnn_mm.export import apply_passes
from rebnn_mm.export.passes import ChannelsLast, Compact, FuseBlocks, QuantizeInt8, SpreadNorms, ToHalf
from rebnn_mm.export.passes.int8 import Choice, Plan
from tests.export.graphs import parsed

ZEROS = ', '.join('0' * 16)
CONV = 'rebnn.BinaryConv <channels = 16, group = 1, layout = "NCHW"> ({}, w, zeros, zeros, zeros)'


def graph() -> onnx.ModelProto:
    """Two binary convolutions with a ReLU between them, for the passes to join and to move."""
    return parsed(
        f"""g (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y)
        <uint8[16, 1, 1, 2] w = {{{', '.join(['1'] * 32)}}}, float[16] zeros = {{{ZEROS}}}>
        {{ a = {CONV.format('x')} b = Relu (a) c = {CONV.format('b')} y = Relu (c) }}"""
    )


ORDERS = {
    'blocks after the moved layout': [ChannelsLast(), FuseBlocks()],
    'norms after the blocks': [FuseBlocks(), SpreadNorms()],
    'a plan of another graph': [QuantizeInt8(Plan([Choice('fc', True, '', ('elsewhere',))], {}, False))],
}


@pytest.mark.parametrize('name', ORDERS)
def test_what_a_pass_needs_is_checked(name):
    with pytest.raises(PassError) as caught:
        apply_passes(graph(), *ORDERS[name])
    assert isinstance(caught.value.__cause__, PreconditionError)


def test_the_model_that_is_read_stays_as_it_was():
    model = graph()
    before = model.SerializeToString()
    after = apply_passes(model, FuseBlocks(), ChannelsLast(), Compact(), ToHalf())
    assert model.SerializeToString() == before != after.SerializeToString()
    assert 'ConstantOfShape' in {node.op_type for node in after.graph.node}
