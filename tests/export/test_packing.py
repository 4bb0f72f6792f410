import numpy as np
import pytest

from rebnn_mm.export import count_packed_bytes, pack_bits, pack_weight, unpack_bits


def test_golden_bytes():
    values = np.array([-1, 1, 1, -1, 1, 1, 1, -1, 1, -1], np.float32)
    assert pack_bits(values).tolist() == [0b10001001, 0b00000010]


def test_a_bit_is_set_exactly_below_zero():
    tiny = np.finfo(np.float32).smallest_subnormal
    values = np.array([0.0, -0.0, np.nan, -np.nan, tiny, -tiny, np.inf, -np.inf], np.float32)
    assert pack_bits(values).tolist() == [0b10100000]


@pytest.mark.parametrize('channels', [1, 7, 8, 9, 31, 64, 65])
def test_unpacking_gives_the_signs_back(channels):
    values = np.random.default_rng(channels).normal(size=(2, 3, channels))
    packed = pack_bits(values)
    assert packed.shape == (2, 3, count_packed_bytes(channels)) and packed.dtype == np.uint8
    assert np.array_equal(unpack_bits(packed, channels), np.where(values < 0, -1, 1))
    filling = np.unpackbits(packed, axis=-1, bitorder='little')[..., channels:]
    assert not filling.any()


def test_weights_have_their_input_channels_last():
    codes = np.ones((2, 9, 3, 1), np.float32)
    codes[1, 8, 2, 0] = -1
    packed = pack_weight(codes)
    assert packed.shape == (2, 3, 1, 2)
    assert packed[1, 2, 0].tolist() == [0, 1] and packed.sum() == 1


@pytest.mark.parametrize('wrong', [0.0, 0.5, np.nan])
def test_only_signs_are_weights(wrong):
    with pytest.raises(ValueError, match='neither -1 nor \\+1'):
        pack_weight(np.array([[1.0, wrong]]))


def test_bytes_must_fit_the_channels():
    with pytest.raises(ValueError, match='9 signs are packed into 2 bytes, but the last dimension has 1.'):
        unpack_bits(np.zeros((3, 1), np.uint8), 9)
