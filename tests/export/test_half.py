import numpy as np
import onnx
from onnx import numpy_helper

from rebnn_mm.export import to_half
from tests.export.graphs import parsed, run

MODEL = """g (float[1, 3] x) => (float[1, 3] y)
<float[3] w = {0.1, 100000, -100000}, float[3] tiny = {1e-9, 1, 2}, int64[1] n = {1}, uint8[2] b = {1, 2}>
{ a = Mul (x, w) y = Add (a, tiny) }"""


def test_constants_are_rounded_to_float16_and_stay_finite():
    half = to_half(parsed(MODEL))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in half.graph.initializer}
    assert stored['w.half'].tolist() == [float(np.float16(0.1)), 65504, -65504]
    assert stored['tiny.half'].tolist() == [0, 1, 2]
    assert stored['n'].dtype == np.int64 and stored['b'].dtype == np.uint8


def test_arithmetic_is_that_of_float32():
    half = to_half(parsed(MODEL))
    x = np.array([[3.3, 1e-5, 1e-5]], np.float32)
    w = np.array([0.1, 65504, -65504], np.float16).astype(np.float32)
    assert np.array_equal(run(half, {'x': x})[0], x * w + np.array([0, 1, 2], np.float32))


def test_the_model_itself_stays():
    model = parsed(MODEL)
    before = onnx.ModelProto.FromString(model.SerializeToString())
    to_half(model)
    assert model == before
