import numpy as np
import onnx
from onnx import numpy_helper

from rebnn_mm.export import apply_passes
from rebnn_mm.export.passes import ToHalf
from rebnn_mm.export.passes.half import SMALL
from tests.export.graphs import parsed, run

WEIGHT = np.linspace(-1, 1, SMALL + 1, dtype=np.float32)
WEIGHT[:2] = 1e5, -1e5


def model():
    text = """g (float[1] x) => (float[n] y)
    <float[1] w = {0.1}, float[2] tiny = {0.1, 2}, int64[1] n = {1}, uint8[2] b = {1, 2}> { y = Mul (x, w) }"""
    parsed_model = parsed(text)
    parsed_model.graph.initializer[0].CopyFrom(numpy_helper.from_array(WEIGHT, 'w'))
    return parsed_model


def test_only_large_constants_are_rounded_and_stay_finite():
    stored = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in apply_passes(model(), ToHalf()).graph.initializer
    }
    assert set(stored) == {'w.half', 'tiny', 'n', 'b'}
    assert stored['w.half'].dtype == np.float16 and stored['w.half'][:2].tolist() == [65504, -65504]
    assert np.array_equal(stored['w.half'][2:], WEIGHT[2:].astype(np.float16))
    assert stored['tiny'].dtype == np.float32 and stored['n'].dtype == np.int64 and stored['b'].dtype == np.uint8


def test_arithmetic_is_that_of_float32():
    x = np.array([3.3], np.float32)
    w = np.clip(WEIGHT, -65504, 65504).astype(np.float16).astype(np.float32)
    assert np.array_equal(run(apply_passes(model(), ToHalf()), {'x': x})[0], x * w)


def test_the_model_itself_stays():
    given = model()
    before = onnx.ModelProto.FromString(given.SerializeToString())
    apply_passes(given, ToHalf())
    assert given == before
