import warnings

import pytest
import torch
from torch import nn

from rebnn_mm.engine import MethodDriver
from rebnn_mm.layers import BinaryLinear, SoftmaxAttention
from rebnn_mm.methods import (
    BiPerConv2d,
    BNNLinear,
    OvSWLinear,
    Q8BERTActivation,
    RBNNConv2d,
    ReBNNLinear,
    ReCUConv2d,
    ReCULinear,
    SiMaNConv2d,
    XNORLinear,
)
from rebnn_mm.quantizers import MissingHookWarning
from tests import two_processes


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def test_weights_are_constrained_when_attached_and_after_every_step():
    model = BNNLinear(8, 4)
    model.weight.data.mul_(100)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    driver = MethodDriver(model).attach(optimizer)
    assert model.weight.abs().max() == 1
    for _ in range(3):
        before = model.weight.detach().clone()
        step(model, optimizer, torch.randn(16, 8))
        assert not torch.equal(model.weight, before) and model.weight.abs().max() <= 1
    driver.detach()
    step(model, optimizer, torch.randn(16, 8))
    assert model.weight.abs().max() > 1


def test_xnor_weights_have_no_mean_over_the_input_channels():
    model = XNORLinear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    MethodDriver(model).attach(optimizer)
    step(model, optimizer, torch.randn(16, 8))
    torch.testing.assert_close(model.weight.mean(dim=1), torch.zeros(4), atol=1e-6, rtol=0)


@pytest.mark.parametrize('frozen', [False, True])
@pytest.mark.parametrize('method', [BiPerConv2d, RBNNConv2d, ReCUConv2d, SiMaNConv2d])
def test_adam_does_not_carry_a_learned_factor_to_zero_before_a_batch_norm(method, frozen):
    """Where the norm's epsilon counts, it had a gradient of 180,000 in place of 30, or went on below zero."""
    torch.manual_seed(0)
    layer, norm = method(4, 16, 3, bias=False), nn.BatchNorm2d(16)
    layer.weight.requires_grad_(not frozen)
    alpha = layer.weight_quantizer.alpha
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    MethodDriver(layer).attach(optimizer)
    for _ in range(60):
        optimizer.zero_grad()
        (norm(layer(torch.randn(4, 4, 8, 8))) - torch.randn(4, 16, 6, 6)).square().sum().backward()
        assert alpha.grad.abs().max() < 200
        optimizer.step()
        assert (alpha >= 0.2499 * layer.weight.abs().mean(dim=(1, 2, 3))).all()


def test_frozen_and_unused_weights_are_left_alone():
    frozen, unused, trained = BNNLinear(8, 8), BNNLinear(8, 8), BNNLinear(8, 8)
    model = nn.ModuleList([frozen, unused, trained])
    for layer in model:
        layer.weight.data.mul_(100)
    frozen.weight.requires_grad_(False)
    values = frozen.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    MethodDriver(model).attach(optimizer)
    unused.weight.data.mul_(100)
    step(nn.Sequential(frozen, trained), optimizer, torch.randn(16, 8))
    assert torch.equal(frozen.weight, values)
    assert unused.weight.abs().max() > 1
    assert trained.weight.abs().max() <= 1


def test_a_frozen_layer_is_not_renewed():
    frozen, trained = (RBNNConv2d(8, 8, 3).eval() for _ in range(2))
    frozen.requires_grad_(False)
    before = [{name: value.clone() for name, value in layer.state_dict().items()} for layer in (frozen, trained)]
    driver = MethodDriver(nn.Sequential(frozen, trained))
    driver.begin_epoch()
    assert all(torch.equal(value, before[0][name]) for name, value in frozen.state_dict().items())
    assert not torch.equal(trained.weight_quantizer.left, before[1]['weight_quantizer.left'])


def test_a_rule_at_the_step_leaves_frozen_and_unused_weights_alone():
    frozen, unused, trained = (OvSWLinear(8, 8, weight=dict(type='OvSWWeight', decay=0.1)) for _ in range(3))
    frozen.weight.requires_grad_(False)
    model = nn.ModuleList([frozen, unused, trained])
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    driver = MethodDriver(model).attach(optimizer)
    step(nn.Sequential(frozen, trained), optimizer, torch.randn(16, 8))
    assert [layer.weight_quantizer.flips.any().item() for layer in model] == [False, False, True]
    assert unused.weight.grad is None and frozen.weight.grad is None
    flips = trained.weight_quantizer.flips.clone()
    driver.detach()
    step(nn.Sequential(frozen, trained), optimizer, torch.randn(16, 8))
    assert torch.equal(trained.weight_quantizer.flips, flips)


def test_a_step_skipped_for_inf_does_not_constrain():
    model = BNNLinear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    MethodDriver(model).attach(optimizer)
    model.weight.data.mul_(100)
    scaler = torch.amp.GradScaler('cpu')
    scaler.scale(model(torch.randn(4, 8)).sum() * float('inf')).backward()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.abs().max() > 1


