"""What holds for every activation quantizer; each method's own values and gradients are in its own test file."""

import copy
from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.quantizers import ActivationQuantizer, build_activation_quantizer
from tests.tolerances import FLOAT64_EXACT

NAMES = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, ActivationQuantizer) and cls.__module__.startswith('rebnn_mm.')
)


def build(name, **options):
    torch.manual_seed(0)
    return build_activation_quantizer(dict(type=name, **options), 4, -3)


@pytest.mark.parametrize('name', NAMES)
class TestEveryActivationQuantizer:
    def test_has_a_test_file_of_its_own(self, name):
        _, package, module = MODELS.get(name).__module__.split('.')
        assert (Path(__file__).parents[1] / package / f'test_{module}.py').is_file()

    def test_evaluation_has_two_values_and_zero_is_plus(self, name):
        quantizer = build(name).eval()
        levels = len(quantizer(torch.randn(1, 4, 20, 20)).detach().unique())
        assert levels <= 2**quantizer.bits and (levels >= 2**quantizer.bits - 1 or quantizer.bits > 4)
        if quantizer.values.kind == 'signs':
            assert quantizer(torch.randn(1, 4, 20, 20)).detach().unique().tolist() == [-1.0, 1.0]
            zeros = torch.tensor([0.0, -0.0]).repeat(8).view(1, 4, 2, 2)
            assert quantizer(zeros).eq(1).all()

    @pytest.mark.parametrize('shape', [(2, 4, 3, 3), (4, 3, 3)])
    def test_with_and_without_a_batch(self, name, shape):
        quantizer = build(name)
        x = torch.randn(shape)
        quantizer(x)  # a range that is followed in training is known by now
        quantizer.eval()
        one_by_one = torch.stack([quantizer(sample) for sample in x]) if len(shape) == 4 else quantizer(x[None])[0]
        assert torch.equal(quantizer(x), one_by_one)

    def test_works_on_the_last_dimension(self, name):
        quantizer = build_activation_quantizer(dict(type=name, shift='zero'), 4, -1)
        x = torch.randn(3, 5, 4, requires_grad=True)
        out = quantizer(x)
        out.square().sum().backward()
        assert out.shape == x.shape and quantizer.shift.grad.shape == (4,)

    def test_shift_moves_what_is_quantized(self, name):
        plain, shifted = build(name), build(name, shift='zero')
        shift = torch.tensor([0.5, -0.5, 0.1, 0.0]).double()
        shifted.shift.data = shift.clone()
        x = torch.randn(4, 4, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        moved = (x + shift.view(1, 4, 1, 1)).requires_grad_()
        upstream = torch.randn(4, 4, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        expected = plain.double()(moved)
        (expected * upstream).sum().backward()
        out = shifted.double()(x)
        (out * upstream).sum().backward()
        assert torch.equal(out, expected)
        torch.testing.assert_close(shifted.shift.grad, moved.grad.sum(dim=(0, 2, 3)), atol=FLOAT64_EXACT, rtol=0)

    def test_shift_is_calibrated_to_the_channel_means_and_not_after_a_checkpoint(self, name):
        quantizer = build(name, shift='mean')
        x = torch.rand(4, 4, 5, 5)
        assert quantizer.needs_calibration
        quantizer.calibrate(x)
        torch.testing.assert_close(-quantizer.shift.data, x.mean(dim=(0, 2, 3)))
        loaded = build(name, shift='mean')
        loaded.load_state_dict(quantizer.state_dict())
        assert not loaded.needs_calibration
        other = build(name, shift='mean')
        with pytest.raises(RuntimeError, match='size mismatch'):  # which mmengine logs, and goes on
            other.load_state_dict(
                {key: value[:2] if value.dim() else value for key, value in quantizer.state_dict().items()}
            )
        # One that learns a scale is started where this did not come.
        assert other.needs_calibration or hasattr(other, 'alpha')
        assert build(name, shift='zero').needs_calibration == build(name).needs_calibration

    def test_state_round_trip(self, name):
        quantizer = build(name)
        quantizer.set_progress(0.5)
        for parameter in quantizer.parameters():
            parameter.data.normal_()
        other = build(name)
        other.load_state_dict(quantizer.state_dict())
        x = torch.randn(2, 4, 5, 5)
        assert torch.equal(other.eval()(x), quantizer.eval()(x))
        assert all(torch.equal(a, b) for a, b in zip(other.buffers(), quantizer.buffers(), strict=True))

    def test_autocast_quantizes_without_changing_a_value(self, name):
        quantizer = build(name).eval()
        x = torch.randn(2, 4, 5, 5)
        with torch.autocast('cpu', torch.bfloat16):
            assert torch.equal(quantizer(x), quantizer(x.float()))

    @pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize('mode', ['training', 'evaluation'])
    def test_autocast_keeps_the_type_and_decides_in_single_precision(self, name, mode, dtype):
        quantizer = build(name, shift='zero').train(mode == 'training')
        quantizer.shift.data = torch.tensor([0.5003, -0.2501, 1e-5, 0.0])
        if hasattr(quantizer, 'noise'):
            quantizer.noise.factor.zero_()
        x = torch.randn(2, 4, 9, 9)
        x[:, 2] *= 1e-4  # where half precision would lose the shift or the input
        x = x.to(dtype).requires_grad_()
        single = copy.deepcopy(quantizer)
        with torch.autocast('cpu', dtype):
            y = quantizer(x)
        y.sum().backward()
        assert y.dtype == x.grad.dtype == dtype and quantizer.shift.grad.dtype == torch.float32
        assert torch.equal(y, single(x.float()).to(dtype))

    def test_unknown_shift_is_refused(self, name):
        with pytest.raises(ValueError, match=f"{name}: shift='median' is unknown; use None, 'zero' or 'mean'"):
            build(name, shift='median')
