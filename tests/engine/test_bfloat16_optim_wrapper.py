"""Mixed precision on a processor: what is rounded, what is not."""

from typing import NamedTuple

import pytest
import torch
from mmengine.hooks import Hook

from rebnn_mm.engine import Bfloat16OptimWrapper, bfloat16_optim_wrapper
from tests.engine.small_runner import trained

WRAPPER = dict(type='Bfloat16OptimWrapper', optimizer=dict(type='SGD', lr=0.05))


class Precisions(Hook):
    """Notes what the last convolution gives back in training and in evaluation."""

    def __init__(self):
        self.seen = set()

    def before_train(self, runner):
        def note(module, inputs, output):
            self.seen.add((module.training, output.dtype))

        runner.model.conv2.register_forward_hook(note)
        runner.model.conv2.weight.register_hook(lambda gradient: self.seen.add(('latent weight', gradient.dtype)))

    def after_train(self, runner):
        runner.model.eval()(torch.randn(1, 3, 8, 8), labels=None)


def test_only_the_forward_pass_of_training_is_rounded(tmp_path):
    hook = Precisions()
    runner = trained(tmp_path, optim_wrapper=WRAPPER, custom_hooks=[dict(type='ReBNNHook'), hook])
    assert isinstance(runner.optim_wrapper, Bfloat16OptimWrapper)
    assert hook.seen == {(True, torch.bfloat16), (False, torch.float32), ('latent weight', torch.float32)}


def test_accumulated_gradients_belong_to_one_step():
    model = torch.nn.Linear(4, 2)
    wrapper = Bfloat16OptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=1.0), accumulative_counts=2)
    start = model.weight.clone()
    for moved in (False, True):
        with wrapper.optim_context(model):
            loss = model(torch.ones(1, 4)).sum()
        wrapper.update_params(loss)
        assert torch.equal(model.weight, start) is not moved


def test_what_a_head_gives_is_float32_in_whatever_holds_it():
    class Scores(NamedTuple):
        levels: list
        names: str

    made = torch.ones(2, dtype=torch.bfloat16)
    found = bfloat16_optim_wrapper._in_float32({'scores': Scores([made], 'one'), 'boxes': (made,)})
    assert isinstance(found['scores'], Scores) and found['scores'].names == 'one'
    assert found['scores'].levels[0].dtype == found['boxes'][0].dtype == torch.float32


@pytest.mark.parametrize('fast', [True, False])
def test_a_processor_that_is_slower_with_it_is_warned_of(fast, monkeypatch):
    said = []
    monkeypatch.setattr(bfloat16_optim_wrapper, 'multiplies_bfloat16', lambda: fast)
    monkeypatch.setattr(bfloat16_optim_wrapper, 'get_device', lambda: 'cpu')
    monkeypatch.setattr(bfloat16_optim_wrapper, 'print_log', lambda text, *rest: said.append(text))
    Bfloat16OptimWrapper(optimizer=torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=1.0))
    assert ['several times longer' in text for text in said] == ([] if fast else [True])
