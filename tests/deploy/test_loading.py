"""A file is checked, its task decides what comes back, and ONNX Runtime keeps the written order of operations."""

import concurrent.futures
import copy
import io
import pickle
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy import Classifier, Detector, ModelFileError, RawModel, load

from . import models


@pytest.mark.parametrize('make', [models.classifier, models.detector, models.raw])
def test_the_task_decides_the_class(tmp_path, make):
    path = models.write(make(), tmp_path / 'model.onnx')
    expected = {models.classifier: Classifier, models.detector: Detector, models.raw: RawModel}[make]
    for given in (path, str(path)):
        assert type(load(given, use_library=False)) is expected


@pytest.mark.parametrize('blocked', [False, True])
def test_the_file_says_whether_maps_may_be_laid_out_in_blocks(tmp_path, blocked):
    proto = models.classifier()
    entries = {'rebnn.real_layout': 'blocked'} if blocked else {}
    path = models.write(models.model(proto.graph, 'classification', **entries), tmp_path / 'model.onnx')
    level = load(path, use_library=False).session.get_session_options().graph_optimization_level
    levels = onnxruntime.GraphOptimizationLevel
    assert level == (levels.ORT_ENABLE_ALL if blocked else levels.ORT_ENABLE_EXTENDED)


def test_a_missing_library_is_a_warning(files, image, monkeypatch):
    monkeypatch.setenv('REBNN_ORT_LIBRARY', '/nowhere/librebnn_ort.so')
    with pytest.warns(RuntimeWarning, match=r'^No compiled kernels, so this runs slower: .*/nowhere/librebnn_ort.so'):
        model = load(files['raw'])
    expected = load(files['raw'], use_library=False)(image)
    assert np.array_equal(model(image)['maps'], expected['maps'])


@pytest.mark.usefixtures('library')
@pytest.mark.parametrize('name', ['classifier', 'detector', 'raw'])
def test_the_library_does_not_change_the_answer(files, image, name):
    fast, slow = (load(files[name], use_library=use_library) for use_library in (True, False))
    for ours, theirs in zip(fast.run(fast.prepare(image)), slow.run(slow.prepare(image)), strict=True):
        assert np.array_equal(ours, theirs)


def test_a_model_without_binary_layers_needs_no_library(tmp_path, monkeypatch):
    monkeypatch.setenv('REBNN_ORT_LIBRARY', '/nowhere/librebnn_ort.so')
    proto = models.raw()
    del proto.graph.node[2:]
    proto.graph.output[0].name = 'normed'
    proto.graph.output[0].type.tensor_type.ClearField('shape')
    path = models.write(models.model(proto.graph, 'raw', **{'rebnn.outputs': '["normed"]'}), tmp_path / 'model.onnx')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        load(path)


def test_no_warning_where_the_library_is_not_wanted(files):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        load(files['raw'], use_library=False)


