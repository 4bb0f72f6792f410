"""Binary layers next to ordinary features of PyTorch: right, or refused in one sentence."""

import copy
import io
import math
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from mmengine.optim import OptimWrapper
from mmengine.registry import MODELS
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from lab.device.steps import Waits
from rebnn_mm import binarize, export_file
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.engine import FlipRecorder, FreezingHook, MethodDriver, ResilientGradient, TransitionRateHook
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import BNNLinear, OvSWLinear, ReBNNConv2d, ReBNNLinear, SiMaNLinear
from rebnn_mm.quantizers import MissingHookWarning, Values
from rebnn_mm.quantizers import base as quantizers_base
from rebnn_mm.quantizers.shared import BinaryMeanScaleWeight, BinarySign
from rebnn_mm.registry import BLOCKS, list_classes
from tests import two_processes

METHODS = sorted(name for name in list_classes(BinaryConv2d))
pytestmark = pytest.mark.filterwarnings('ignore', category=MissingHookWarning)


def block(memory='plain', style='react', method='ReBNNConv2d'):
    torch.manual_seed(0)
    made = BLOCKS.build(
        dict(type=style, in_channels=8, out_channels=8, conv_cfg=dict(type=method, memory=memory)),
    )
    with torch.no_grad():
        for conv in (made.conv1, made.conv2):
            conv.weight.mul_(5)  # some beyond 1, where the mask is
    return made


def images():
    return torch.randn(4, 8, 6, 6, generator=torch.Generator().manual_seed(1))


def gradients(model, x=None):
    model.zero_grad()
    model(images() if x is None else x).square().mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, msg=name)


MEMORIES = ['plain', 'sums', 'recompute']


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_gradient_hook_fires_once(memory):
    model = block(memory)
    expected = gradients(model)
    model.conv1.weight.register_hook(lambda g: 2 * g)
    found = gradients(model)
    torch.testing.assert_close(found['conv1.weight'], 2 * expected['conv1.weight'])


@pytest.mark.parametrize('memory', MEMORIES)
def test_gradients_of_two_losses_of_one_pass(memory):
    model, plain = block(memory), block()
    y = model(images())
    for power in (1, 2):
        (found,) = torch.autograd.grad(y.pow(power).sum(), model.conv1.weight, retain_graph=True)
        (expected,) = torch.autograd.grad(plain(images()).pow(power).sum(), plain.conv1.weight)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize('reentrant', [True, False])
@pytest.mark.parametrize('memory', MEMORIES)
def test_checkpointing_of_the_users_own(memory, reentrant):
    model = block(memory)
    y = checkpoint(model, images().requires_grad_(), use_reentrant=reentrant)
    y.square().mean().backward()
    assert_equal({name: p.grad for name, p in model.named_parameters()}, gradients(block()))


@pytest.mark.parametrize('memory', MEMORIES)
def test_functional_call_with_foreign_parameters(memory):
    model, other = block(memory), block('plain')
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.1)
    expected = gradients(other)
    foreign = {name: p.detach().clone().requires_grad_() for name, p in other.named_parameters()}
    functional_call(model, foreign, (images(),)).square().mean().backward()
    assert_equal({name: p.grad for name, p in foreign.items()}, expected)
    assert all(p.grad is None for p in model.parameters())


def test_replicas_of_data_parallel_have_gradients_and_a_bias():
    """Replicas hold plain tensors as attributes, which is what CUDA's replication leaves of parameters."""
    conv = ReBNNConv2d(8, 8, 3)
    x = images()
    expected = conv(x).detach()
    rule = ResilientGradient(conv).attach(torch.optim.SGD(conv.parameters(), lr=0.1))
    replicas = {name: part._replicate_for_data_parallel() for name, part in conv.named_modules()}
    for name, part in conv.named_modules():
        for key, parameter in part._parameters.items():
            setattr(replicas[name], key, None if parameter is None else parameter.detach().clone().requires_grad_())
        replicas[name]._modules = {key: replicas[f'{name}.{key}'.lstrip('.')] for key in part._modules}
    replica = replicas['']
    with warnings.catch_warnings():
        warnings.simplefilter('error', MissingHookWarning)
        y = replica(x)
    rule.detach()
    torch.testing.assert_close(y, expected)
    y.square().mean().backward()
    assert replica.weight.grad.abs().sum() > 0 and replica.bias.grad.abs().sum() > 0


