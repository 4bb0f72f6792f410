"""Once a session has run, our operators allocate no memory any more: scratch memory is kept and used again."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from rebnn_mm.deploy import native
from rebnn_mm.export.operators import IR_VERSION, OPSET, attach_functions
from tests.runtime.operator_cases import Case, one_node_model
from tests.runtime.roi_align_case import roi_align_model
from tests.runtime.stem_case import stem_constants, stem_model

HERE = Path(__file__).parent
RUNS = 4

# Prints how often the library has allocated: when the session is there, and after each run.
PROGRAM = """
import ctypes, json, os, sys
import numpy as np, onnxruntime

counter, library, model, inputs, threads, runs = sys.argv[1:]
counter = ctypes.CDLL(counter)
counter.allocations.restype = ctypes.c_long
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
options.register_custom_ops_library(library)
assert counter.watch(os.path.basename(library).encode())
session = onnxruntime.InferenceSession(model, options)
feeds = dict(np.load(inputs))
counts = [counter.allocations()]
for _ in range(int(runs)):
    session.run(None, feeds)
    counts.append(counter.allocations())
print(json.dumps(counts))
"""


# The package without its content, which would import torch.
BARE = """
import importlib.util, sys
sys.modules['rebnn_mm'] = importlib.util.module_from_spec(importlib.util.find_spec('rebnn_mm'))
"""

# Prints the largest block of scratch memory so far after a run on each of these numbers of threads; 'bound' leaves the
# number to ONNX Runtime and binds the process to one processor.
LARGEST = f"""{BARE}
import ctypes, json, os, sys
import numpy as np, onnxruntime
from rebnn_mm.deploy.native import library_path, register

counter, model, inputs, *numbers = sys.argv[1:]
counter = ctypes.CDLL(counter)
largest = []
for threads in numbers:
    if threads == 'bound':
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 0 if threads == 'bound' else int(threads)
    register(options)
    assert counter.watch(library_path().name.encode())
    onnxruntime.InferenceSession(model, options).run(None, dict(np.load(inputs)))
    largest.append(counter.largest())
print(json.dumps(largest))
"""


# Prints the process's memory, in bytes, before and after one run with large inputs, and after many with small ones.
HELD = f"""{BARE}
import json, os, sys
import numpy as np, onnxruntime
from rebnn_mm.deploy.native import register

def held():
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

model, large, small, runs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.enable_cpu_mem_arena = False
register(options)
session = onnxruntime.InferenceSession(model, options)
large, small = dict(np.load(large)), dict(np.load(small))
session.run(None, small)
measured = [held()]
session.run(None, large)
measured.append(held())
for _ in range(int(runs)):
    session.run(None, small)
measured.append(held())
print(json.dumps(measured))
"""


@pytest.fixture(scope='module')
def counter(tmp_path_factory) -> Path:
    compiler = os.environ.get('CC') or shutil.which('cc')
    if compiler is None:
        pytest.skip('there is no C compiler here')
    if platform.libc_ver()[0] != 'glibc':
        pytest.skip('counting needs the GNU C library')
    library = tmp_path_factory.mktemp('count') / 'libcount.so'
    command = [compiler, '-O1', '-Wall', '-Werror', '-shared', '-fPIC', HERE / 'count_allocations.c', '-o', library]
    done = subprocess.run([*command, '-ldl'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    needed = subprocess.run(['ldd', native.library_path()], capture_output=True, text=True).stdout
    if 'libstdc++' in needed:
        pytest.skip('this build of the library has the C++ runtime outside, whose allocations are not told apart')
    return library


def counts(counter: Path, folder: Path, model: bytes, feeds: dict[str, np.ndarray], threads: int) -> list[int]:
    (folder / 'model.onnx').write_bytes(model)
    np.savez(folder / 'inputs.npz', **feeds)
    arguments = [native.library_path(), folder / 'model.onnx', folder / 'inputs.npz', threads, RUNS]
    return counted(counter, PROGRAM, *arguments)


def counted(counter: Path, program: str, *arguments: object) -> Any:
    """What a program prints that runs with the counter before the C library."""
    done = subprocess.run(
        [sys.executable, '-c', program, *map(str, [counter, *arguments])],
        capture_output=True,
        text=True,
        env={**os.environ, 'LD_PRELOAD': str(counter), 'PYTHONPATH': str(HERE.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope='module')
def network() -> bytes:
    """A whole packed network, with all that an exported one has: stem, blocks, shortcuts and head."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    from rebnn_mm.export.exporter import export
    from rebnn_mm.export.options import Options
    from rebnn_mm.utils.config_file import get_config_dir
    from tests.export.networks import lively

    init_default_scope('mmpretrain')
    cfg = Config.fromfile(get_config_dir() / 'imagenet/resnet18_rebnn_imagenet.py').model
    two_stages = dict(num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,))
    cfg.backbone.update(base_channels=16, **two_stages)
    cfg.head.update(in_channels=32, num_classes=10, topk=(1,))
    return export(lively(MODELS.build(cfg)), Options(fast=True), size=(64, 64), watch=lambda images: ()).data


@pytest.mark.parametrize('threads', [1, 2])
def test_a_packed_network_allocates_in_its_first_run_only(counter, network, tmp_path, threads):
    image = np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)
    created, first, *later = counts(counter, tmp_path, network, {'image': image}, threads)
    assert created > 0, 'creating kernels allocates, but no call was counted'
    assert first > created, 'the first run takes scratch memory, but no call was counted'
    # With two threads and one image at a time nothing runs next to something else either.
    assert later == [first] * (RUNS - 1)


