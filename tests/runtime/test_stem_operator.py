"""The full-precision stem as an operator: kernel and function against NumPy, and a sentence for each mistake."""

import re

import numpy as np
import pytest

from rebnn_mm.deploy.session import half_products
from tests.runtime.sessions import open_session
from tests.runtime.stem_case import HALF_TOLERANCES, TOLERANCE, stem_constants, stem_model, stem_of

CONSTANTS = stem_constants(3, 16)


def image(*shape):
    return {'X': np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)}


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
@pytest.mark.parametrize(('channels', 'outputs'), [(3, 64), (3, 8), (1, 5), (4, 70)])
def test_kernel_and_function_give_what_is_written(channels, outputs, layout):
    constants = stem_constants(channels, outputs)
    model = stem_model(constants, layout=layout)
    kernel, function = (open_session(model, run) for run in ('kernel', 'function'))
    for n, h, w in [(1, 32, 32), (2, 33, 47), (1, 1, 1), (3, 7, 90), (1, 64, 5), (0, 9, 9)]:
        feeds = image(n, channels, h, w)
        expected = stem_of(feeds['X'], constants)
        assert expected.shape == (n, outputs, *(((length - 1) // 2) // 2 + 1 for length in (h, w)))
        for run in (kernel, function):
            (found,) = run.run(None, feeds)
            planes = found.transpose(0, 3, 1, 2) if layout == 'NHWC' else found
            atol = TOLERANCE * np.abs(expected).max(initial=1)
            np.testing.assert_allclose(planes, expected, rtol=0, atol=atol)


def test_nchw_is_what_is_meant_without_a_layout():
    feeds = image(2, 3, 21, 34)
    plain, planes, pixels = (
        open_session(stem_model(CONSTANTS, **given)).run(None, feeds)[0]
        for given in ({}, {'layout': 'NCHW'}, {'layout': 'NHWC'})
    )
    assert np.array_equal(plain, planes) and np.array_equal(plain, pixels.transpose(0, 3, 1, 2))


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
def test_half_precision(layout):
    constants = stem_constants(3, 64)
    single, half = (
        open_session(stem_model(constants, layout=layout, precision=precision)) for precision in ('float32', 'half')
    )
    kind = half_products()
    assert kind in HALF_TOLERANCES
    for shape in [(1, 3, 64, 64), (2, 3, 33, 47), (1, 3, 1, 1)]:
        feeds = image(*shape)
        (exact,), (found,) = single.run(None, feeds), half.run(None, feeds)
        atol = HALF_TOLERANCES[kind] * np.abs(exact).max(initial=1)
        np.testing.assert_allclose(found, exact, rtol=0, atol=atol)
        assert np.array_equal(found, exact) == (kind == 'float32')


def test_a_function_computes_half_precision_in_float32():
    feeds = image(1, 3, 40, 30)
    plain, half = (
        open_session(stem_model(CONSTANTS, **given), 'function').run(None, feeds)[0]
        for given in ({}, {'precision': 'half'})
    )
    assert np.array_equal(plain, half)


@pytest.mark.parametrize('threads', [2, 4])
def test_threads_change_nothing(threads):
    feeds, model = image(2, 3, 96, 80), stem_model(CONSTANTS)
    one, several = (open_session(model, threads=count).run(None, feeds)[0] for count in (1, threads))
    assert np.array_equal(one, several)


WRONG_SHAPES = [
    ('W', (16, 3, 7), 'W has the shape [16, 3, 7]; it must be [O, C, 7, 7].'),
    ('W', (16, 3, 5, 5), 'W has the shape [16, 3, 5, 5]; it must be [O, C, 7, 7].'),
    ('W', (16, 5, 7, 7), 'in_channels is 5; it must be from 1 to 4.'),
    ('W', (0, 3, 7, 7), 'mul has the shape [16]; it must be [0].'),
    ('mul', (15,), 'mul has the shape [15]; it must be [16].'),
    ('add', (16, 1), 'add has the shape [16, 1]; it must be [16].'),
]


@pytest.mark.parametrize(('name', 'shape', 'sentence'), WRONG_SHAPES)
def test_constants_of_a_wrong_shape(name, shape, sentence):
    with pytest.raises(Exception, match=re.escape(f"RealStem 'conv1': {sentence}")):
        open_session(stem_model(CONSTANTS | {name: np.zeros(shape, np.float32)}))


@pytest.mark.parametrize('name', ['W', 'mul', 'add'])
def test_constants_must_be_initializers(name):
    with pytest.raises(Exception, match=f"RealStem 'conv1': {name} must be an initializer of the graph"):
        open_session(stem_model(CONSTANTS, computed=[name]))


@pytest.mark.parametrize(
    ('attributes', 'sentence'),
    [
        ({'layout': 'CHWN'}, 'the attribute layout must be NCHW or NHWC.'),
        ({'layout': 1}, 'the attribute layout must be a text.'),
        ({'precision': 'float16'}, 'the attribute precision must be float32 or half.'),
        ({'precision': 1}, 'the attribute precision must be a text.'),
    ],
)
def test_wrong_attributes(attributes, sentence):
    with pytest.raises(Exception, match=re.escape(f"RealStem 'conv1': {sentence}")):
        open_session(stem_model(CONSTANTS, **attributes))


@pytest.mark.parametrize(
    ('shape', 'sentence'),
    [
        ((1, 2, 8, 8), 'X has the shape [1, 2, 8, 8]; it must have 4 dimensions, the second of them 3.'),
        ((3, 8, 8), 'X has the shape [3, 8, 8]; it must have 4 dimensions, the second of them 3.'),
        ((1, 3, 0, 8), "the input's height is 0; it must be from 1"),
    ],
)
def test_images_of_a_wrong_shape(shape, sentence):
    running = open_session(stem_model(CONSTANTS))
    with pytest.raises(Exception, match=re.escape("RealStem 'conv1': ") + '.*' + re.escape(sentence)):
        running.run(None, image(*shape))
    assert running.run(None, image(1, 3, 8, 8))[0].shape == (1, 16, 2, 2)