def trained(steps=3, closure=False, memory='plain', model=None, **sgd):
    model = block(memory) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, **sgd)
    resilient, driver = ResilientGradient(model).attach(optimizer), MethodDriver(model).attach(optimizer)
    for seed in range(steps):
        driver.begin_epoch()
        x = torch.randn(4, 8, 6, 6, generator=torch.Generator().manual_seed(seed))

        def loss(x=x):
            optimizer.zero_grad()
            found = model(x).square().mean()
            found.backward()
            return found

        if closure == 'keyword':
            optimizer.step(closure=loss)
        elif closure:
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()
    assert all(layer.steps == steps for layer in resilient.layers)
    return model


@pytest.mark.parametrize('closure', [True, 'keyword'])
def test_a_step_with_a_closure_is_the_step(closure):
    assert_equal(trained(closure=closure).state_dict(), trained().state_dict())


def test_a_step_of_several_gradients_is_refused():
    model = block()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=3)
    ResilientGradient(model).attach(optimizer)

    def loss():
        optimizer.zero_grad()
        found = model(images()).square().mean()
        found.backward()
        return found

    with pytest.raises(ValueError, match='LBFGS computes the gradient more than once in a step, and Resil'):
        optimizer.step(loss)


class SAM(torch.optim.Optimizer):
    def __init__(self, base_optimizer):
        super().__init__(base_optimizer.param_groups, {})
        self.base_optimizer = base_optimizer

    def first_step(self):
        pass

    def second_step(self):
        self.base_optimizer.step()


def test_an_optimizer_of_two_steps_is_refused_and_its_base_is_not():
    model = block()
    sam = SAM(torch.optim.SGD(model.parameters(), lr=0.1))
    for rule in (ResilientGradient, MethodDriver, FlipRecorder):
        with pytest.raises(ValueError, match=r'steps by first_step\(\) and second_step\(\).*base_optimizer'):
            rule(model).attach(sam)
    resilient = ResilientGradient(model).attach(sam.base_optimizer)
    gradients(model)
    sam.second_step()
    assert all(layer.steps == 1 for layer in resilient.layers)


@pytest.mark.parametrize(('rule', 'method'), [(ResilientGradient, 'ReBNNConv2d'), (MethodDriver, 'OvSWConv2d')])
def test_a_rule_that_adds_to_gradients_is_refused_where_they_are_climbed(rule, method):
    model = block(method=method)
    with pytest.raises(match='adds to gradients what a step has to take off. Turn the sign of the loss'):
        rule(model).attach(torch.optim.SGD(model.parameters(), lr=0.1, maximize=True))
    FlipRecorder(model).attach(torch.optim.SGD(model.parameters(), lr=0.1, maximize=True))


def test_a_rule_that_sees_passes_and_no_step_warns(monkeypatch):
    monkeypatch.setattr(quantizers_base, 'PASSES_WITHOUT_STEP', 3)
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ResilientGradient(model).attach(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter('error', MissingHookWarning)
        for _ in range(2):
            gradients(model)
        optimizer.step()
        for _ in range(2):
            gradients(model)
    with pytest.warns(MissingHookWarning, match=r'3 training passes and no step of the optimizer'):
        gradients(model)


def test_weights_given_to_the_optimizer_later_are_constrained():
    net = nn.Sequential(BNNLinear(6, 5), BNNLinear(5, 3))
    optimizer = torch.optim.SGD(net[0].parameters(), lr=100.0)
    MethodDriver(net).attach(optimizer)
    optimizer.add_param_group(dict(params=list(net[1].parameters())))
    gradients(net, torch.randn(8, 6))
    optimizer.step()
    assert all(layer.weight.abs().max() <= 1 for layer in net)


def test_weights_of_an_optimizer_without_the_rule_warn(monkeypatch):
    monkeypatch.setattr(quantizers_base, 'PASSES_WITHOUT_STEP', 3)
    net = nn.Sequential(BNNLinear(6, 5), BNNLinear(5, 3))
    first, second = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in net)
    MethodDriver(net).attach(first)
    for _ in range(2):
        gradients(net, torch.randn(8, 6))
        first.step()
        second.step()
    with pytest.warns(MissingHookWarning, match=r'3 training passes and no step of the optimizer'):
        gradients(net, torch.randn(8, 6))


