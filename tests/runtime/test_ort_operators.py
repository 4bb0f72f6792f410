"""Every operator in a model of one node against NumPy, bit for bit, and every mistake answered by a sentence."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from rebnn_mm.deploy import native
from tests.runtime.operator_cases import CLIP, VECTORS, Case, one_node_model, same_bits
from tests.scripts import run_code

BLOCKS = ['BinaryBlock', 'PackedBinaryBlock', 'BinaryClipBlock', 'PackedBinaryClipBlock']
CONVOLUTIONS = ['BinaryConv', 'PackedBinaryConv', *BLOCKS]
REAL_INPUT = ['BinaryConv', 'BinaryBlock', 'BinaryClipBlock']


def session(case: Case, threads: int = 1, **changes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    native.register(options)
    model = one_node_model(case, **changes).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])


def is_exact(case: Case, running: onnxruntime.InferenceSession, size: tuple[int, ...] | None = None) -> bool:
    arrays = case.inputs(size)
    got, wanted = running.run(None, arrays), case.expected(arrays)
    return len(got) == len(wanted) and all(same_bits(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
@pytest.mark.parametrize('op', CONVOLUTIONS)
def test_equals_numpy_bit_for_bit(op, layout):
    settings = [
        dict(channels=1, outputs=1, kernel=(1, 1)),
        dict(channels=3, outputs=5, pads=(1, 1, 1, 1)),
        dict(channels=33, outputs=17, kernel=(5, 3), strides=(2, 1), pads=(2, 0, 1, 3), pad_value=1),
        dict(channels=64, outputs=64, pads=(1, 1, 1, 1), strides=(2, 2), size=(1, 9, 14)),
        dict(channels=31, outputs=9, dilations=(3, 6), pads=(6, 6, 6, 6), pad_value=-1, size=(1, 1, 4)),
        dict(channels=130, outputs=40, size=(3, 4, 3), pads=(0, 1, 1, 0)),
        dict(channels=10, outputs=100, size=(2, 30, 28), pads=(1, 1, 1, 1)),  # more than caches near a core hold
    ]
    for i, setting in enumerate(settings):
        case = Case(op, layout=layout, seed=i, **setting)
        assert is_exact(case, session(case)), case


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
@pytest.mark.parametrize('op', REAL_INPUT)
def test_groups(op, layout):
    for channels, group in [(1, 6), (5, 3), (8, 2)]:
        case = Case(op, channels, 2 * group, group=group, pads=(1, 1, 1, 1), layout=layout)
        assert is_exact(case, session(case)), case


@pytest.mark.parametrize('size', [(7,), (1,), (40,), (2, 3), (), (0,), (2, 0), (2, 3, 4)])
def test_linear_layers_of_any_rank(size):
    case = Case('BinaryLinear', 67, 21, kernel=(1, 1), size=size)
    assert is_exact(case, session(case))


@pytest.mark.parametrize('op', BLOCKS)
def test_packed_output_may_be_left_out(op):
    with_bits = Case(op, 12, 20, pads=(1, 1, 1, 1))
    without = replace(with_bits, bits=False)
    assert len(session(with_bits).get_outputs()) == 2
    assert len(session(without).get_outputs()) == 1
    assert is_exact(without, session(without))


@pytest.mark.parametrize('op', BLOCKS)
def test_one_zero_stands_for_no_residual(op):
    case = Case(op, 12, 20, pads=(1, 1, 1, 1))
    arrays = case.inputs()
    arrays['R'] = np.zeros_like(arrays['R'])
    without = {**arrays, 'R': np.zeros((1, 1, 1, 1), np.float32)}
    running = session(case)
    for y, expected in zip(running.run(None, without), case.expected(arrays), strict=True):
        assert np.array_equal(y, expected)
    with pytest.raises(Exception, match=re.escape('R has the shape [1, 1, 1, 1]; it must be that of Y')):
        running.run(None, {**without, 'R': np.ones((1, 1, 1, 1), np.float32)})


def steps_that_may_do_nothing(case: Case, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The operator's vectors, each random, or an identity, or nearly one."""
    constants = {}
    for name, array in case.inputs().items():
        if name in VECTORS[case.op] and name != 'R' and rng.random() < 0.9:
            one = name in ('scale', 'mul', 'slope')
            same = [np.ones_like(array), -np.ones_like(array)] if one else [0 * abs(array), -0.0 * abs(array)]
            nearly = same[0].copy()
            nearly[-1] = rng.choice([-0.0, 0.0, 1.0, -1.0, np.nan, 1e-42])
            constants[name] = [array, *same, *same, nearly][rng.integers(6)]
    return constants


