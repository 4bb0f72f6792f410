"""Gives the ONNX Runtime operators models and inputs that are wrong in a thousand ways.

Each case is a model of one node, valid or with one to three random changes, and its inputs. A run must end in an
error or, where NumPy can tell what is right, in exactly that. A crash, or a word of a sanitizer, ends the process.

run_fuzz.sh builds the library with sanitizers and starts this under them; alone it tests the installed library:

    python runtime/ort/tests/fuzz_models.py --count 1000 --seed 0
"""

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from rebnn_mm.deploy import native
from runtime.ort.tests.fuzz_loop import change_shape, main, session_options
from tests.runtime.operator_cases import VECTORS, Case, one_node_model, same_bits
from tests.runtime.stem_case import TOLERANCE, stem_constants, stem_model, stem_of

WHOLE_NUMBERS = [-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 2**31 - 1, 2**31, 2**32, 2**33 + 1, 2**62, 2**63 - 1]
OTHER_TYPES: list[Any] = [1.5, 'NCHW', 'x' * 3000, [1.0, 2.0], ['a', 'b'], [1] * 99]
DTYPES = [np.float64, np.int8, np.int64, np.float16, np.uint8, np.bool_]


def random_case(rng: np.random.Generator) -> Case:
    op = str(rng.choice(list(VECTORS)))
    linear = op == 'BinaryLinear'
    dilations, kernel = rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    pads = rng.integers(0, 4, 4) * (rng.random(4) < 0.6)
    group = 1 if linear or op.startswith('Packed') or rng.random() < 0.7 else int(rng.integers(2, 5))
    # The kernel has to fit, or the case is none.
    size = np.maximum(rng.integers(1, 9, 2), dilations * (kernel - 1) + 1 - pads[:2] - pads[2:])
    leading = tuple(map(int, rng.integers(0, 5, rng.integers(0, 4))))
    return Case(
        op,
        int(rng.choice([1, 2, 7, 8, 9, 31, 32, 33, 64, 100])),
        int(rng.integers(1, 20)) * group,
        kernel=(1, 1) if linear else (int(kernel[0]), int(kernel[1])),
        size=leading if linear else (int(rng.integers(0, 3)), int(size[0]), int(size[1])),
        strides=tuple(map(int, rng.integers(1, 4, 2))),
        dilations=tuple(map(int, dilations)),
        pads=tuple(map(int, pads)),
        group=group,
        pad_value=int(rng.integers(-1, 2)),
        layout=str(rng.choice(['NCHW', 'NHWC'])),
        bits=bool(rng.random() < 0.6),
        seed=int(rng.integers(2**31)),
    )