def test_layers_given_to_model_and_optimizer_later_warn():
    net = nn.Sequential(ReBNNLinear(6, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    resilient = ResilientGradient(net).attach(optimizer)
    net.append(ReBNNLinear(5, 3))
    optimizer.add_param_group(dict(params=list(net[1].parameters())))
    with pytest.warns(MissingHookWarning, match='without the resilient gradient') as seen:
        gradients(net, torch.randn(8, 6))
    assert len(seen) == 1 and len(resilient) == 1


def test_two_networks_under_one_rule_train_as_under_two():
    """As a GAN does: an optimizer for each, and the gradient of one goes through the other."""

    def train(rules):
        torch.manual_seed(0)
        one, other = (nn.Sequential(ReBNNLinear(6, 5), nn.Tanh(), ReBNNLinear(5, 6)) for _ in range(2))
        first, second = (torch.optim.Adam(net.parameters(), lr=1e-2) for net in (one, other))
        rules(nn.ModuleList([one, other]), first, second)
        for _ in range(5):
            x = torch.randn(8, 6)
            other.requires_grad_(False)
            first.zero_grad()
            other(one(x)).square().mean().backward()
            first.step()
            other.requires_grad_(True)
            second.zero_grad()
            (other(x).square() - other(one(x).detach())).mean().backward()
            second.step()
        return nn.ModuleList([one, other]).state_dict()

    def together(both, *optimizers):
        for rule in (ResilientGradient(both), MethodDriver(both)):
            for optimizer in optimizers:
                rule.attach(optimizer)

    def apart(both, *optimizers):
        for net, optimizer in zip(both, optimizers, strict=True):
            together(net, optimizer)

    assert_equal(train(together), train(apart))


def test_steps_that_a_scaler_skips_are_none():
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler('cpu', init_scale=4.0)
    resilient, recorder = (rule(model).attach(optimizer) for rule in (ResilientGradient, FlipRecorder))
    for skipped in (False, True, False):
        optimizer.zero_grad()
        scaler.scale(model(images()).square().mean()).backward()
        if skipped:
            model.conv1.weight.grad[0] = math.inf
        scaler.step(optimizer)
        scaler.update()
    assert [layer.steps for layer in resilient.layers] == [2, 2]
    assert [counts.steps for counts in recorder.take_counts().values()] == [2, 2]


@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver, FlipRecorder])
def test_a_fused_step_under_loss_scaling_is_refused(rule):
    """It is called for steps that it skips, too."""
    model = block(method='ReBNNConv2d' if rule is ResilientGradient else 'XNORConv2d')
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, fused=True)
    rule(model).attach(optimizer)
    scaler = torch.amp.GradScaler('cpu')
    scaler.scale(model(images()).square().mean()).backward()
    with pytest.raises(ValueError, match=f'{rule.__name__}: optimizer SGD.fused=True. with AMP sees scaled gradients'):
        scaler.step(optimizer)


def test_a_copy_of_model_and_optimizer_has_no_rule_and_says_so():
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rules = ResilientGradient(model).attach(optimizer), MethodDriver(model).attach(optimizer)
    other, stepped = copy.deepcopy((model, optimizer))
    with pytest.warns(MissingHookWarning, match='without the resilient gradient'):
        found = gradients(other)
    expected = {name: p.detach() - 0.1 * found[name] for name, p in other.named_parameters()}
    stepped.step()
    assert_equal(dict(other.named_parameters()), expected)
    assert all(layer.steps == 0 for layer in rules[0].layers)


