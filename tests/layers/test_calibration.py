import pytest
import torch
from torch import nn

from rebnn_mm.layers import calibrate_shifts
from rebnn_mm.methods import ReBNNConv2d


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), ReBNNConv2d(8, 8, 3), nn.ReLU(), ReBNNConv2d(8, 8, 3)
    )


def test_front_to_back_in_one_pass():
    model, x = net(), torch.randn(4, 3, 12, 12)
    assert calibrate_shifts(model, lambda: model(x)) == []
    model.train()
    with torch.no_grad():
        first = model[:3](x)
        second = model[3:5](first)
    torch.testing.assert_close(-model[3].activation_quantizer.shift.data, first.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(-model[5].activation_quantizer.shift.data, second.mean(dim=(0, 2, 3)))


def test_mode_running_statistics_and_hooks_are_put_back():
    model = net().eval()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    calibrate_shifts(model, lambda: model(torch.randn(4, 3, 12, 12)))
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_second_call_changes_nothing_and_an_unreached_layer_is_named():
    model = net()
    missed = calibrate_shifts(model, lambda: model[:4](torch.randn(4, 3, 12, 12)))
    assert missed == ['5.activation_quantizer']
    shift = model[3].activation_quantizer.shift.clone()
    calibrate_shifts(model, lambda: model(torch.randn(4, 3, 12, 12) + 5))
    assert torch.equal(model[3].activation_quantizer.shift, shift)


def test_a_failing_forward_leaves_the_model_as_it_was():
    model = net().eval()

    def fail():
        raise KeyError('data')

    with pytest.raises(KeyError, match='data'):
        calibrate_shifts(model, fail)
    assert not any(module.training for module in model.modules())


def test_an_empty_batch_starts_nothing():
    conv = ReBNNConv2d(8, 4, 3, activation=dict(type='BinaryApproxSign', shift='mean'))
    assert calibrate_shifts(conv, lambda: conv(torch.randn(0, 8, 5, 5))) == ['activation_quantizer']
    assert not conv.activation_quantizer.shift.any()
