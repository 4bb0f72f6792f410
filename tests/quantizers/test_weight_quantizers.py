"""What holds for every weight quantizer; each method's own values and gradients are in its own test file."""

import math
from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.quantizers import WeightQuantizer, build_weight_quantizer
from tests.tolerances import FLOAT32_ROUNDING

NAMES = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, WeightQuantizer) and cls.__module__.startswith('rebnn_mm.')
)
SHAPE = (5, 4, 3, 3)


def weight(dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(0), dtype=dtype) * 0.9


@pytest.mark.parametrize('name', NAMES)
class TestEveryWeightQuantizer:
    def build(self, name):
        torch.manual_seed(0)
        quantizer = build_weight_quantizer(name, SHAPE).double().eval()
        quantizer.init_from_weight(weight())
        return quantizer

    def test_has_a_test_file_of_its_own(self, name):
        _, package, module = MODELS.get(name).__module__.split('.')
        assert (Path(__file__).parents[1] / package / f'test_{module}.py').is_file()

    def test_evaluation_has_two_values_per_channel_and_zero_is_plus(self, name):
        quantizer = self.build(name)
        if quantizer.bits > 1:
            levels = max(len(channel.unique()) for channel in quantizer(weight()).detach())
            assert 2 < levels <= 2**quantizer.bits and (levels >= 2**quantizer.bits - 1 or quantizer.bits > 4)
            return
        out = quantizer(weight()).detach()
        assert all(len(channel.unique()) == 2 for channel in out)
        if quantizer.values.kind == 'signs':
            assert all(channel.max() == -channel.min() for channel in out)
            for zero in (0.0, -0.0):
                codes = quantizer.codes(torch.full(SHAPE, zero, dtype=torch.float64))[0]
                assert torch.equal(codes, torch.ones(SHAPE, dtype=torch.float64))

    def test_gradient_reaches_weight_and_parameters(self, name):
        quantizer = self.build(name).train()
        w = weight().requires_grad_()
        upstream = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (quantizer(w) * upstream).sum().backward()
        assert w.grad.isfinite().all() and w.grad.abs().sum() > 0
        for parameter in quantizer.parameters():
            assert parameter.grad is not None and parameter.grad.isfinite().all()

    def test_number_of_factors_is_that_of_different_scales(self, name):
        quantizer = self.build(name)
        if quantizer.factors is not None and quantizer.values.has_codes:
            assert quantizer.factors == len(quantizer.codes(weight())[1].unique())

    def test_state_round_trip(self, name):
        quantizer = self.build(name)
        quantizer.set_progress(0.5)
        quantizer.begin_epoch(weight())
        torch.manual_seed(1)
        other = build_weight_quantizer(name, SHAPE).double().eval()
        other.load_state_dict(quantizer.state_dict())
        assert torch.equal(other(weight()), quantizer(weight()))
        assert all(torch.equal(a, b) for a, b in zip(other.buffers(), quantizer.buffers(), strict=True))

    def test_every_step_of_the_schedule_is_finite(self, name):
        quantizer = self.build(name).train()
        for done in (0.0, 0.5, 1.0):
            quantizer.set_progress(done)
            w = weight().requires_grad_()
            quantizer(w).square().sum().backward()
            assert w.grad.isfinite().all() and math.isfinite(quantizer(w).sum().item())

    def test_autocast_keeps_the_weight_in_single_precision(self, name):
        torch.manual_seed(0)
        quantizer = build_weight_quantizer(name, SHAPE)
        w = weight(torch.float32)
        quantizer.init_from_weight(w)
        with torch.autocast('cpu', torch.bfloat16):
            inside = quantizer(w)
        assert inside.dtype == torch.float32
        torch.testing.assert_close(inside, quantizer(w), atol=FLOAT32_ROUNDING, rtol=0)


def test_unknown_quantizer_is_refused_with_a_near_name():
    with pytest.raises(
        ValueError, match="weight='ReBNNWeigth' is not a registered weight quantizer. Did you mean 'ReBNNWe"
    ):
        build_weight_quantizer('ReBNNWeigth', SHAPE)
    with pytest.raises(ValueError, match='has no type; name one of: .*BinaryMeanScaleWeight'):
        build_weight_quantizer({'gamma': 1}, SHAPE)


def test_a_layer_is_no_quantizer():
    with pytest.raises(ValueError, match="'ReBNNConv2d' is not a registered weight quantizer"):
        build_weight_quantizer('ReBNNConv2d', SHAPE)


def test_quantizer_without_codes_says_what_to_implement():
    with pytest.raises(NotImplementedError, match=r'WeightQuantizer has to implement codes'):
        WeightQuantizer(SHAPE)(weight())