def test_a_weight_that_layers_share_has_its_rule_once():
    torch.manual_seed(0)
    first, second = (
        MODELS.build(dict(type='OvSWConv2d', in_channels=4, out_channels=4, kernel_size=3, padding=1, bias=False))
        for _ in range(2)
    )
    second.weight = first.weight
    net = nn.Sequential(first, second)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    MethodDriver(net).attach(optimizer)
    first.weight.grad = torch.randn_like(first.weight)
    expected = first.weight.detach().clone()
    expected.grad = first.weight.grad.clone()
    first.weight_quantizer.before_step(expected)
    optimizer.step()
    assert torch.equal(first.weight.grad, expected.grad)


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize('duplicate', [copy.deepcopy, saved_and_loaded, lambda model: AveragedModel(model).module])
def test_a_copy_has_no_rule_and_says_so(duplicate):
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    resilient = ResilientGradient(model).attach(optimizer)
    other = duplicate(model)
    with pytest.warns(MissingHookWarning, match='without the resilient gradient'):
        expected = gradients(other)
    with warnings.catch_warnings():
        warnings.simplefilter('error', MissingHookWarning)
        assert_equal(gradients(model), expected)
    resilient.detach()


@pytest.mark.parametrize('memory', ['sums', 'recompute'])
def test_dropout_in_a_block(memory):
    def with_dropout(kept):
        model = block(kept)
        model.act1 = nn.Sequential(model.act1, nn.Dropout(0.5))
        torch.manual_seed(2)
        return gradients(model)

    assert_equal(with_dropout(memory), with_dropout('plain'))


class NoisySign(BinarySign):
    values = Values('signs', sign_of='other')

    def quantize(self, x):
        return super().quantize(x + torch.rand_like(x) - 0.5)


@pytest.mark.parametrize('memory', ['sums', 'recompute'])
def test_a_quantizer_that_draws_random_numbers(memory):
    def noisy(kept):
        model = block(kept)
        for conv in (model.conv1, model.conv2):
            conv.activation_quantizer = NoisySign(8, -3)
        torch.manual_seed(2)
        return gradients(model)

    assert_equal(noisy(memory), noisy('plain'))


@pytest.mark.parametrize('memory', MEMORIES)
@pytest.mark.parametrize(
    'norm', [nn.BatchNorm2d, lambda channels: nn.InstanceNorm2d(channels, track_running_stats=True)]
)
def test_running_statistics_follow_a_batch_once(memory, norm):
    model, expected = block(memory), block('plain')
    for part in (model, expected):
        part.bn1 = norm(8)
    gradients(model)
    expected(images())
    assert_equal(dict(model.named_buffers()), dict(expected.named_buffers()))


@pytest.mark.parametrize('reentrant', [True, False])
def test_a_range_follows_a_batch_once(reentrant):
    layer = BinaryConv2d(8, 8, 3, activation=dict(type='Q8BERTActivation', decay=0.5))
    for factor in (1, 2, 3):
        x = (factor * images()).requires_grad_()
        checkpoint(layer, x, use_reentrant=reentrant).square().mean().backward()
    assert layer.activation_quantizer.range == 2.25 * images().abs().max()


class Regularised(BinaryMeanScaleWeight):
    def forward(self, weight):
        self.penalty = weight.square().sum()
        return super().forward(weight)


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_quantizer_that_stores_a_regulariser(memory):
    model = block(memory)
    model.conv1.weight_quantizer = Regularised((8, 8, 3, 3))
    y = model(images())
    (y.square().mean() + model.conv1.weight_quantizer.penalty).backward()
    expected = gradients(model)['conv1.weight'] + 2 * model.conv1.weight.detach()
    model.zero_grad()
    y = model(images())
    (y.square().mean() + model.conv1.weight_quantizer.penalty).backward()
    torch.testing.assert_close(model.conv1.weight.grad, expected)


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_forward_hook_that_changes_the_signs(memory):
    model = block(memory)
    gradients(model)  # the first step looks at the values once
    model.conv1.activation_quantizer.register_forward_hook(lambda module, args, y: 2 * y)
    conv = block().conv1
    signs, weight = conv.activation_quantizer(images()), conv.weight_quantizer(conv.weight)
    expected = torch.nn.functional.conv2d(2 * signs, weight, padding=1)
    torch.testing.assert_close(model.conv1(images()), expected)
    with torch.no_grad():
        torch.testing.assert_close(model.conv1(images()), expected)


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_forward_hook_that_changes_the_weight(memory):
    model = block(memory)
    expected = 2 * model.conv1(images()).detach()
    model.conv1.weight_quantizer.register_forward_hook(lambda module, args, y: 2 * y)
    torch.testing.assert_close(model.conv1(images()).detach(), expected)
    with torch.no_grad():
        torch.testing.assert_close(model.eval().conv1(images()), expected)