@pytest.mark.parametrize('op', [*CONVOLUTIONS, 'BinaryLinear'])
def test_constant_steps_give_the_same_bits_and_those_that_do_nothing_too(op):
    rng = np.random.default_rng(0)
    sizes = dict(kernel=(1, 1), size=(30,)) if op == 'BinaryLinear' else dict(kernel=(3, 1), pads=(1, 1, 1, 1))
    case = Case(op, 2, 5, **sizes)  # few products, so that sums are often 0
    for _ in range(25):
        constants = steps_that_may_do_nothing(case, rng)
        arrays = {**case.inputs(), **constants}
        if 'R' in arrays:
            arrays['R'] = rng.choice(np.float32([0.0, -0.0, 1.5]), arrays['R'].shape)
        running = session(case, constants=constants)
        got = running.run(None, {name: arrays[name] for name in arrays if name not in constants})
        for ours, fed, expected in zip(got, session(case).run(None, arrays), case.expected(arrays), strict=True):
            assert same_bits(ours, fed) and same_bits(ours, expected), constants


@pytest.mark.parametrize(('name', 'shape'), [('shift', (6,)), ('scale', (1,)), ('slope', ()), ('next_shift', (6, 1))])
def test_constants_of_a_wrong_shape_are_refused_when_the_session_is_made(name, shape):
    text = refusal(lambda: session(BLOCK, constants={name: np.zeros(shape, np.float32)}))
    assert f"BinaryBlock 'layer': {name} has the shape {list(shape)}; it must be [" in text


def test_packed_output_feeds_a_packed_input():
    first = Case('BinaryBlock', 20, 13, pads=(1, 1, 1, 1))
    y, bits = session(first).run(None, first.inputs())
    real = Case('BinaryConv', 13, 8, seed=5)
    packed = replace(real, op='PackedBinaryConv')
    vectors = {name: real.inputs()[name] for name in ('scale', 'bias')}
    shift = first.inputs()['next_shift']
    (from_real,) = session(real).run(None, {'X': y, 'shift': shift, **vectors})
    (from_bits,) = session(packed).run(None, {'P': bits, **vectors})
    assert same_bits(from_real, from_bits)


def test_filling_of_a_packed_input_does_not_count():
    case = Case('PackedBinaryConv', 11, 6, pads=(1, 1, 1, 1))
    arrays = case.inputs()
    (wanted,) = case.expected(arrays)
    arrays['P'][..., -1] |= 0b11111000
    (got,) = session(case).run(None, arrays)
    assert same_bits(got, wanted)


@pytest.mark.parametrize('op', CONVOLUTIONS)
def test_one_session_takes_images_of_any_size(op):
    case = Case(op, 24, 16, pads=(1, 1, 1, 1), strides=(2, 2))
    running = session(case)
    for size in [(1, 9, 7), (2, 30, 21), (3, 1, 1), (1, 9, 7)]:
        assert is_exact(case, running, size), size


@pytest.mark.parametrize('op', CONVOLUTIONS)
def test_empty_batch(op):
    case = Case(op, 24, 16, pads=(1, 1, 1, 1), size=(0, 5, 4))
    assert is_exact(case, session(case))


