"""A file that a tool for ONNX files has changed gets a seal again, if what must stay has stayed."""

import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from rebnn_mm.deploy import ModelFileError, load
from rebnn_mm.deploy.onnx_file import remove_seal, seal
from rebnn_mm.deploy.reseal import main

from . import models


@pytest.fixture
def changed(files, tmp_path):
    """A classifier as a tool writes it, which also renames its graph."""
    proto = ir.to_proto(ir.from_proto(onnx.load(files['classifier'])))
    proto.graph.name = 'changed'
    path = tmp_path / 'changed.onnx'
    onnx.save(proto, path)
    with pytest.raises(ModelFileError, match='rebnn seal checks it and seals it again'):
        load(path)
    return path


def test_a_changed_file_is_sealed_again(changed, files, image, tmp_path, capsys):
    main([str(changed), '-o', str(tmp_path / 'sealed.onnx')])
    assert capsys.readouterr().out == f'sealed: {tmp_path / "sealed.onnx"}\n'
    sealed, before = (load(path, use_library=False) for path in (tmp_path / 'sealed.onnx', files['classifier']))
    assert np.array_equal(sealed.scores(image), before.scores(image))
    main([str(changed)])
    assert changed.read_bytes() == (tmp_path / 'sealed.onnx').read_bytes()


def test_a_changed_weight_is_not_sealed(changed, capsys):
    proto = onnx.load(changed)
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == 'layer.weight')
    weight.raw_data = bytes([weight.raw_data[0] ^ 1]) + weight.raw_data[1:]
    onnx.save(proto, changed)
    before = changed.read_bytes()
    with pytest.raises(SystemExit):
        main([str(changed)])
    assert re.search(r"changed.onnx: .*the packed weight 'layer.weight' is damaged", capsys.readouterr().err)
    assert changed.read_bytes() == before


@pytest.mark.parametrize('content', [None, b'no model', onnx.ModelProto().SerializeToString()])
def test_what_is_no_packed_model_is_not_sealed(tmp_path, content, capsys):
    path = tmp_path / 'model.onnx'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit):
        main([str(path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line


def test_the_entry_is_found_wherever_it_is():
    data = models.raw().SerializeToString()
    proto = onnx.ModelProto.FromString(seal(data))
    proto.metadata_props.insert(0, proto.metadata_props.pop())
    assert remove_seal(proto.SerializeToString()) == data == remove_seal(data)
