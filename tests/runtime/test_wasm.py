"""librebnn as WebAssembly in node: its test programs, and packed files with the bits of plain C++ on this machine."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from rebnn_mm.deploy import load
from rebnn_mm.deploy.image import as_image
from rebnn_mm.deploy.onnx_file import remove_seal, seal
from rebnn_mm.deploy.preprocess import Preprocess
from rebnn_mm.deploy.zoo import zoo_path
from tests.runtime.test_model import DETECTORS
from tests.scripts import ROOT

CLASSIFIER = zoo_path('zoo:cifar10-resnet20')
NODE = shutil.which('node')
BUILD = ROOT / 'build' / 'wasm'
# The folder of the module, a file, an image's pixels and their sizes to JSON of what the JavaScript says of them.
DRIVER = """
import { readFileSync } from 'node:fs';
const [folder, file, pixels, width, height, size] = process.argv.slice(2);
const { loadRuntime } = await import(`${folder}/rebnn.js`);
const reals = (values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('hex');
try {
  const rebnn = await loadRuntime();
  const model = rebnn.load(readFileSync(file), JSON.parse(size)?.length ? JSON.parse(size) : undefined);
  const image = { data: readFileSync(pixels), width: Number(width), height: Number(height) };
  const { input, ...prepared } = model.prepare(image);
  const answer = { isa: rebnn.isa, ...prepared, input: reals(input) };
  if (size !== 'null') {
    answer.found = model.run(image);
    answer.raw = model.runPrepared({ input, ...prepared });
    model.free();
  }
  console.log(JSON.stringify(answer));
} catch (error) {
  console.log(JSON.stringify({ refused: error.message }));
}
"""
# A prepared image in a file by librebnn on this machine, with the kernels that REBNN_ISA names.
NATIVE = """
import sys
import numpy as np
from tests.runtime.test_model import detect, run
data, image = open(sys.argv[1], 'rb').read(), np.load(sys.argv[2])
valid = tuple(map(int, sys.argv[3:]))
found = detect(data, image, valid) if valid else [run(data, image)]
print(*(array.tobytes().hex() for array in found))
"""


def build_module() -> Path:
    """The folder of rebnn.wasm and rebnn.js; the test programs lie in build/wasm."""
    if importlib.util.find_spec('ziglang') is None:
        pytest.skip('needs ziglang, which compiles for WebAssembly')
    environment = {**os.environ, 'REBNN_TESTS': '1', 'PYTHON': sys.executable}
    command = ['bash', 'tools/build_wasm.sh', BUILD / 'out']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.strip()).parent


@pytest.fixture(scope='module')
def module() -> Path:
    if NODE is None:
        pytest.skip('needs node')
    return build_module()


def in_node(module: Path, folder: Path, data: bytes, image: np.ndarray, size: list[int] | None) -> dict:
    """What the driver says of a file and an image: with None as size it is only prepared, with [] as the file says."""
    (folder / 'driver.mjs').write_text(DRIVER)
    (folder / 'model.onnx').write_bytes(data)
    (folder / 'pixels').write_bytes(image.tobytes())
    height, width = image.shape[:2]
    command = [NODE, 'driver.mjs', module, 'model.onnx', 'pixels', str(width), str(height), json.dumps(size)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_plain_cpp(folder: Path, file: Path, image: np.ndarray, *valid_size: int) -> list[str]:
    """The bytes of what librebnn finds in a prepared image, in hexadecimal."""
    np.save(folder / 'image.npy', image)
    command = [sys.executable, '-c', NATIVE, file, folder / 'image.npy', *map(str, valid_size)]
    environment = {**os.environ, 'REBNN_ISA': 'portable', 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ('program', 'says'),
    [
        (['test_sums', '20'], '990 convolutions .* every sum is equal'),
        (['test_steps', '10'], 'every bit is equal'),
        (['test_stem'], '18 cases'),
        (['test_arguments'], 'every wrong argument'),
        (['test_image', '300', '1'], '300 images, every number is equal'),
        (['test_regions', '100', '1'], '100 cases'),
        (['fuzz_conv', '2000', '1'], '2000 cases'),
        (['test_text', '10', '50', '1'], 'every number is equal'),
        (['test_model', str(CLASSIFIER), '200', '1'], 'damaged files refused; of 200 changed ones [1-9]'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else '',
)
def test_a_test_program_passes(module, program, says):
    command = [NODE, ROOT / 'runtime/tests/run_wasm.mjs', BUILD / 'tests' / program[0], *program[1:]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith('instruction set: simd128\n')
    assert re.search(says, done.stdout)


def test_the_module_imports_nothing(module):
    script = (
        "WebAssembly.compile(require('fs').readFileSync('rebnn.wasm'))"
        '.then((code) => console.log(WebAssembly.Module.imports(code).length))'
    )
    done = subprocess.run([NODE, '-e', script], cwd=module, capture_output=True, text=True)
    assert done.stdout == '0\n', done.stderr


def test_the_zoo_classifier_has_the_bits_of_plain_cpp(module, tmp_path):
    image = as_image('zoo:horse.png')
    said = in_node(module, tmp_path, CLASSIFIER.read_bytes(), image, [32, 32])
    model = load(CLASSIFIER, size=(32, 32))
    prepared = model.prepare(image)
    assert said['isa'] == 'simd128' and said['input'] == prepared.image.tobytes().hex()

    (expected,) = in_plain_cpp(tmp_path, CLASSIFIER, prepared.image)
    scores = np.zeros(10, np.float32)
    for one in said['raw']:
        scores[one['label']] = one['score']
    assert scores.tobytes().hex() == expected
    (best,) = model(image, top=1)
    assert (said['found'][0]['label'], said['found'][0]['name']) == (best.number, best.name) == (7, 'horse')


@pytest.mark.parametrize('name', DETECTORS)
def test_the_zoo_detectors_have_the_bits_of_plain_cpp(module, name, tmp_path):
    path, image = zoo_path(name), as_image(f'zoo:{DETECTORS[name]}')
    said = in_node(module, tmp_path, path.read_bytes(), image, [])
    prepared = load(path).prepare(image)
    assert said['input'] == prepared.image.tobytes().hex()

    boxes, scores, labels = in_plain_cpp(tmp_path, path, prepared.image, *prepared.valid_size)
    found = said['raw']
    assert found
    assert np.array([one['box'] for one in found], np.float32).tobytes().hex() == boxes
    assert np.array([one['score'] for one in found], np.float32).tobytes().hex() == scores
    assert np.array([one['label'] for one in found], np.int64).tobytes().hex() == labels
    raw = np.array([one['box'] for one in found], np.float32)
    np.testing.assert_allclose([one['box'] for one in said['found']], prepared.to_original(raw), rtol=1e-5, atol=1e-3)


STEPS = [
    {'channels': 'rgb', 'resize': {'mode': 'exact', 'size': [13, 40]}},
    {'channels': 'bgr', 'resize': {'mode': 'short_edge', 'size': 20}, 'crop': [17, 19]},
    {'channels': 'rgb', 'crop': [24, 100], 'mean': [120.5, 3, 255], 'std': [58.4, 0.1, 1]},
    {'channels': 'bgr', 'resize': {'mode': 'keep_ratio', 'size': [50, 31]}, 'pad': {'divisor': 32, 'value': 0.1}},
    {
        'channels': 'rgb',
        'resize': {'mode': 'keep_ratio', 'size': [60, 60]},
        'letterbox': {'value': [114, 0, 7], 'size': [61, 20], 'square': True, 'divisor': 5},
        'mean': [120.5, 3, 255],
        'std': [58.4, 0.1, 1],
        'pad': {'divisor': 32, 'value': -1},
    },
]


def with_steps(steps: object) -> bytes:
    """The classifier with other steps, sealed again."""
    model = onnx.load_from_string(remove_seal(CLASSIFIER.read_bytes()))
    for entry in model.metadata_props:
        if entry.key == 'rebnn.preprocess':
            entry.value = json.dumps(steps)
    return seal(model.SerializeToString())


@pytest.mark.parametrize('steps', STEPS, ids=['exact', 'short', 'crop', 'ratio', 'letterbox'])
@pytest.mark.parametrize(('channels', 'size'), [(3, (37, 52)), (4, (64, 61))], ids=['rgb', 'rgba'])
def test_images_are_prepared_as_python_does(module, steps, channels, size, tmp_path):
    image = np.random.default_rng(3).integers(0, 256, (*size, channels), np.uint8)
    said = in_node(module, tmp_path, with_steps(steps), image, None)
    prepared = Preprocess.parse(json.dumps(steps))(image)
    assert tuple(said['size']) == prepared.image.shape[2:] and tuple(said['valid']) == prepared.valid_size
    assert said['scale'][::-1] == list(prepared.scale) and said['first'][::-1] == list(prepared.offset)
    assert said['input'] == prepared.image.tobytes().hex()


@pytest.mark.parametrize(
    ('steps', 'sentence'),
    [
        ({'channels': 'rgb'}, 'does not say how large its images are'),
        ({'channels': 'rgb', 'crop': [8, 8], 'blur': 1}, 'blur in rebnn.preprocess'),
        ({'channels': 'rgb', 'crop': [8, -1]}, 'crop in rebnn.preprocess'),
        ({'channels': 'cmyk', 'crop': [8, 8]}, 'channels in rebnn.preprocess'),
        ({'channels': 'rgb', 'crop': [8, 8], 'mean': [1, 2, 3]}, 'mean or std in rebnn.preprocess'),
        (
            {'channels': 'rgb', 'resize': {'mode': 'exact', 'size': [1 << 20, 1 << 20]}},
            'becomes too small or too large',
        ),
    ],
    ids=['no_size', 'unknown', 'negative', 'order', 'half', 'huge'],
)
def test_steps_that_the_format_does_not_have_are_refused(module, steps, sentence, tmp_path):
    said = in_node(module, tmp_path, with_steps(steps), np.zeros((9, 9, 3), np.uint8), None)
    assert sentence in said['refused']


def damaged(data: bytes) -> bytes:
    at = data.index(b'backbone.layer1') + 5
    return data[:at] + b'?' + data[at + 1 :]


def count_beyond_32_bits(data: bytes) -> bytes:
    """Integers in a constant, and one whose wrong fields made the sum of all sizes 0."""
    model = onnx.load_from_string(remove_seal(data))
    stored = onnx.TensorProto(
        name='stored', dims=[4 << 20], data_type=onnx.TensorProto.UINT8, int32_data=bytes(4 << 20)
    )
    other = onnx.TensorProto(name='other', raw_data=bytes(1 << 20)).SerializeToString() + b'\x28\x00' * (4096 - 4)
    graph = model.graph.SerializeToString()
    for tensor in (stored.SerializeToString(), other):
        graph += b'\x2a' + varint(len(tensor)) + tensor
    model.ClearField('graph')
    return seal(model.SerializeToString() + b'\x3a' + varint(len(graph)) + graph)


def varint(number: int) -> bytes:
    rest = b'' if number < 128 else varint(number >> 7)
    return bytes([number & 127 | 128 * bool(rest)]) + rest


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (count_beyond_32_bits, 'rebnn_model_load: .* stored twice'),
        (lambda data: data[: len(data) // 2], 'not a whole ONNX file'),
        (lambda data: b'', 'not a packed model'),
        (lambda data: b'GIF89a', 'ONNX file'),
        (damaged, 'rebnn_model_load: .*'),
    ],
    ids=['wrapped', 'half', 'empty', 'other', 'damaged'],
)
def test_other_files_are_refused(module, change, sentence, tmp_path):
    said = in_node(module, tmp_path, change(CLASSIFIER.read_bytes()), as_image('zoo:horse.png'), [32, 32])
    assert re.search(sentence, said['refused'])


def test_without_zig_the_build_says_what_is_missing(tmp_path):
    without = tmp_path / 'python'
    without.write_text('#!/bin/sh\nexit 1\n')
    without.chmod(0o755)
    environment = {**os.environ, 'PYTHON': str(without)}
    command = ['bash', 'tools/build_wasm.sh', tmp_path / 'out']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and f'needs ziglang for {without}' in done.stderr
    assert not (tmp_path / 'out').exists()