@pytest.mark.parametrize('op', ['BinaryConv', 'BinaryBlock', 'PackedBinaryConv', 'PackedBinaryBlock', 'BinaryLinear'])
def test_an_operator_allocates_in_its_first_run_only(counter, op, tmp_path):
    size = (3, 21) if op == 'BinaryLinear' else (1, 9, 11)
    case = Case(op, 70, 33, (1, 1) if op == 'BinaryLinear' else (3, 3), size)
    created, first, *later = counts(counter, tmp_path, one_node_model(case).SerializeToString(), case.inputs(), 1)
    assert created > 0 and later == [first] * (RUNS - 1)


def test_a_block_of_two_values_allocates_in_its_first_run_only(counter, tmp_path):
    import torch

    from rebnn_mm.export import apply_passes, pack, trace
    from rebnn_mm.export.passes import FoldNorms, FuseBlocks, SpreadNorms
    from rebnn_mm.models.blocks import BinaryAdaBinBlock
    from tests.export.networks import lively

    conv = dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')
    block = lively(BinaryAdaBinBlock(16, 32, stride=2, conv_cfg=conv))
    x = torch.randn(1, 16, 12, 11, generator=torch.Generator().manual_seed(0))
    model = apply_passes(trace(pack(block).model, {'x': x}, ['y']), SpreadNorms(), FuseBlocks(), FoldNorms())
    created, first, *later = counts(counter, tmp_path, model.SerializeToString(), {'x': x.numpy()}, 1)
    assert first > created > 0 and later == [first] * (RUNS - 1)


def test_the_stem_allocates_in_its_first_run_only(counter, tmp_path):
    image = np.random.default_rng(0).normal(size=(1, 3, 40, 56)).astype(np.float32)
    created, first, *later = counts(
        counter, tmp_path, stem_model(stem_constants(3, 16)).SerializeToString(), {'X': image}, 1
    )
    assert first > created > 0 and later == [first] * (RUNS - 1)


def test_the_alignment_of_regions_allocates_in_its_first_run_only(counter, tmp_path):
    rng = np.random.default_rng(0)
    feeds = {
        'X': rng.normal(size=(1, 20, 30, 16)).astype(np.float32),
        'rois': np.float32([[0, 0, 20, 10], [3, 4, 9, 15]]),
        'batch_indices': np.zeros(2, np.int64),
    }
    model = roi_align_model(output_height=3, output_width=3, spatial_scale=1.0).SerializeToString()
    created, first, *later = counts(counter, tmp_path, model, feeds, 1)
    assert first > created > 0 and later == [first] * (RUNS - 1)


def text_model(heads: int = 8, head_size: int = 64) -> bytes:
    """Attention, whose scratch memory goes with the number of threads and with the square of the length."""
    names = ('Q', 'K', 'V')
    node = helper.make_node('BinaryAttention', [*names, 'mask'], ['Y'], domain='rebnn')
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, heads, head_size]) for name in names]
    inputs.append(helper.make_tensor_value_info('mask', TensorProto.BOOL, [1, 1, 1, None]))
    output = helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)
    graph = helper.make_graph([node], 'attention', inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', OPSET)], ir_version=IR_VERSION)
    return attach_functions(model).SerializeToString()


@pytest.mark.parametrize('operator', ['attention', 'stem'])
def test_scratch_memory_is_planned_for_the_threads_of_the_session(counter, operator, tmp_path):
    rng = np.random.default_rng(0)
    if operator == 'stem':
        model = stem_model(stem_constants(3, 16)).SerializeToString()
        feeds = {'X': rng.normal(size=(1, 3, 224, 224)).astype(np.float32)}
    else:
        model = text_model()
        feeds = {name: rng.normal(size=(1, 96, 8, 64)).astype(np.float32) for name in 'QKV'}
        feeds['mask'] = np.ones((1, 1, 1, 96), bool)
    (tmp_path / 'model.onnx').write_bytes(model)
    np.savez(tmp_path / 'inputs.npz', **feeds)
    files = tmp_path / 'model.onnx', tmp_path / 'inputs.npz'
    if operator == 'attention':  # each thread has its own part, and the head of the block comes on top
        one, two, four = counted(counter, LARGEST, *files, 1, 2, 4)
        assert 0 < one < two and four - two == 2 * (two - one)
    else:
        one, four = counted(counter, LARGEST, *files, 1, 4)
        assert 0 < one < four and counted(counter, LARGEST, *files, 'bound') == [one]


@pytest.mark.skipif(not Path('/proc/self/statm').exists(), reason='this system does not say how much memory is held')
def test_scratch_memory_shrinks_after_a_large_input(tmp_path):
    (tmp_path / 'model.onnx').write_bytes(text_model(heads=1, head_size=8))
    rng, scratch = np.random.default_rng(0), 10_000**2 // 8
    for name, length in (('large', 10_000), ('small', 20)):
        feeds = {name: rng.normal(size=(1, length, 1, 8)).astype(np.float32) for name in 'QKV'}
        np.savez(tmp_path / f'{name}.npz', **feeds, mask=np.ones((1, 1, 1, length), bool))
    program = [sys.executable, '-c', HELD, 'model.onnx', 'large.npz', 'small.npz', '2100']
    environment = {**os.environ, 'PYTHONPATH': str(HERE.parents[1])}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before, large, after = json.loads(done.stdout)
    assert large - before > 0.9 * scratch, 'the large input took no scratch memory'
    assert after - before < 0.3 * scratch


@pytest.mark.parametrize('text', ['0', '-1', '1025', '1.5', 'two', '12345678901234567890'])
def test_a_wrong_number_of_threads_is_refused(text):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(native.THREADS, text)
    with pytest.raises(Exception, match=r'entry rebnn.threads must be a whole number from 1 to 1024'):
        options.register_custom_ops_library(str(native.library_path()))