@pytest.mark.parametrize('op', VECTORS)
def test_attributes_that_are_absent_have_their_defaults(op):
    case = Case(op, 10, 8, kernel=(1, 1) if op == 'BinaryLinear' else (2, 2))
    assert is_exact(case, session(case, attributes={'channels': 10} | (CLIP if case.clips else {})))


@pytest.mark.parametrize('threads', [1, 2, 4])
def test_several_python_threads_share_one_session(threads):
    case = Case('BinaryBlock', 64, 48, pads=(1, 1, 1, 1))
    running = session(case, threads=threads)
    sizes = [(1, 20, 30), (2, 7, 9), (1, 33, 5), (3, 1, 2)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda size: is_exact(case, running, size), sizes * 8))


def test_sessions_come_and_go_while_others_run():
    def make_and_run(seed: int) -> bool:
        case = Case('BinaryConv', 40, 30, pads=(1, 1, 1, 1), seed=seed)
        return is_exact(case, session(case))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(make_and_run, range(24)))


def refusal(make) -> str:
    """The text of the one error that ``make`` must end in."""
    with pytest.raises(Exception, match='Binary') as caught:
        make()
    return str(caught.value)


BLOCK = Case('BinaryBlock', 12, 6, pads=(1, 1, 1, 1))
WRONG_ATTRIBUTES = [
    (dict(channels=None), 'the attribute channels is missing.'),
    (dict(channels=0), 'the attribute channels is 0; it must be positive and below 2^31.'),
    (dict(channels=2**40), f'the attribute channels is {2**40}; it must be positive'),
    (dict(channels=1.5), 'the attribute channels must be an integer.'),
    (dict(channels=20), 'it must be [O, KH, KW, 3] for 20 input channels in each group.'),
    (dict(strides=[0, 1]), 'the vertical stride is 0; it must be from 1'),
    (dict(strides=[1]), 'the attribute strides must be a list of 2 integers.'),
    (dict(strides=2), 'the attribute strides must be a list of 2 integers.'),
    (dict(strides=[1.0, 1.0]), 'the attribute strides must be a list of 2 integers.'),
    (dict(strides='no'), 'the attribute strides must be a list of 2 integers.'),
    (dict(dilations=[1, -1]), 'the horizontal dilation is -1; it must be from 1'),
    (dict(pads=[0, 0, 0, -1]), 'the pad at the right is -1; it must be from 0'),
    (dict(pads=[0, 0]), 'the attribute pads must be a list of 4 integers.'),
    (dict(group=0), 'the attribute group is 0; it must be positive'),
    (dict(group=4), 'divides 48 input and 6 output channels unevenly'),
    (dict(group=[1]), 'the attribute group must be an integer.'),
    (dict(pad_value=2), 'the attribute pad_value is 2; it must be -1, 0 or 1.'),
    (dict(pad_value=2**32), f'the attribute pad_value is {2**32}; it must be -1, 0 or 1.'),
    (dict(layout='CHWN'), 'the attribute layout must be NCHW or NHWC.'),
    (dict(layout=1), 'the attribute layout must be a text.'),
]


@pytest.mark.parametrize(('change', 'sentence'), WRONG_ATTRIBUTES, ids=lambda value: str(value)[:40])
def test_wrong_attribute(change, sentence):
    attributes = {name: value for name, value in {**BLOCK.attributes(), **change}.items() if value is not None}
    text = refusal(lambda: session(BLOCK, attributes=attributes))
    assert sentence in text.partition("BinaryBlock 'layer': ")[2]


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (dict(low=0.0), 'the attribute low is 0; it must be negative.'),
        (dict(low=float('nan')), 'the attribute low is nan; it must be negative.'),
        (dict(high=-1.0), 'the attribute high is -1; it must be positive.'),
        (dict(high=1), 'the attribute high must be a real number.'),
        (dict(low=None), 'the attribute low is missing.'),
    ],
)
def test_wrong_limits(change, sentence):
    case = replace(BLOCK, op='BinaryClipBlock')
    attributes = {name: value for name, value in {**case.attributes(), **change}.items() if value is not None}
    assert f"BinaryClipBlock 'layer': {sentence}" in refusal(lambda: session(case, attributes=attributes))


