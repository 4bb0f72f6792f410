"""Compiled training gives what training gives."""

import copy
import shutil
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from rebnn_mm.engine import CompileHook, MethodDriver, ResilientGradient
from rebnn_mm.methods import (
    BiDetConv2d,
    BiPerConv2d,
    BiRealConv2d,
    BNNConv2d,
    DoReFaConv2d,
    FDAConv2d,
    IRNetConv2d,
    OvSWConv2d,
    RBNNConv2d,
    ReActConv2d,
    ReBNNConv2d,
    ReCUConv2d,
    ReSTEConv2d,
    SiMaNConv2d,
    XNORConv2d,
)
from tests.engine.small_runner import trained

LAYERS = (
    BNNConv2d,
    XNORConv2d,
    DoReFaConv2d,
    BiRealConv2d,
    RBNNConv2d,
    ReCUConv2d,
    ReActConv2d,
    FDAConv2d,
    BiDetConv2d,
    ReBNNConv2d,
    IRNetConv2d,
    ReSTEConv2d,
    OvSWConv2d,
    BiPerConv2d,
    SiMaNConv2d,
)
HOOK = dict(type='CompileHook', part='conv1', backend='aot_eager')


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def layer_and_images(kind):
    torch.manual_seed(0)
    layer = kind(4, 6, 3, padding=1, bias=False).double()
    driver = ResilientGradient if kind is ReBNNConv2d else MethodDriver
    driver(layer).attach(torch.optim.SGD(layer.parameters(), lr=0.1))
    return layer.train(), torch.randn(2, 4, 5, 5, dtype=torch.float64, requires_grad=True)


def gradients(call, layer, images):
    layer.zero_grad()
    (images_grad,) = torch.autograd.grad(call(images).square().sum(), images)
    call(images).square().sum().backward()
    return {
        'images': images_grad,
        **{name: p.grad.clone() for name, p in layer.named_parameters() if p.grad is not None},
    }


def counted(runner):
    """What the recorder has written, and the flips and steps that the rule has counted by layer."""
    lines = next(Path(runner.work_dir).rglob('binary_weights.jsonl')).read_text()
    rule = next(hook.resilient for hook in runner.hooks if hasattr(hook, 'resilient'))
    return lines, [(layer.counts.all_flips, layer.counts.all_steps) for layer in rule.layers]


@pytest.mark.parametrize('kind', [*LAYERS[:10], *(pytest.param(kind, marks=pytest.mark.slow) for kind in LAYERS[10:])])
def test_a_layer_of_every_method_is_one_graph(kind):
    layer, images = layer_and_images(kind)
    torch.manual_seed(1)
    ours = gradients(torch.compile(layer, backend='aot_eager', fullgraph=True), layer, images)
    torch.manual_seed(1)
    theirs = gradients(layer, layer, images)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which('g++') is None, reason='the default backend of torch.compile needs g++')
def test_the_default_backend_agrees_in_double_precision():
    layer, images = layer_and_images(ReBNNConv2d)
    ours = gradients(torch.compile(layer, fullgraph=True), layer, images)
    for name, gradient in gradients(layer, layer, images).items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-10, atol=1e-12, msg=name)


def test_training_gives_the_same_weights(tmp_path):
    eager = trained(tmp_path / 'eager', custom_hooks=[dict(type='ReBNNHook')])
    assert counters['frames']['ok'] == 0
    compiled = trained(tmp_path / 'compiled', custom_hooks=[dict(type='ReBNNHook'), HOOK])
    assert counters['frames']['ok'] > 0
    for name, value in eager.model.state_dict().items():
        torch.testing.assert_close(compiled.model.state_dict()[name], value, rtol=1e-5, atol=1e-6, msg=name)


def test_what_hooks_do_around_a_step_is_compiled(tmp_path):
    hooks = [dict(type='ReBNNHook'), dict(type='BinaryWeightRecorderHook')]
    eager = trained(tmp_path / 'eager', custom_hooks=[*hooks, HOOK])
    graphs = counters['stats']['unique_graphs']
    torch._dynamo.reset()
    counters.clear()
    compiled = trained(tmp_path / 'compiled', custom_hooks=[*hooks, dict(HOOK, steps=dict(backend='aot_eager'))])
    assert counters['stats']['unique_graphs'] >= graphs + 3 and not counters['graph_break']
    assert counted(compiled) == counted(eager)
    assert all(flips > 0 and steps == 8 for flips, steps in counted(eager)[1])
    for name, value in eager.model.state_dict().items():
        torch.testing.assert_close(compiled.model.state_dict()[name], value, rtol=1e-5, atol=1e-6, msg=name)


def test_evaluation_is_not_compiled(tmp_path):
    runner = trained(tmp_path / 'run', custom_hooks=[dict(type='ReBNNHook'), HOOK])
    hook = next(hook for hook in runner.hooks if type(hook).__name__ == 'CompileHook')
    model = copy.deepcopy(runner.model).eval()
    model.conv1.compile(backend='aot_eager')
    before = counters['frames']['total']
    for begin, end in ((hook.before_val, hook.after_val), (hook.before_test, hook.after_test)):
        begin(runner)
        model.conv1(torch.randn(1, 8, 8, 8))
        assert counters['frames']['total'] == before
        end(runner)
    model.conv1(torch.randn(1, 8, 8, 8))
    assert counters['frames']['total'] > before


def test_a_torch_that_is_too_old_is_named_before_training(tmp_path, monkeypatch):
    monkeypatch.delattr(torch.compiler, 'set_stance')
    message = r'CompileHook needs torch 2.6 or newer, this is .*: update torch, or take the hook out'
    with pytest.raises(RuntimeError, match=message):
        trained(tmp_path / 'run', custom_hooks=[dict(type='ReBNNHook'), HOOK])
    hook = CompileHook()
    hook.before_val(None)  # where nothing was compiled, evaluation needs nothing
    hook.after_val(None)


def test_a_part_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"has no part 'backbone'. Name one of its modules: .*stem, conv1"):
        trained(tmp_path / 'run', custom_hooks=[dict(type='ReBNNHook'), dict(type='CompileHook')])