def test_a_replica_without_a_shift_learns_from_images():
    conv = MODELS.build(
        dict(type='BNNConv2d', in_channels=8, out_channels=4, kernel_size=3, activation=dict(type='BinarySign'))
    )
    replica = conv._replicate_for_data_parallel()
    replica.weight = conv.weight.detach().clone().requires_grad_()
    replica.bias = conv.bias.detach().clone()
    replica(images()).square().mean().backward()
    assert replica.weight.grad.abs().sum() > 0


@pytest.mark.parametrize('memory', MEMORIES)
def test_operations_are_counted(memory):
    real = block(memory, method='ReBNNConv2d')
    with FlopCounterMode(display=False) as counter:
        real(images()).square().mean().backward()
    # Forward, and for the input's and the weight's gradient once each; the first input needs none.
    each = 2 * 4 * 36 * 8 * 8 * 9
    assert counter.get_total_flops() >= 2 * each


def test_hooks_on_several_gradients():
    model = block('sums')
    called = []
    torch.autograd.graph.register_multi_grad_hook(list(model.parameters()), lambda grads: called.append(len(grads)))
    gradients(model)
    assert called == [len(list(model.parameters()))]


@pytest.mark.parametrize('memory', MEMORIES)
def test_a_trace_with_gradients(memory):
    model = block(memory).eval()
    traced = torch.jit.trace(model, images())
    torch.testing.assert_close(traced(images()), model(images()))


@pytest.mark.parametrize('memory', MEMORIES)
def test_an_exported_program_computes_what_the_model_does(memory):
    model = block(memory).eval()
    exported = torch.export.export(model, (images(),)).module()
    assert torch.equal(exported(images()), model(images()))
    with pytest.raises(match=r'torch.export drops the gradients of signs.* Export in evaluation mode'):
        torch.export.export(model.train(), (images(),))


def test_a_graph_of_fx_has_a_node_for_each_layer_and_learns():
    """As torchvision's create_feature_extractor makes one."""
    model = nn.Sequential(nn.Conv2d(8, 8, 1), ReBNNConv2d(8, 8, 3, padding=1))
    traced = torch.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes] == ['placeholder', 'call_module', 'call_module', 'output']
    assert_equal(gradients(traced), gradients(model))
    assert type(traced.get_submodule('1')) is ReBNNConv2d


@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver, FlipRecorder])
def test_a_weight_that_is_computed_is_refused(rule):
    model = block()
    parametrizations.weight_norm(model.conv1)
    with pytest.raises(match=r"'conv1': its weight is computed of other parameters \(weight_norm, pruning"):
        rule(model)


def test_pruning_is_refused_without_a_rule_where_signs_are_and_nowhere_else():
    """A weight that is pruned to 0 would go on as +1."""
    layer = BinaryConv2d(8, 8, 3)
    with pytest.raises(ValueError, match=r'BinaryConv2d: its weight is computed of other parameters.* Leave that out'):
        prune.l1_unstructured(layer, 'weight', 0.5)
    assert layer(images()).shape == (4, 8, 4, 4) and not layer._forward_pre_hooks
    real = prune.l1_unstructured(BinaryConv2d(8, 8, 3, weight=None), 'weight', 0.5)
    assert (real.weight == 0).sum() == 288


def test_tied_weights():
    first, second = BinaryConv2d(8, 8, 3, padding=1, bias=False), BinaryConv2d(8, 8, 3, padding=1, bias=False)
    second.weight = first.weight
    net = nn.Sequential(first, second)
    gradients(net)
    assert second.weight is first.weight and first.weight.grad.abs().sum() > 0


def test_tied_weights_under_one_rule_are_refused():
    net = nn.Sequential(ReBNNLinear(4, 4), ReBNNLinear(4, 4))
    net[1].weight = net[0].weight
    with pytest.raises(ValueError, match=r"'0' and '1' share one weight"):
        ResilientGradient(net).attach(torch.optim.SGD(net.parameters(), lr=0.1))