class Mutant:
    """A case, its model and its inputs, and whether NumPy still knows the answer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.case = random_case(rng)
        self.attributes = self.case.attributes()
        self.weights = self.case.packed_weights()
        self.names = ['P' if self.case.is_packed else 'X', 'W', *VECTORS[self.case.op]]
        self.arrays = self.case.inputs()
        self.computed_weights = False
        self.known = True
        self.file_changes: list[Callable[[bytes], bytes]] = []

    def mutate(self) -> None:
        changes = (
            [self._attribute] * 4 + [self._weights] * 2 + [self._shape] * 4 + [self._wiring, self._type, self._file]
        )
        changes[int(self.rng.integers(len(changes)))]()

    def model(self) -> bytes:
        model = one_node_model(
            self.case,
            attributes=self.attributes,
            weights=self.weights,
            computed_weights=self.computed_weights,
            inputs=self.names,
        ).SerializeToString()
        for change in self.file_changes:
            model = change(model)
        return model

    def is_too_large(self) -> bool:
        """Whether the output asks for memory whose lack is an error elsewhere, but under a sanitizer the end."""
        pads = self.attributes.get('pads', [0] * 4)
        strides = self.attributes.get('strides', [1] * 2)
        shape = self.arrays['P' if self.case.is_packed else 'X'].shape
        if not are_whole(pads, 4) or not are_whole(strides, 2) or min(pads) < 0 or min(strides) < 1:
            return False  # refused before an output is asked for
        largest = max(shape, default=0)
        sides = [(largest + pads[i] + pads[i + 2]) // strides[i] + 1 for i in range(2)]
        return 2**28 < 4 * largest * max(self.weights.shape, default=0) * sides[0] * sides[1] < 2**63

    def is_right(self, got: list[np.ndarray]) -> bool:
        wanted = self.case.expected(self.arrays)
        return len(got) == len(wanted) and all(same_bits(a, b) for a, b in zip(got, wanted, strict=True))

    def _attribute(self) -> None:
        rng = self.rng
        name = str(rng.choice(['channels', 'strides', 'dilations', 'pads', 'group', 'pad_value', 'layout']))
        old = self.attributes.get(name)
        kind = rng.random()
        if kind < 0.15:
            self.attributes.pop(name, None)
            # No attribute means its default, and `channels` has none.
            default = {f.name: f.default for f in fields(Case)}.get(name)
            self._follow({name: default} if old is not None and name != 'channels' else None)
        elif kind < 0.35:
            self.attributes[name] = OTHER_TYPES[int(rng.integers(len(OTHER_TYPES)))]
            self.known = False
        elif isinstance(old, tuple):
            values = list(old)
            values[int(rng.integers(len(values)))] = self._whole_number()
            self.attributes[name] = values
            self._follow({name: tuple(values)})
        else:
            self.attributes[name] = self._whole_number()
            self.known = False

    def _follow(self, changed: dict[str, Any] | None) -> None:
        """Keep NumPy's answer possible if the case with these settings is one."""
        if changed is None or self.case.is_linear:
            self.known = False
            return
        case = replace(self.case, **changed)
        numbers = [*case.strides, *case.dilations, *(p + 1 for p in case.pads)]
        if not all(0 < number < 100 for number in numbers) or self.case.group != case.group:
            self.known = False
            return
        self.case = case

    def _weights(self) -> None:
        rng = self.rng
        self.known = False
        kind = rng.random()
        if kind < 0.5:
            shape = list(self.weights.shape)
            for _ in range(int(rng.integers(1, 3))):
                change_shape(self.rng, shape)
            self.weights = rng.integers(0, 256, shape).astype(np.uint8)
        elif kind < 0.7:
            self.weights = rng.integers(0, 256, self.weights.shape).astype(np.uint8)
        elif kind < 0.85:
            self.weights = self.weights.astype(rng.choice(DTYPES))
        else:
            self.computed_weights = True
            self.arrays['W'] = self.weights

    def _shape(self) -> None:
        name = str(self.rng.choice(list(self.arrays)))
        shape = list(self.arrays[name].shape)
        change_shape(self.rng, shape)
        self.arrays[name] = self.rng.integers(-3, 4, shape).astype(self.arrays[name].dtype)
        self.known = False

    def _wiring(self) -> None:
        rng = self.rng
        i = int(rng.integers(len(self.names)))
        kind = rng.random()
        if kind < 0.3:
            del self.names[i]
        elif kind < 0.5:
            self.names[i] = ''
        elif kind < 0.7:
            self.names.append(str(rng.choice(self.names)))
        else:
            self.names[i] = str(rng.choice(self.names))
        self.known = False

    def _type(self) -> None:
        name = str(self.rng.choice(list(self.arrays)))
        with np.errstate(invalid='ignore'):
            self.arrays[name] = self.arrays[name].astype(self.rng.choice(DTYPES))
        self.known = False

    def _file(self) -> None:
        """Dimensions of the weights that disagree with their bytes, or damaged bytes of the file."""
        rng = self.rng
        self.known = False
        if rng.random() < 0.5:
            axis, value = int(rng.integers(4)), self._whole_number()
            # Before any damage, after which the file may not parse.
            self.file_changes.insert(0, lambda data: with_dimension(data, axis, value))
        else:
            places = rng.random(int(rng.integers(1, 4)))
            values = rng.integers(256, size=len(places))
            end = rng.random() if rng.random() < 0.3 else 1.0
            self.file_changes.append(lambda data: damaged(data, places, values, end))

    def _whole_number(self) -> int:
        return WHOLE_NUMBERS[int(self.rng.integers(len(WHOLE_NUMBERS)))]


