"""Every weight quantizer, by the same tests."""

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.quantizers import WeightQuantizer, build_weight_quantizer
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT

NAMES = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, WeightQuantizer) and cls.__module__.startswith('rebnn_mm.')
)
SHAPE = (5, 4, 3, 3)


def weight(dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(0), dtype=dtype) * 0.9


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.rebnn.MissingHookWarning')
@pytest.mark.parametrize('name', NAMES)
class TestEveryWeightQuantizer:
    def build(self, name):
        quantizer = build_weight_quantizer(name, SHAPE).double()
        quantizer.init_from_weight(weight())
        return quantizer

    def test_two_values_per_channel_and_zero_is_plus(self, name):
        w = weight()
        w[:, 0, 0, 0], w[:, 0, 0, 1] = 0.0, -0.0
        out = self.build(name)(w).detach()
        for channel in out:
            values = channel.unique()
            assert len(values) == 2 and values[0] == -values[1]
        assert (out[:, 0, 0, :2] > 0).all()

    def test_codes_and_factor_are_the_training_weight(self, name):
        quantizer = self.build(name)
        codes, factor = quantizer.codes(weight())
        assert set(codes.unique().tolist()) == {-1.0, 1.0}
        product = codes * factor.detach().view(-1, 1, 1, 1)
        torch.testing.assert_close(quantizer(weight()).detach(), product, atol=FLOAT64_EXACT, rtol=0)

    def test_gradient_is_alpha_g_inside_one(self, name):
        quantizer = self.build(name)
        w = weight().requires_grad_()
        upstream = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (quantizer(w) * upstream).sum().backward()
        factor = w.detach().abs().mean(dim=(1, 2, 3)).view(-1, 1, 1, 1)
        torch.testing.assert_close(w.grad, factor * upstream * (w.detach().abs() <= 1), atol=FLOAT64_EXACT, rtol=0)

    def test_state_round_trip(self, name):
        quantizer, other = self.build(name), build_weight_quantizer(name, SHAPE).double()
        other.load_state_dict(quantizer.state_dict())
        assert torch.equal(other(weight()), quantizer(weight())) and quantizer.bits == 1

    def test_autocast_keeps_the_weight_in_single_precision(self, name):
        quantizer = build_weight_quantizer(name, SHAPE)
        w = weight(torch.float32)
        quantizer.init_from_weight(w)
        with torch.autocast('cpu', torch.bfloat16):
            inside = quantizer(w)
        torch.testing.assert_close(inside, quantizer(w), atol=FLOAT32_ROUNDING, rtol=0)


def test_unknown_quantizer_is_refused_with_a_near_name():
    with pytest.raises(
        ValueError, match="weight='ReBNNWeigth' is no registered weight quantizer. Did you mean 'ReBNNWe"
    ):
        build_weight_quantizer('ReBNNWeigth', SHAPE)
    with pytest.raises(ValueError, match='has no type; name one of: BinaryMeanScaleWeight'):
        build_weight_quantizer({'gamma': 1}, SHAPE)


def test_a_layer_is_no_quantizer():
    with pytest.raises(ValueError, match="'ReBNNConv2d' is no registered weight quantizer"):
        build_weight_quantizer('ReBNNConv2d', SHAPE)


def test_quantizer_without_codes_says_what_to_implement():
    with pytest.raises(NotImplementedError, match=r'WeightQuantizer has to implement codes'):
        WeightQuantizer(SHAPE)(weight())