def test_progress_reaches_every_schedule():
    model = nn.Sequential(ReCULinear(8, 8), ReCULinear(8, 4))
    MethodDriver(model).set_progress(1.0)
    assert [layer.weight_quantizer.tau.item() for layer in model] == pytest.approx([0.99, 0.99])


def test_an_epoch_that_is_begun_again_does_not_lead_beyond_the_end():
    model = ReCULinear(8, 8)
    MethodDriver(model).set_progress(1.25)
    assert model.weight_quantizer.tau.item() == pytest.approx(0.99)


def test_quantizers_outside_of_layers_are_driven():
    attention = SoftmaxAttention(2, 4, projections='RBNNSign')
    x = torch.randn(1, 2, 3, 4)
    with pytest.warns(MissingHookWarning, match="RBNNSign is being trained without .*type='BinaryHook'"):
        attention(x, x, x, None, 0.0, 0.5)
    model = nn.Sequential(BNNLinear(8, 4), attention)
    driver = MethodDriver(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))
    driver.set_progress(1.0)
    assert [quantizer.sharpness.item() for quantizer in driver.quantizers[2:]] == [10.0] * 3
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        attention(x, x, x, None, 0.0, 0.5)


def test_scale_follows_weights_initialised_after_the_layer_was_made():
    model = ReCULinear(8, 4)
    nn.init.constant_(model.weight, 0.25)
    MethodDriver(model)
    assert torch.equal(model.weight_quantizer.alpha.data, torch.full((4,), 0.25))


def test_a_scale_that_came_from_a_checkpoint_is_kept():
    source, model = ReCULinear(8, 4), ReCULinear(8, 4)
    source.weight_quantizer.alpha.data.fill_(7.0)
    model.load_state_dict(source.state_dict())
    MethodDriver(model)
    assert torch.equal(model.weight_quantizer.alpha.data, torch.full((4,), 7.0))


def test_a_scale_of_another_width_is_not_taken_for_one_that_came():
    model = ReCULinear(8, 4)
    state = {'weight': torch.full((4, 8), 0.25), 'weight_quantizer.alpha': torch.full((3,), 7.0)}
    with pytest.raises(RuntimeError, match='size mismatch'):  # which mmengine logs, and goes on
        model.load_state_dict(state, strict=False)
    MethodDriver(model)
    assert torch.equal(model.weight_quantizer.alpha.data, torch.full((4,), 0.25))


def test_a_scale_whose_weight_has_another_shape_is_not_kept():
    source, model = ReCULinear(8, 4), ReCULinear(6, 4)
    source.weight_quantizer.alpha.data.fill_(7.0)
    with pytest.raises(RuntimeError, match='size mismatch'):  # which mmengine logs, and goes on
        model.load_state_dict(source.state_dict(), strict=False)
    MethodDriver(model)
    torch.testing.assert_close(model.weight_quantizer.alpha.data, model.weight.data.abs().mean(1))


def test_training_without_it_warns_and_with_it_does_not():
    for layer in (BNNLinear(8, 4), ReCULinear(8, 4)):
        name = type(layer.weight_quantizer).__name__
        with pytest.warns(MissingHookWarning, match=f"{name} is being trained without .*type='BinaryHook'"):
            layer(torch.randn(2, 8))
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            layer.eval()(torch.randn(2, 8))
            MethodDriver(layer).attach(torch.optim.SGD(layer.parameters(), lr=0.1))
            layer.train()(torch.randn(2, 8))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        BinaryLinear(8, 4)(torch.randn(2, 8))


def test_it_does_not_stand_in_for_the_resilient_gradient():
    layer = ReBNNLinear(8, 4)
    MethodDriver(layer).attach(torch.optim.SGD(layer.parameters(), lr=0.1))
    with pytest.warns(MissingHookWarning, match='ReBNNHook'):
        layer(torch.randn(2, 8))


def test_weights_of_a_resumed_run_are_left_as_they_are():
    model = BNNLinear(8, 4)
    model.weight.data.mul_(100)
    values = model.weight.detach().clone()
    MethodDriver(model).attach(torch.optim.SGD(model.parameters(), lr=0.1), resumed=True)
    assert torch.equal(model.weight, values)


def _range_worker(rank, folder):
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 4), Q8BERTActivation(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    MethodDriver(model).attach(optimizer)
    for _ in range(2):
        step(model, optimizer, (1 + rank) * torch.ones(2, 4))
    torch.save(model[1].range, f'{folder}/{rank}.pth')


def test_processes_follow_one_range(tmp_path):
    two_processes.run(_range_worker, str(tmp_path))
    one, two = (torch.load(tmp_path / f'{rank}.pth') for rank in (0, 1))
    assert one > 0 and torch.equal(one, two)