@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver])
def test_a_second_rule_on_a_layer_is_refused(rule):
    model = block()
    first = rule(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ValueError, match=r'attached to another .*, whose rules would run twice'):
        rule(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))
    first.detach()
    rule(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))


class Prepared(torch.optim.Optimizer):
    """A wrapper that is an optimizer by its class alone, as accelerate's."""

    def __init__(self, optimizer):
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups

    def step(self, closure=None):
        self.optimizer.step(closure)


@pytest.mark.parametrize('wrapper', [OptimWrapper, Prepared])
@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver, FlipRecorder])
def test_a_wrapper_that_is_no_optimizer_is_refused(rule, wrapper):
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        ValueError, match=r'was not set up as a torch\.optim\.Optimizer.* Attach to the optimizer that'
    ):
        rule(model).attach(wrapper(optimizer))
    rule(model).attach(optimizer)


def test_a_rule_that_is_detached_once_more_leaves_another_one():
    model = BNNLinear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = MethodDriver(model).attach(optimizer)
    first.detach()
    second = MethodDriver(model).attach(optimizer)
    first.detach()
    assert model.weight_quantizer.driven
    second.detach()
    assert not model.weight_quantizer.driven


@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver, FlipRecorder])
def test_a_rule_attached_to_an_optimizer_twice_is_refused(rule):
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attached = rule(model).attach(optimizer)
    with pytest.raises(ValueError, match=f'{rule.__name__} is attached to this SGD and would run twice'):
        attached.attach(optimizer)
    attached.detach()
    attached.attach(optimizer)


