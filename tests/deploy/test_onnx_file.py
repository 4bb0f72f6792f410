"""The wire-format reader finds what the onnx package finds, and refuses everything else in one sentence."""

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy import onnx_file
from rebnn_mm.deploy.errors import ModelFileError
from rebnn_mm.deploy.onnx_file import DIGEST_KEY, check_digest, check_packed, read_onnx, seal

from . import models


def check(data):
    """Everything that is checked before a runtime sees the file."""
    found = read_onnx(data)
    check_digest(data, found)
    check_packed(found, models.packed_digests(onnx.ModelProto.FromString(data).graph))


def message(number, content):
    """A field that holds a message or bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


@pytest.mark.parametrize('make', [models.classifier, models.detector, models.raw])
def test_it_finds_what_the_onnx_package_finds(make):
    proto = make()
    found = read_onnx(proto.SerializeToString())
    assert found.metadata == {entry.key: entry.value for entry in proto.metadata_props}
    assert found.initializers.keys() == {tensor.name for tensor in proto.graph.initializer}
    for tensor in proto.graph.initializer:
        assert found.initializers[tensor.name].data_type == tensor.data_type
        assert bytes(found.initializers[tensor.name].raw) == tensor.raw_data
    assert found.binary_weights == {'layer': 'layer.weight'}
    check(seal(proto.SerializeToString()))


def test_numbers_that_are_not_raw_bytes():
    tensor = helper.make_tensor('t', TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])
    graph = helper.make_graph([], 'g', [], [], [tensor])
    found = read_onnx(helper.make_model(graph).SerializeToString())
    assert found.initializers['t'].data_type == TensorProto.FLOAT and found.initializers['t'].raw is None


def test_the_sealed_file_is_still_an_onnx_file():
    proto = models.classifier()
    sealed = seal(proto.SerializeToString())
    again = onnx.load_from_string(sealed)
    onnx.checker.check_model(again)
    assert again.graph == proto.graph and again.functions == proto.functions
    assert again.metadata_props[-1].key == DIGEST_KEY
    assert len(sealed) == len(proto.SerializeToString()) + 87


def test_every_cut_is_noticed():
    """Wherever a download stops, the file lacks its digest or its digest is wrong."""
    data = seal(models.classifier().SerializeToString())
    for end in range(0, len(data), 13):
        with pytest.raises(ModelFileError):
            whole(data[:end])
    with pytest.raises(ModelFileError):
        whole(data[:-1])


def whole(data):
    check_digest(data, read_onnx(data))


def test_every_changed_byte_is_noticed():
    data = seal(models.classifier().SerializeToString())
    rng = np.random.default_rng(0)
    for at in rng.choice(len(data), 300, replace=False):
        changed = bytearray(data)
        changed[at] ^= 1 << rng.integers(8)
        with pytest.raises(ModelFileError):
            whole(bytes(changed))


def test_a_damaged_weight_is_named():
    data = models.classifier().SerializeToString()
    expected = models.packed_digests(models.classifier().graph)
    raw = read_onnx(data).initializers['layer.weight'].raw
    at = data.index(bytes(raw))
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    with pytest.raises(ModelFileError, match=r"^the packed weight 'layer.weight' is damaged"):
        check_packed(read_onnx(changed), expected)
    with pytest.raises(
        ModelFileError, match="^the weight 'layer.weight' of node 'layer' has no SHA-256 in the metadata"
    ):
        check_packed(read_onnx(data), {})
    with pytest.raises(ModelFileError, match="^the packed weight 'other' that its metadata lists is not there"):
        check_packed(read_onnx(data), {**expected, 'other': '0' * 64})


def test_a_file_that_was_saved_again():
    """The onnx package writes metadata before functions."""
    proto = onnx.load_from_string(seal(models.classifier().SerializeToString()))
    assert proto.functions
    data = proto.SerializeToString()
    with pytest.raises(ModelFileError, match='is not its last entry any more'):
        check_digest(data, read_onnx(data))


def test_a_second_seal():
    with pytest.raises(ModelFileError, match='has an entry rebnn.file_sha256 already'):
        seal(seal(b''))


def external_tensor():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), 't')
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def in_initializer(tensor):
    return helper.make_graph([], 'g', [], [], [tensor]), []


def in_constant(tensor):
    return helper.make_graph([helper.make_node('Constant', [], ['y'], value=tensor)], 'g', [], []), []


def in_branch(tensor):
    branch, _ = in_constant(tensor)
    node = helper.make_node('If', ['c'], ['y'], then_branch=branch, else_branch=branch)
    return helper.make_graph([node], 'g', [], []), []


def in_function(tensor):
    node = helper.make_node('Constant', [], ['y'], value=tensor)
    function = helper.make_function('d', 'F', [], ['y'], [node], [models.OPSET])
    return helper.make_graph([], 'g', [], []), [function]


def in_sparse(tensor):
    sparse = onnx.SparseTensorProto(values=tensor)
    graph = helper.make_graph([], 'g', [], [])
    graph.sparse_initializer.append(sparse)
    return graph, []


@pytest.mark.parametrize('place', [in_initializer, in_constant, in_branch, in_function, in_sparse])
def test_data_in_another_file_is_refused_everywhere(place):
    graph, functions = place(external_tensor())
    data = helper.make_model(graph, functions=functions).SerializeToString()
    with pytest.raises(ModelFileError, match='keeps a tensor in another file'):
        read_onnx(data)
    read_onnx(data.replace(b'\x70\x01', b'\x70\x00'))


def test_the_name_of_another_file_is_refused():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), 't')
    tensor.external_data.add(key='location', value='/etc/passwd')
    with pytest.raises(ModelFileError, match='keeps a tensor in another file'):
        read_onnx(helper.make_model(in_initializer(tensor)[0]).SerializeToString())


@pytest.mark.parametrize(
    ('data', 'words'),
    [
        (b'\x72', 'it ends inside a number at byte 1'),
        (b'\x08\xff\xff', 'it ends inside a number at byte 3'),
        (b'\x08' + b'\xff' * 12, 'a number at byte 11 is too long'),
        (b'\x3a\x05abc', 'a length at byte 0 reaches beyond its end'),
        (b'\x3a' + varint(2**63), 'a length at byte 0 reaches beyond its end'),
        (b'\x0d\x00\x00', 'a length at byte 0 reaches beyond its end'),
        (b'\x0b\x0c', 'wire type 3 at byte 0 does not exist in it'),
        (b'\x07', 'wire type 7 at byte 0 does not exist in it'),
        (b'\x00\x01', 'a field number at byte 0 is out of range'),
        (varint(1 << 40) + b'\x01', 'a field number at byte 0 is out of range'),
        (b'\x38\x01', 'field 7 at byte 0 has wire type 0'),
        (message(14, message(1, b'\xff\xfe')), 'the text at byte 4 is not UTF-8'),
        (message(14, message(1, b'k')) * 2, "its metadata holds 'k' twice"),
        (message(7, message(5, message(8, b't')) * 2), "it holds the constant 't' twice"),
        (
            message(7, message(1, message(7, b'rebnn') + message(4, b'BinaryConv'))),
            "node 'BinaryConv 0' has no weight",
        ),
        (b'PK\x03\x04 a zip file', 'it is not a packed model, or it is damaged'),
    ],
)
def test_bytes_that_are_no_model(data, words):
    with pytest.raises(ModelFileError, match=words) as caught:
        read_onnx(data)
    assert '\n' not in str(caught.value)


@pytest.fixture
def peak():
    """The most memory, in bytes, that a call of the fixture's value takes until it refuses the file."""

    def measured(data, words):
        tracemalloc.start()
        with pytest.raises(ModelFileError, match=words):
            read_onnx(data)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    return measured