def binary_layer(seed):
    """image -> one binary convolution, and its parameters."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (33, 3, 3, 3))
    nodes, initializers = models.binary_conv('layer', 'image', 'maps', signs, rng)
    inputs = [helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])]
    outputs = [helper.make_tensor_value_info('maps', TensorProto.FLOAT, ['N', 33, 'H', 'W'])]
    graph = helper.make_graph(nodes, 'layer', inputs, outputs, initializers)
    values = {tensor.name.split('.')[1]: numpy_helper.to_array(tensor) for tensor in initializers}
    return models.model(graph, 'raw', **{'rebnn.outputs': '["maps"]'}), signs, values


def test_the_written_order_of_operations_is_kept(tmp_path, image):
    """Folding the scale into the weights, as ONNX Runtime does by default, would change the last bits."""
    proto, signs, values = binary_layer(3)
    model = load(models.write(proto, tmp_path / 'layer.onnx'), use_library=False)
    x = model.prepare(image).image
    negative = (x + values['shift'][:, None, None]) < 0
    padded = np.pad(np.where(negative, -1, 1), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    sums = np.einsum('nchwij,ocij->nohw', windows, signs).astype(np.float32)
    expected = sums * values['scale'][:, None, None] + values['bias'][:, None, None]
    assert np.array_equal(model(image)['maps'], expected)


def test_threads_do_not_change_the_answer(files, image):
    one, two = (load(files['raw'], threads=threads, use_library=False)(image)['maps'] for threads in (1, 2))
    assert np.array_equal(one, two)


def several_threads_share(model):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*rng.integers(20, 90, 2), 3), dtype=np.uint8) for _ in range(40)]
    alone = [model(image).scores for image in images]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = [found.scores for found in pool.map(model, images)]
    assert len({scores.tobytes() for scores in alone}) > 30
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_several_threads_share_one_model(files):
    several_threads_share(load(files['detector'], use_library=False))


@pytest.mark.usefixtures('library')
def test_several_threads_share_one_model_and_the_library(files):
    several_threads_share(load(files['detector'], threads=2))


@pytest.mark.parametrize('threads', [0, -1, 1025, 1.0, True, '2'])
def test_threads_that_cannot_be(files, threads):
    with pytest.raises(ValueError, match='threads must be a whole number from 1 to 1024'):
        load(files['raw'], threads=threads)


def refused(path):
    with pytest.raises(ModelFileError) as caught:
        load(path, use_library=False)
    text = str(caught.value)
    assert '\n' not in text and str(path) in text
    return text


def test_no_file(tmp_path):
    assert 'no packed model at' in refused(tmp_path / 'nowhere.onnx')
    assert 'is a folder; name the packed model in it' in refused(tmp_path)


@pytest.mark.parametrize('content', [b'', b'\x00', b'not a model at all', bytes(1000)])
def test_other_files(tmp_path, content):
    path = tmp_path / 'model.onnx'
    path.write_bytes(content)
    text = refused(path)
    assert 'it is not a packed model' in text or 'it is damaged' in text


def test_an_ordinary_onnx_model(tmp_path):
    proto = models.raw()
    del proto.metadata_props[:]
    assert 'it is not a packed model: its metadata has no rebnn.format' in refused(
        models.write(proto, tmp_path / 'a.onnx')
    )


def test_a_damaged_file(tmp_path, files):
    data = bytearray(files['raw'].read_bytes())
    data[data.index(b'norm.weight') + 20] ^= 4
    path = tmp_path / 'model.onnx'
    path.write_bytes(data)
    assert 'it is damaged: its SHA-256 is not that of rebnn.file_sha256' in refused(path)


def test_a_file_without_a_seal(tmp_path):
    path = tmp_path / 'model.onnx'
    path.write_bytes(models.raw().SerializeToString())
    assert 'it is damaged: its last entry, rebnn.file_sha256, is missing' in refused(path)


def test_a_weight_that_was_changed_before_the_seal(tmp_path):
    proto = models.raw()
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == 'layer.weight')
    weight.raw_data = bytes([weight.raw_data[0] ^ 1]) + weight.raw_data[1:]
    assert "the packed weight 'layer.weight' is damaged" in refused(models.write(proto, tmp_path / 'model.onnx'))


def test_a_graph_that_onnx_runtime_refuses(tmp_path):
    proto = models.raw()
    proto.graph.node[0].input[0] = 'picture'
    text = refused(models.write(proto, tmp_path / 'model.onnx'))
    assert 'ONNX Runtime does not accept it (' in text and 'picture' in text


@pytest.mark.parametrize('make', [models.classifier, models.detector])
def test_other_inputs(tmp_path, make):
    proto = make()
    proto.graph.input[0].name = 'picture'
    proto.graph.node[0].input[0] = 'picture'
    assert 'model has the inputs' in refused(models.write(proto, tmp_path / 'model.onnx'))


@pytest.mark.parametrize('shape', [None, [], [3, 40, 40], [1, 1, 3, 40, 40]])
def test_an_image_of_other_dimensions(tmp_path, shape):
    image = helper.make_tensor_value_info('image', TensorProto.FLOAT, shape)
    found = helper.make_tensor_value_info('mean', TensorProto.FLOAT, [])
    graph = helper.make_graph([helper.make_node('ReduceMean', ['image'], ['mean'], keepdims=0)], '', [image], [found])
    proto = models.model(graph, 'raw', **{'rebnn.outputs': '["mean"]'})
    text = refused(models.write(proto, tmp_path / 'model.onnx'))
    assert f'its input image has {len(shape or ())} dimensions instead of 4' in text


def test_an_output_that_is_no_tensor_of_numbers(tmp_path):
    image = helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])
    texts = helper.make_tensor_value_info('texts', TensorProto.STRING, ['N', 3, 'H', 'W'])
    scores = helper.make_tensor_sequence_value_info('scores', TensorProto.FLOAT, None)
    to_text = helper.make_node('Cast', ['image'], ['texts'], to=TensorProto.STRING)
    to_list = helper.make_node('SequenceConstruct', ['image'], ['scores'])
    graph = helper.make_graph([to_text, to_list], '', [image], [texts, scores])
    for proto in (models.model(graph, 'raw', **{'rebnn.outputs': '["texts"]'}), models.model(graph, 'classification')):
        assert 'is not a tensor of numbers' in refused(models.write(proto, tmp_path / 'model.onnx'))


def test_scores_without_dimensions(tmp_path, image):
    proto = models.classifier()
    proto.graph.node[-1].CopyFrom(helper.make_node('ReduceMean', ['logits'], ['scores'], keepdims=0))
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    nameless = models.model(proto.graph, 'classification', **{'rebnn.classes': '[]'})
    model = load(models.write(nameless, tmp_path / 'model.onnx'), use_library=False)
    with pytest.raises(ModelFileError, match=r'it gives float32 \[\] as the scores'):
        model(image)


def test_a_missing_output(tmp_path):
    proto = models.model(models.raw().graph, 'raw', **{'rebnn.outputs': '["maps", "more"]'})
    assert "it has no output 'more'" in refused(models.write(proto, tmp_path / 'model.onnx'))


def test_the_file_may_be_changed_or_removed_afterwards(tmp_path, image):
    path = models.write(models.raw(), tmp_path / 'model.onnx')
    model = load(path, use_library=False)
    before = model(image)['maps']
    path.unlink()
    assert np.array_equal(model(image)['maps'], before)


def test_a_relative_path_is_no_way_to_another_file(tmp_path, monkeypatch):
    """ONNX Runtime would read the file from the working directory."""
    (tmp_path / 'weights.bin').write_bytes(bytes(12 * 27 * 4))
    monkeypatch.chdir(tmp_path)
    proto = models.raw()
    stem = proto.graph.initializer[0]
    stem.ClearField('raw_data')
    stem.data_location = TensorProto.EXTERNAL
    stem.external_data.add(key='location', value='weights.bin')
    path = tmp_path / 'model.onnx'
    path.write_bytes(proto.SerializeToString())
    assert onnx.load(path).graph.initializer[0].raw_data == bytes(12 * 27 * 4)
    assert 'it keeps a tensor in another file' in refused(path)


def test_the_golden_file_of_the_exporter():
    """Written by the exporter and kept in the repository, so that no later reader refuses an old file."""
    model = load(Path(__file__).parents[1] / 'export/data/golden.onnx', use_library=False, size=(32, 32))
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    best = model(image)[0]
    assert (best.number, best.name) == (4, 'e')
    assert best.score == pytest.approx(0.41600096, abs=1e-6)


@pytest.mark.parametrize('kind', ['bytes', 'memoryview', 'BytesIO', 'open'])
def test_a_model_that_is_no_path(files, image, kind):
    data = files['classifier'].read_bytes()
    with files['classifier'].open('rb') as file:
        given = {'bytes': data, 'memoryview': memoryview(data), 'BytesIO': io.BytesIO(data), 'open': file}[kind]
        model = load(given, use_library=False)
    assert np.array_equal(model.scores(image), load(files['classifier'], use_library=False).scores(image))
    assert model.name == f'what was given as {len(data)} bytes'
    with pytest.raises(ModelFileError, match=r'^what was given as 9 bytes: it is '):
        load(b'no model!')
    with pytest.raises(ModelFileError, match='open for bytes'):
        load(io.StringIO('text'))


@pytest.mark.parametrize('by_path', [True, False])
@pytest.mark.parametrize('how', [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles(files, image, tmp_path, monkeypatch, by_path, how):
    monkeypatch.chdir(files['detector'].parent)
    model = load('detector.onnx' if by_path else files['detector'].read_bytes(), threads=2, use_library=False)
    monkeypatch.chdir(tmp_path)
    again = how(model)
    assert type(again) is Detector and (again.threads, again.kernels) == (2, False)
    assert np.array_equal(again(image).boxes, model(image).boxes)
    assert (len(pickle.dumps(model)) < 1000) == by_path


@pytest.mark.skipif('AzureExecutionProvider' not in onnxruntime.get_available_providers(), reason='a build without')
@pytest.mark.parametrize('name', ['AzureExecutionProvider', 'azure'])
def test_another_execution_provider(files, image, name):
    """It is in PyPI's builds, and takes no operator of ours."""
    model = load(files['detector'], use_library=False, providers=[name])
    assert model.session.get_providers() == ['AzureExecutionProvider', 'CPUExecutionProvider']
    assert np.array_equal(model(image).boxes, load(files['detector'], use_library=False)(image).boxes)
    assert copy.copy(model).session.get_providers() == model.session.get_providers()


def test_an_execution_provider_that_is_not_there(files):
    assert load(files['detector'], use_library=False).session.get_providers() == ['CPUExecutionProvider']
    with pytest.raises(
        ModelFileError, match=r"onnx: this ONNX Runtime has no provider 'TPU', only .*CPUExecutionProv"
    ):
        load(files['detector'], use_library=False, providers=['TPU'])