class StemMutant(Mutant):
    """The same for the full-precision stem, whose answer is right up to rounding."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        channels, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 40))
        self.constants = stem_constants(channels, outputs)
        self.attributes = {'layout': str(rng.choice(['NCHW', 'NHWC']))}
        self.names = ['X', 'W', 'mul', 'add']
        size = tuple(map(int, rng.integers(1, 40, 2)))
        self.arrays = {'X': rng.standard_normal((int(rng.integers(0, 3)), channels, *size)).astype(np.float32)}
        self.computed: list[str] = []
        self.known = True
        self.file_changes = []

    def model(self) -> bytes:
        model = stem_model(
            self.constants, computed=self.computed, inputs=self.names, name='layer', **self.attributes
        ).SerializeToString()
        for change in self.file_changes:
            model = change(model)
        return model

    def is_too_large(self) -> bool:
        return False

    def is_right(self, got: list[np.ndarray]) -> bool:
        expected = stem_of(self.arrays['X'], self.constants)
        planes = got[0].transpose(0, 3, 1, 2) if self.attributes.get('layout') == 'NHWC' else got[0]
        atol = TOLERANCE * np.abs(expected).max(initial=1)
        return len(got) == 1 and planes.shape == expected.shape and np.allclose(planes, expected, rtol=0, atol=atol)

    def _attribute(self) -> None:
        if self.rng.random() < 0.3:
            self.attributes.pop('layout', None)
        else:
            self.attributes['layout'] = OTHER_TYPES[int(self.rng.integers(len(OTHER_TYPES)))]
            self.known = self.known and self.attributes['layout'] == 'NCHW'

    def _weights(self) -> None:
        name = str(self.rng.choice(list(self.constants)))
        value = self.constants[name]
        kind = self.rng.random()
        self.known = False
        if kind < 0.6:
            shape = list(value.shape)
            change_shape(self.rng, shape)
            self.constants[name] = self.rng.standard_normal(shape).astype(np.float32)
        elif kind < 0.8:
            self.constants[name] = value.astype(self.rng.choice(DTYPES))
        elif name not in self.computed:
            self.computed.append(name)
            self.arrays[name] = value


def are_whole(numbers: Any, count: int) -> bool:
    return isinstance(numbers, (list, tuple)) and len(numbers) == count and all(isinstance(n, int) for n in numbers)


def with_dimension(data: bytes, axis: int, value: int) -> bytes:
    model = onnx.load_from_string(data)
    for tensor in model.graph.initializer:
        tensor.dims[axis % max(1, len(tensor.dims))] = value
    return model.SerializeToString()


def damaged(data: bytes, places: np.ndarray, values: np.ndarray, end: float) -> bytes:
    """Some bytes replaced, at ``places`` in fractions of the length, and what follows after ``end`` cut off."""
    changed = bytearray(data)
    for place, value in zip(places, values, strict=True):
        changed[int(place * len(changed))] = int(value)
    return bytes(changed[: int(end * len(changed))])


def run_case(seed: int) -> str:
    """What became of the case with this seed."""
    rng = np.random.default_rng(seed)
    mutant = StemMutant(rng) if rng.random() < 0.15 else Mutant(rng)
    for _ in range(int(rng.integers(4))):
        mutant.mutate()
    if mutant.is_too_large():
        return 'too large for a sanitizer'
    options = session_options(seed)
    native.register(options)
    try:
        model = mutant.model()
    except Exception:  # onnx does not write every nonsense
        return 'not written'
    try:
        session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'], enable_fallback=0)
        fed = {i.name for i in session.get_inputs()}
        got = session.run(None, {name: array for name, array in mutant.arrays.items() if name in fed})
    except Exception as error:
        text = str(error)
        if "'layer': " in text:
            return 'refused by the operator'
        if mutant.known:
            raise AssertionError(f'case {seed}: a valid model fails: {text}') from error
        return 'refused by ONNX Runtime'
    if not mutant.known:
        return 'ran'
    if not mutant.is_right(got):
        raise AssertionError(f'case {seed}: a wrong answer of {getattr(mutant, "case", "the stem")}')
    return 'right'


if __name__ == '__main__':
    main(__doc__, run_case)