def test_nothing_is_allocated_for_a_claimed_length(peak):
    data = message(7, message(5, message(8, b't') + varint(9 << 3 | 2) + varint(2**62)))
    assert peak(data, 'reaches beyond its end') < 1 << 20


MANY = 20_000
ENDLESS = {
    'numbers': b'\x08\x00' * MANY,
    'empty messages': b'\x3a\x00' * MANY,
    'inputs of a node': message(7, message(1, b'\x0a\x00' * MANY)),
    'parts of a constant': message(7, message(5, b'\x10\x01' * MANY)),
    'parts of an entry': message(14, b'\x08\x00' * MANY),
}


@pytest.mark.parametrize('name', ENDLESS)
def test_endless_rows_of_fields_cost_no_memory(name, peak, monkeypatch):
    monkeypatch.setattr(onnx_file, 'MAX_FIELDS', MANY - 1)
    assert peak(ENDLESS[name], f'^it has more than {MANY - 1} fields, which no packed model needs$') < 1 << 20


@pytest.mark.parametrize(('key', 'most'), [('rebnn.classes', 2 << 20), ('rebnn.tokenizer', 64 << 20)])
def test_a_text_that_is_too_long(key, most):
    def entry(length):
        return message(14, message(1, key.encode()) + message(2, b'a' * length))

    assert len(read_onnx(entry(most)).metadata[key]) == most
    with pytest.raises(
        ModelFileError, match=f'^its {key} is longer than {most >> 20} MiB, which no packed model needs$'
    ):
        read_onnx(entry(most + 1))


def test_a_file_of_millions_of_fields_is_refused():
    with pytest.raises(ModelFileError, match='^it has more than 500000 fields, which no packed model needs$'):
        read_onnx(b'\x08\x00' * 2_000_000)


def test_depth_is_bounded(peak):
    """Each level is a graph in an attribute of a node in a graph; protobuf's readers stop at 100 messages."""

    def nested(levels):
        content = b''
        for _ in range(levels):
            content = message(1, message(5, message(6, content)))
        return message(7, content)

    assert read_onnx(nested(32)).initializers == {}
    words = 'more than 100 messages lie in each other at byte'
    assert peak(nested(34), words) < 1 << 20
    assert peak(nested(3000), words) < 1 << 20


def test_of_a_repeated_part_the_last_one_counts():
    """As protobuf has it."""
    data = message(7, message(5, b'\x10\x01' + message(8, b'a') + b'\x10\x02' + message(8, b'b') + message(9, b'xy')))
    node = message(7, b'rebnn') + b''.join(message(1, name) for name in (b'x', b'w', b'shift'))
    found = read_onnx(data + message(7, message(1, message(3, b'old') + node + message(3, b'new'))))
    assert found.initializers.keys() == {'b'} and found.initializers['b'].data_type == 2
    assert bytes(found.initializers['b'].raw) == b'xy'
    assert found.binary_weights == {'new': 'w'}


def test_many_fields_are_refused(monkeypatch):
    monkeypatch.setattr(onnx_file, 'MAX_FIELDS', 1000)
    assert read_onnx(b'\x08\x01' * 1000).metadata == {}
    with pytest.raises(ModelFileError, match='it has more than 1000 fields'):
        read_onnx(b'\x08\x01' * 1001)