@pytest.mark.parametrize(
    'shape', [(6, 3, 3), (6, 3, 3, 1), (0, 3, 3, 2), (6, 0, 3, 2), (6, 2), (), (6, 3, 3, 2, 1), (1,) * 12]
)
def test_weights_of_a_wrong_shape(shape):
    text = refusal(lambda: session(BLOCK, weights=np.zeros(shape, np.uint8)))
    assert "BinaryBlock 'layer': " in text


def test_weights_with_bits_in_their_filling():
    weights = BLOCK.packed_weights()
    weights[4, 2, 1, 1] |= 1 << 4
    text = refusal(lambda: session(BLOCK, weights=weights))
    assert "BinaryBlock 'layer': the weights of output channel 4 have bits set beyond input channel 11;" in text


def test_weights_must_be_an_initializer():
    text = refusal(lambda: session(BLOCK, computed_weights=True))
    assert "BinaryBlock 'layer': W must be an initializer of the graph, not a result or an input." in text


def test_packed_input_allows_one_group():
    case = Case('PackedBinaryConv', 8, 4, group=2)
    assert "PackedBinaryConv 'layer': a packed input allows only group 1." in refusal(lambda: session(case))


def test_node_without_a_name_is_known_by_its_output():
    text = refusal(lambda: session(BLOCK, name='', attributes={}))
    assert "BinaryBlock with output 'Y': the attribute channels is missing." in text


def test_wrong_number_or_type_of_inputs():
    names = ['X', 'W', *VECTORS['BinaryBlock']]
    assert 'layer' in refusal(lambda: session(BLOCK, inputs=names[:-1]))
    assert 'layer' in refusal(lambda: session(BLOCK, inputs=[*names, 'X']))
    assert 'layer' in refusal(
        lambda: session(BLOCK, inputs=[n if n != 'scale' else '' for n in names]).run(
            None, {n: v for n, v in BLOCK.inputs().items() if n != 'scale'}
        )
    )
    assert 'layer' in refusal(lambda: session(BLOCK, types={'R': 11}))
    assert 'layer' in refusal(lambda: session(BLOCK, weights=np.zeros((6, 3, 3, 2), np.int8)))


WRONG_INPUTS = [
    ('X', (2, 11, 6, 5), 'X has the shape [2, 11, 6, 5]; it must have 4 dimensions, the second of them 12.'),
    ('X', (12, 6, 5), 'X has the shape [12, 6, 5]; it must have 4 dimensions, the second of them 12.'),
    ('X', (1,) * 9, 'X has 9 dimensions; at most 8 are supported.'),
    ('X', (2, 12, 0, 5), "the input's height is 0; it must be from 1"),
    ('shift', (1,), 'shift has the shape [1]; it must be [12].'),
    ('scale', (), 'scale has the shape []; it must be [6].'),
    ('mul', (6, 1), 'mul has the shape [6, 1]; it must be [6].'),
    ('add', (7,), 'add has the shape [7]; it must be [6].'),
    ('R', (1, 6, 6, 5), 'R has the shape [1, 6, 6, 5]; it must be that of Y, [2, 6, 6, 5], or one 0 of'),
    ('R', (2, 6, 5, 6), 'R has the shape [2, 6, 5, 6]; it must be that of Y, [2, 6, 6, 5], or one 0 of'),
    ('pre', (0,), 'pre has the shape [0]; it must be [6].'),
    ('slope', (1,), 'slope has the shape [1]; it must be [6].'),
    ('post', (12,), 'post has the shape [12]; it must be [6].'),
    ('next_shift', (5,), 'next_shift has the shape [5]; it must be [6].'),
]


@pytest.mark.parametrize(('name', 'shape', 'sentence'), WRONG_INPUTS)
def test_input_of_a_wrong_shape(name, shape, sentence):
    running = session(BLOCK)
    text = refusal(lambda: running.run(None, {**BLOCK.inputs(), name: np.zeros(shape, np.float32)}))
    assert f"BinaryBlock 'layer': {sentence}" in text
    assert is_exact(BLOCK, running)


