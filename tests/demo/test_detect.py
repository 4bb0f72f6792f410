"""The C++ program against rebnn_mm.deploy: the same boxes to the last bit, however the image is prepared."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from rebnn_mm import native_library
from rebnn_mm.deploy import load, native
from rebnn_mm.deploy.image import read_image
from rebnn_mm.deploy.onnx_file import DIGEST_KEY, seal
from tests.runtime.ort_header import PLACES

ROOT = Path(__file__).parents[2]
ZOO = ROOT / 'rebnn_mm' / 'zoo'
PIXELS = read_image(ZOO / 'BloodImage_00021.jpg')
NORMALISED = {'mean': [123.675, 116.28, 103.53], 'std': [58.395, 57.12, 57.375]}
STEPS = {
    'keep_ratio': None,  # the file's own
    'exact': {
        'resize': {'mode': 'exact', 'size': [283, 241]},
        'channels': 'bgr',
        **NORMALISED,
        'pad': {'divisor': 16, 'value': 7},
    },
    'short_edge': {
        'resize': {'mode': 'short_edge', 'size': 190},
        'crop': [221, 300],
        'channels': 'rgb',
        **NORMALISED,
        'pad': {'divisor': 32, 'value': 0},
    },
    'letterbox': {
        'resize': {'mode': 'keep_ratio', 'size': [300, 300]},
        'letterbox': {'value': [114, 110, 104], 'square': True, 'divisor': 20},
        'channels': 'bgr',
        **NORMALISED,
        'pad': {'divisor': 32, 'value': 0},
    },
}

pytestmark = pytest.mark.slow  # compiling takes eight seconds


@pytest.fixture(scope='module')
def program(tmp_path_factory) -> Path:
    """``demo/detect.cpp`` compiled as docs/deployment.md says, with the ONNX Runtime that Python has."""
    compiler = os.environ.get('CXX') or shutil.which('c++')
    if compiler is None:
        pytest.skip('there is no C++ compiler here')
    folder = tmp_path_factory.mktemp('detect')
    (library,) = Path(onnxruntime.__file__).parent.glob('capi/libonnxruntime.so.*')
    (folder / 'libonnxruntime.so.1').symlink_to(library)  # the name that it asks for
    include = next((place for place in [os.environ.get('REBNN_ORT_HEADER'), *PLACES] if has_headers(place)), None)
    if include is None:
        pytest.skip('no onnxruntime_cxx_api.h here; REBNN_ORT_HEADER names its folder')
    source = folder / 'json.cpp'
    source.write_text('#include <nlohmann/json.hpp>\n')
    if subprocess.run([compiler, '-E', '-o', os.devnull, source], capture_output=True).returncode:
        pytest.skip('no nlohmann/json.hpp here (Debian: apt-get install nlohmann-json3-dev)')
    ours = native_library.LIBRARY_FOLDER
    command = [compiler, '-std=c++17', '-O1', '-Wall', '-Wextra', '-Werror', f'-I{ROOT / "runtime" / "include"}']
    command += [
        '-isystem',
        include,
        ROOT / 'demo' / 'detect.cpp',
        folder / 'libonnxruntime.so.1',
        f'-L{ours}',
        '-lrebnn',
    ]
    command += [f'-Wl,-rpath,{folder}:{ours}', '-o', folder / 'detect']
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / 'detect'


def has_headers(folder: str | None) -> bool:
    return folder is not None and Path(folder, 'onnxruntime_cxx_api.h').is_file()


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def write_ppm(path: Path, pixels: np.ndarray) -> Path:
    height, width = pixels.shape[:2]
    path.write_bytes(b'P6\n# a comment\n%d %d\n255\n' % (width, height) + pixels.tobytes())
    return path


def with_steps(path: Path, steps: dict | None) -> Path:
    """The zoo's detector, which prepares images by these steps."""
    model = onnx.load(ZOO / 'blood-cells.onnx')
    entries = {entry.key: entry.value for entry in model.metadata_props if entry.key != DIGEST_KEY}
    if steps is not None:
        entries['rebnn.preprocess'] = json.dumps(steps)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, entries)
    path.write_bytes(seal(model.SerializeToString()))
    return path


@pytest.mark.parametrize('steps', STEPS)
@pytest.mark.parametrize('pixels', [PIXELS, PIXELS.transpose(1, 0, 2)[:401].copy()], ids=['wide', 'high'])
def test_boxes_are_those_of_python(program, steps, pixels, tmp_path):
    file = with_steps(tmp_path / 'model.onnx', STEPS[steps])
    found = load(file)(pixels).at_least(0.1)
    image = write_ppm(tmp_path / 'image.ppm', pixels)
    done = run(program, file, image, native.library_path(), 0.1)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) >= 5
    assert [row[0] for row in rows] == found.names
    assert np.array_equal(np.array([row[1] for row in rows], np.float32), found.scores)
    assert np.array_equal(np.array([row[2:] for row in rows], np.float32), found.boxes)


def test_what_is_wrong_is_said_in_a_sentence(program, tmp_path):
    whole = write_ppm(tmp_path / 'whole.ppm', PIXELS)
    short = tmp_path / 'short.ppm'
    short.write_bytes(whole.read_bytes()[:-1])
    model, library = ZOO / 'blood-cells.onnx', native.library_path()
    stretched = with_steps(tmp_path / 'stretched.onnx', {'resize': {'mode': 'any', 'size': [1, 1]}, 'channels': 'rgb'})
    for arguments, sentence in [
        ((model, tmp_path / 'none.ppm', library), 'none.ppm cannot be opened.'),
        ((model, short, library), 'short.ppm ends before its last pixel.'),
        ((model, model, library), 'is not a binary PPM (P6)'),
        ((tmp_path / 'none.onnx', whole, library), 'none.onnx'),
        ((model, whole, tmp_path / 'none.so'), 'none.so'),
        ((stretched, whole, library), "resizes by 'any', which this program does not know."),
        ((model, whole, library, 0.3, 0), 'THREADS must be a positive number.'),
    ]:
        done = run(program, *arguments)
        assert done.returncode == 1 and done.stdout == ''
        assert sentence in done.stderr