@pytest.mark.parametrize('method', METHODS)
def test_gradients_by_torch_func(method):
    torch.manual_seed(0)
    conv = MODELS.build(dict(type=method, in_channels=4, out_channels=3, kernel_size=3, padding=1))
    x = torch.randn(2, 4, 5, 5)
    conv(x).square().sum().backward()
    names = dict(conv.named_parameters())

    def loss(parameters, image):
        return functional_call(conv, parameters, (image,)).square().sum()

    found = grad(loss)({name: p.detach() for name, p in names.items()}, x)
    for name, p in names.items():
        torch.testing.assert_close(found[name], p.grad, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize('method', ['ReBNNConv2d', 'XNORConv2d', 'BNNConv2d', 'IRNetConv2d'])
def test_gradients_of_each_sample(method):
    torch.manual_seed(0)
    conv = MODELS.build(dict(type=method, in_channels=4, out_channels=3, kernel_size=3, padding=1))
    parameters = {name: p.detach() for name, p in conv.named_parameters()}
    x = torch.randn(3, 4, 5, 5)

    def loss(parameters, image):
        return functional_call(conv, parameters, (image[None],)).square().sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for name, found in together.items():
        alone = torch.stack([grad(loss)(parameters, image)[name] for image in x])
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize('method', METHODS)
def test_the_meta_device(method):
    """In deterministic mode, too, in which that device refuses what CUDA refuses."""
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with torch.device('meta'):
            conv = MODELS.build(dict(type=method, in_channels=4, out_channels=3, kernel_size=3, padding=1))
            y = conv(torch.randn(2, 4, 5, 5))
            y.sum().backward()
    finally:
        torch.use_deterministic_algorithms(was)
    assert y.shape == (2, 3, 5, 5) and conv.weight.grad.is_meta


def test_one_graph_without_a_hook():
    model = block()
    expected = gradients(model)
    compiled = torch.compile(model, backend='aot_eager', fullgraph=True)
    model.zero_grad()
    compiled(images()).square().mean().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, expected[name], rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize('method', ['BNNLinear', 'FDALinear', 'ReSTELinear'])
def test_layers_of_free_sizes_compile(method):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(*(MODELS.build(dict(type=method, in_features=8, out_features=8)) for _ in range(2))).eval()
    compiled = torch.compile(model, backend='aot_eager', dynamic=True)
    for size in (5, 7):
        x, y = (torch.linspace(-1, 1, 8 * size).view(size, 8).requires_grad_() for _ in range(2))
        compiled(x).square().sum().backward()
        model(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


@pytest.fixture
def group(tmp_path):
    dist.init_process_group('gloo', init_method=f'file://{tmp_path}/group', rank=0, world_size=1)
    yield dist.init_device_mesh('cpu', (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize('method', METHODS)
def test_fsdp2_trains_as_one_process(method, group):
    from torch.distributed.fsdp import fully_shard

    expected = trained(model=block(method=method))
    model = block(method=method)
    fully_shard(model, mesh=group)
    trained(model=model)
    found = {name: v.full_tensor() if hasattr(v, 'full_tensor') else v for name, v in model.state_dict().items()}
    assert_equal(found, expected.state_dict())


@pytest.mark.parametrize('rule', [ResilientGradient, MethodDriver, FlipRecorder])
def test_fsdp1_is_refused_for_every_method(rule, group):
    from torch.distributed.fsdp import FullyShardedDataParallel

    for method in ('ReBNNConv2d', 'IRNetConv2d'):
        model = FullyShardedDataParallel(block(method=method), use_orig_params=True, device_id=torch.device('cpu'))
        with pytest.raises(ValueError, match='FullyShardedDataParallel flattens parameters.*fully_shard'):
            rule(model).attach(torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize('hook', [FreezingHook, TransitionRateHook])
def test_hooks_that_look_at_all_signs_refuse_sharded_weights(hook, group):
    from torch.distributed.fsdp import fully_shard

    model = BNNLinear(4, 4)
    fully_shard(model)
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ValueError, match=f'{hook.__name__}: the weight of layer .* is sharded'):
        hook().before_train(SimpleNamespace(model=model, optim_wrapper=wrapper, iter=0, max_iters=8, hooks=[]))


def linear_net():
    """5, 3 and 1 channels over 2 processes, of methods whose rules look at a channel, at a weight and at flips."""
    torch.manual_seed(0)
    layers = ReBNNLinear(6, 5), nn.Tanh(), SiMaNLinear(5, 3), nn.Tanh(), OvSWLinear(3, 3), nn.Tanh(), ReBNNLinear(3, 1)
    net = nn.Sequential(*layers).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight.mul_(4)
    return net


def steps_of(net, share):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    ResilientGradient(net).attach(optimizer)
    MethodDriver(net).attach(optimizer)
    for seed in range(4):
        x = torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))[share]
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def shard_and_train(rank, folder):
    from torch.distributed.fsdp import fully_shard

    net = linear_net()
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    steps_of(net, slice(4 * rank, 4 * rank + 4))
    whole = {name: v.full_tensor() if hasattr(v, 'full_tensor') else v for name, v in net.state_dict().items()}
    if rank == 0:
        torch.save(whole, f'{folder}/state.pth')


def test_fsdp2_in_two_processes_is_one_with_the_joined_batch(tmp_path):
    two_processes.run(shard_and_train, str(tmp_path))
    expected = linear_net()
    steps_of(expected, slice(None))
    assert_equal(torch.load(tmp_path / 'state.pth'), expected.state_dict())


@pytest.mark.parametrize('style', ['react', 'hardtanh'])
@pytest.mark.parametrize('method', METHODS)
def test_a_step_waits_for_no_value(method, style):
    model = block(style=style, method=method)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if len(resilient := ResilientGradient(model)):
        resilient.attach(optimizer)
    MethodDriver(model).attach(optimizer)
    gradients(model)  # the first step looks at the values once
    optimizer.step()
    with Waits():
        gradients(model)
        optimizer.step()


def test_a_backbone_whose_train_gives_nothing_back_is_made_binary_counted_and_exported(tmp_path):
    model = MODELS.build(dict(type='mmpretrain.ResNet', depth=18, norm_cfg=dict(type='BN'), out_indices=(3,)))
    assert model.eval() is None
    binarize(model, dict(type='ReBNNConv2d'), example=torch.randn(1, 3, 64, 64))
    assert network_cost(model, (64, 64)).macs > 0
    export_file(model, tmp_path / 'backbone.onnx', size=(64, 64))
    assert (tmp_path / 'backbone.onnx').is_file()
