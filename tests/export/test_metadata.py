import hashlib
import json
import os

from rebnn_mm.deploy.metadata import Metadata
from rebnn_mm.export.metadata import set_metadata
from tests.export.graphs import parsed

GRAPH = """g (float[1, 8] x) => (float[1, 2] features)
<uint8[2, 1] w = {5, 250}, float[8] s = {0, 0, 0, 0, 0, 0, 0, 0}, float[2] a = {1, 1}, float[2] b = {0, 0}>
{ features = rebnn.BinaryLinear <channels = 8> (x, w, s, a, b) }"""


def test_the_deploy_package_reads_what_is_written():
    model = parsed(GRAPH)
    preprocess = {'channels': 'bgr', 'crop': [8, 9]}
    set_metadata(model, 'raw', config='a.py', classes=['Katze', 'Löwe'], preprocess=preprocess)
    set_metadata(model, 'raw', config='b.py', classes=['Katze', 'Löwe'], preprocess=preprocess)
    read = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
    assert (read.task, read.config, read.classes, read.outputs) == ('raw', 'b.py', ('Katze', 'Löwe'), ('features',))
    assert read.preprocess.channels == 'bgr' and read.preprocess.crop == (8, 9)
    assert read.packed_sha256 == {'w': hashlib.sha256(bytes([5, 250])).hexdigest()}


def test_outputs_are_named_for_raw_files_only():
    model = parsed(GRAPH)
    set_metadata(model, 'classification')
    entries = {entry.key: entry.value for entry in model.metadata_props}
    assert 'rebnn.outputs' not in entries and json.loads(entries['rebnn.classes']) == []


def test_names_of_files_that_are_no_unicode_are_written_as_they_are_read():
    """Of a config, and of the folders that classes are named after."""
    model, name = parsed(GRAPH), os.fsdecode(b'L\xf6we')
    set_metadata(model, 'raw', config=f'{name}.py', classes=[name])
    read = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
    assert (read.config, read.classes) == ('L\ufffdwe.py', ('L\ufffdwe',))