def test_input_smaller_than_the_kernel():
    case = Case('PackedBinaryConv', 8, 4, kernel=(5, 5), size=(1, 4, 9))
    running = session(case)
    arrays = {'P': np.zeros((1, 4, 9, 1), np.uint8), 'scale': np.ones(4, np.float32), 'bias': np.ones(4, np.float32)}
    text = refusal(lambda: running.run(None, arrays))
    assert (
        "PackedBinaryConv 'layer': the kernel spans 5 pixels of height, but the input has 4 with its padding." in text
    )


def test_output_larger_than_memory():
    case = Case('BinaryConv', 1, 1, kernel=(1, 1), pads=(2**31 - 1,) * 4, size=(1, 1, 1))
    running = session(case)
    text = refusal(lambda: running.run(None, case.inputs()))
    assert 'layer' in text and re.search('more than memory can hold|alloc', text)


def test_linear_input_of_a_wrong_width():
    case = Case('BinaryLinear', 9, 4, kernel=(1, 1), size=(3,))
    text = refusal(lambda: session(case).run(None, {**case.inputs(), 'X': np.zeros((3, 8), np.float32)}))
    assert "BinaryLinear 'layer': X has the shape [3, 8]; its last dimension must be 9." in text


def test_unknown_instruction_set_is_refused(monkeypatch):
    monkeypatch.setenv('REBNN_ISA', 'z80')
    done = run_code('import onnxruntime, rebnn_mm.deploy.native as n; n.register(onnxruntime.SessionOptions())')
    assert done.returncode == 1
    assert 'REBNN_ISA' in done.stderr.strip().splitlines()[-1]


# Stands in for an ONNX Runtime whose memory ends while operators are added to a domain for the first time. The end of
# the process would call it once more, when Python is gone, so the process ends at once.
REGISTRATION = """
import ctypes, os, sys

made, added, released, used, threads = [], [], [], [], b'2'
pointer = ctypes.c_void_p
FAILED = 7

def create(name, domain):
    made.append(len(made) + 1)
    domain[0] = made[-1]

def add(domain, operator):
    added.append(domain)
    return FAILED if len(added) == 3 else None

functions = {
    26: ctypes.CFUNCTYPE(pointer, ctypes.c_char_p, ctypes.POINTER(pointer))(create),
    27: ctypes.CFUNCTYPE(pointer, pointer, pointer)(add),
    28: ctypes.CFUNCTYPE(pointer, pointer, pointer)(lambda options, domain: used.append(domain)),
    101: ctypes.CFUNCTYPE(None, pointer)(released.append),
    238: ctypes.CFUNCTYPE(pointer, pointer, ctypes.c_char_p, pointer, pointer)(
        lambda options, key, text, size: ctypes.memmove(text, threads, len(threads) + 1) and None
    ),
}
table = (pointer * 400)(*(ctypes.cast(functions.get(place), pointer) for place in range(400)))
get_api = ctypes.CFUNCTYPE(pointer, ctypes.c_uint32)(lambda version: ctypes.addressof(table))
base = (pointer * 2)(ctypes.cast(get_api, pointer))
register = ctypes.CDLL(sys.argv[1]).RegisterCustomOps
register.restype, register.argtypes = pointer, [pointer, pointer]

assert register(None, base) == FAILED and not used, 'first session'
assert released == [1], released
assert register(None, base) is None, 'second session'
assert used == [2] and added.count(2) > 3, (used, added)
assert register(None, base) is None and used == [2, 2] and released == [1], 'third session'
threads = b'4'
assert register(None, base) is None and used == [2, 2, 3], 'a session of more threads'
os._exit(0)
"""


def test_a_domain_that_was_not_finished_is_not_used_again():
    command = [sys.executable, '-c', REGISTRATION, native.library_path()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
