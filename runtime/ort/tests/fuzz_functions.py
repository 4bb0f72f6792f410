"""Gives the operators other than convolutions wrong models and inputs, and compares kernels with their functions.

Each case is a model of one node, valid or with one to three random changes. It runs with our library and, by the local
function that travels with it, without. The library must refuse it or give the function's answer. A crash, or a word of
a sanitizer, ends the process.

run_fuzz.sh builds the library with sanitizers and starts this under them; alone it tests the installed library:

    python runtime/ort/tests/fuzz_functions.py --count 1000 --seed 0
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from rebnn_mm.deploy import native
from rebnn_mm.export.operators import attach_functions
from runtime.ort.tests.fuzz_loop import change_shape, main, session_options
from tests.runtime.operator_cases import same_bits, with_odd_values
from tests.runtime.roi_align_case import TOLERANCE, random_case

WHOLE_NUMBERS = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**62, 2**63 - 1]
OTHER_TYPES: list[Any] = [1.5, 'NHWC', 'x' * 3000, [1.0, 2.0], ['a'], [1] * 99]
DTYPES = [np.float32, np.float64, np.int8, np.int64, np.float16, np.uint8, np.bool_]


@dataclass
class Node:
    """An operator with inputs; ``constant`` names those that are initializers."""

    op: str
    arrays: dict[str, np.ndarray]
    constant: set[str] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = list(self.arrays)


def attention(rng: np.random.Generator) -> Node:
    batch, length, heads, size = (int(n) for n in rng.integers([0, 1, 1, 1], [3, 70, 4, 70]))
    arrays = {name: with_odd_values(rng, (batch, length, heads, size)) for name in 'QKV'}
    mask = rng.random((batch, 1, 1, length)) < 0.8
    return Node('BinaryAttention', {**arrays, 'mask': mask}, attributes={'tie': int(rng.integers(2))})


def embedding(rng: np.random.Generator) -> Node:
    rows, channels = (int(n) for n in rng.integers(1, [20, 80]))
    ids = rng.integers(-rows, rows, rng.integers(0, 5, rng.integers(0, 4)))
    table = np.packbits(rng.random((rows, channels)) < 0.5, axis=-1, bitorder='little')
    scale = with_odd_values(rng, (rows,))
    return Node(
        'BinaryEmbedding',
        {'ids': ids.astype(np.int64), 'W': table, 'scale': scale},
        constant={'W'} | ({'scale'} if rng.random() < 0.5 else set()),
        attributes={'channels': channels},
    )


def average_pool(rng: np.random.Generator) -> Node:
    shape = [int(n) for n in rng.integers([0, 1, 1, 1], [3, 8, 8, 70])]
    return Node(
        'RealAveragePool', {'X': with_odd_values(rng, tuple(shape))}, attributes={'ceil_mode': int(rng.integers(2))}
    )


def upsample_add(rng: np.random.Generator) -> Node:
    n, h, w, channels = (int(size) for size in rng.integers([0, 1, 1, 1], [3, 8, 8, 70]))
    arrays = {'X': with_odd_values(rng, (n, h, w, channels)), 'R': with_odd_values(rng, (n, 2 * h, 2 * w, channels))}
    return Node('RealUpsampleAdd', arrays)


def roi_align(rng: np.random.Generator) -> Node:
    feeds, attributes = random_case(rng)
    return Node('RealRoiAlign', feeds, attributes=attributes)


MAKERS: tuple[Callable[[np.random.Generator], Node], ...] = (
    attention,
    embedding,
    average_pool,
    roi_align,
    upsample_add,
)


def change(node: Node, rng: np.random.Generator) -> None:
    """Make one thing about a node wrong, or only different."""
    name = str(rng.choice(list(node.arrays)))
    kind = rng.random()
    if kind < 0.25 and node.attributes:
        key = str(rng.choice(list(node.attributes)))
        values = [*WHOLE_NUMBERS, *OTHER_TYPES, None]
        value = values[int(rng.integers(len(values)))]
        node.attributes.pop(key)
        if value is not None:
            node.attributes[key] = value
    elif kind < 0.65:
        shape = list(node.arrays[name].shape)
        change_shape(rng, shape)
        node.arrays[name] = rng.integers(0, 4, shape).astype(node.arrays[name].dtype)
    elif kind < 0.75:
        with np.errstate(invalid='ignore'):
            node.arrays[name] = node.arrays[name].astype(rng.choice(DTYPES))
    elif kind < 0.85 and node.arrays[name].dtype == np.int64 and node.arrays[name].size:
        flat = node.arrays[name].reshape(-1)
        flat[int(rng.integers(flat.size))] = WHOLE_NUMBERS[int(rng.integers(len(WHOLE_NUMBERS)))]
    elif kind < 0.95:
        node.names[int(rng.integers(len(node.names)))] = str(rng.choice(['', *node.names]))
    else:
        node.constant ^= {name}


def model_of(node: Node) -> bytes:
    """Raises what onnx raises at nonsense that it cannot write."""
    fed = [name for name in node.arrays if name not in node.constant]
    graph = helper.make_graph(
        [helper.make_node(node.op, node.names, ['Y'], 'layer', domain='rebnn', **node.attributes)],
        'one',
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(node.arrays[name].dtype), None)
            for name in fed
        ],
        [helper.make_tensor_value_info('Y', helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)), None)],
        [numpy_helper.from_array(node.arrays[name], name) for name in sorted(node.constant)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    return attach_functions(model).SerializeToString()


def answer(model: bytes, node: Node, seed: int, library: bool) -> np.ndarray | str:
    """Y, or why there is none."""
    options = session_options(seed)
    if library:
        native.register(options)
    try:
        session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'], enable_fallback=0)
        fed = {i.name for i in session.get_inputs()}
        return session.run(None, {name: array for name, array in node.arrays.items() if name in fed})[0]
    except Exception as error:
        return str(error)


def are_close(ours: np.ndarray, wanted: np.ndarray, node: Node) -> bool:
    """Whether real sums are equal up to their rounding."""
    atol = TOLERANCE * np.abs(node.arrays['X']).max(initial=1)
    return ours.shape == wanted.shape and np.allclose(ours, wanted, rtol=0, atol=atol)


def run_case(seed: int) -> str:
    """What became of the case with this seed."""
    rng = np.random.default_rng(seed)
    node = MAKERS[int(rng.integers(len(MAKERS)))](rng)
    changes = int(rng.integers(4))
    for _ in range(changes):
        change(node, rng)
    try:
        model = model_of(node)
    except Exception:
        return 'not written'
    ours = answer(model, node, seed, library=True)
    if isinstance(ours, str):
        if not changes:
            raise AssertionError(f'case {seed}: a valid model fails: {ours}')
        return 'refused by the operator' if "'layer': " in ours else 'refused by ONNX Runtime'
    wanted = answer(model, node, seed, library=False)
    if isinstance(wanted, str) and node.op == 'RealRoiAlign' and 'Integer overflow' in wanted:
        return 'a region the wrong way round'  # which ONNX Runtime counts a negative number of samples of
    if isinstance(wanted, str):
        raise AssertionError(f'case {seed}: the function of {node.op} refuses what the kernel computes: {wanted}')
    if not (same_bits(ours, wanted) or (node.op == 'RealRoiAlign' and are_close(ours, wanted, node))):
        raise AssertionError(f'case {seed}: {node.op} gives another answer than its function')
    return 'right'


if __name__ == '__main__':
    main(__doc__, run_case)
