import threading

import pytest
import torch
from torch import nn

from rebnn_mm.functional import replay
from rebnn_mm.functional.replay import compute, smallest_type


class Part(nn.Module):
    """A norm between two products whose values go over the tape."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.norm = nn.BatchNorm1d(4)
        self.computed = 0

    def product(self, x):
        self.computed += 1
        return (x @ self.weight.detach().sign()).round()

    def forward(self, x):
        tape = replay.current_tape() or replay.Tape('gradients')
        sums, _ = tape.product(lambda: (self.product(x.detach().sign()), None), 4)
        return self.norm(sums + x @ self.weight).relu() + x


def kept(memory, part, x):
    found = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: found.append(t) or t, lambda t: t):
        y = compute(part, x, [part], memory)
    own = {id(p) for p in part.parameters()}
    return y, [t for t in found if id(t) not in own]


@pytest.fixture
def part():
    torch.manual_seed(0)
    return Part()


def result(memory, part):
    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    part.zero_grad()
    y = compute(part, x, [part], memory)
    y.backward(torch.randn_like(y))
    return [y.detach(), x.grad, *(p.grad.clone() for p in part.parameters())]


@pytest.mark.parametrize('memory', ['sums', 'recompute'])
def test_values_and_gradients_are_the_parts_own(part, memory):
    for ours, theirs in zip(result(memory, part), result('plain', part), strict=True):
        assert torch.equal(ours, theirs)


def test_keeps_the_input_and_the_sums_as_bytes(part):
    x = torch.randn(6, 4, requires_grad=True)
    _, found = kept('sums', part, x)
    assert [(t.dtype, tuple(t.shape)) for t in found] == [(torch.float32, (6, 4)), (torch.int8, (6, 4))]
    _, found = kept('recompute', part, x)
    assert [t.dtype for t in found] == [torch.float32]
    assert found[0].data_ptr() == x.data_ptr()


def test_sums_are_computed_again_only_where_that_is_asked_for(part):
    for memory, times in (('sums', 1), ('recompute', 2), ('plain', 1)):
        part.computed = 0
        result(memory, part)
        assert part.computed == times, memory


@pytest.mark.parametrize('memory', ['sums', 'recompute'])
def test_statistics_follow_a_batch_once(part, memory):
    result(memory, part)
    assert part.norm.num_batches_tracked == 1 and part.norm.track_running_stats
    followed = part.norm.running_mean.clone()
    part.norm.reset_running_stats()
    result('plain', part)
    assert torch.equal(part.norm.running_mean, followed)


def test_statistics_follow_again_after_an_error(part):
    guard = replay.statistics_kept([part.norm])
    guard.__enter__()
    assert not part.norm.track_running_stats
    assert not guard.__exit__(RuntimeError, RuntimeError('inside'), None), 'the error goes on'
    assert part.norm.track_running_stats


def test_a_weight_changed_between_the_passes_is_noticed(part):
    y = compute(part, torch.randn(6, 4, requires_grad=True), [part], 'sums')
    with torch.no_grad():
        part.weight.add_(1)
    with pytest.raises(RuntimeError, match='modified by an inplace operation'):
        y.sum().backward()


def test_frozen_parameters_and_inputs_get_no_gradient(part):
    part.weight.requires_grad_(False)
    x = torch.randn(6, 4)
    compute(part, x, [part], 'sums').sum().backward()
    assert part.weight.grad is None and x.grad is None and part.norm.bias.grad is not None


def test_without_gradients_nothing_is_kept(part):
    with torch.no_grad():
        assert compute(part, torch.randn(6, 4), [part], 'sums').grad_fn is None
    part.requires_grad_(False)
    assert compute(part, torch.randn(6, 4), [part], 'sums').grad_fn is None


def test_whoever_looks_inside_sees_values_with_a_history(part):
    seen = []
    part.norm.register_forward_hook(lambda module, args, y: seen.append(y))
    compute(part, torch.randn(6, 4, requires_grad=True), [part], 'sums').sum().backward()
    assert len(seen) == 1 and seen[0].requires_grad


def test_a_part_inside_of_a_part_is_simply_called(part):
    x = torch.randn(6, 4, requires_grad=True)
    y = compute(lambda x: compute(part, x, [part], 'recompute') * 2, x, [part], 'sums')
    y.sum().backward()
    assert part.computed == 1


def test_autocast_is_entered_again():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    types = []

    def part(x):
        y = layer(x)
        types.append(y.dtype)
        return y

    x = torch.randn(2, 4, requires_grad=True)
    with torch.autocast('cpu', torch.bfloat16):
        y = compute(part, x, [layer], 'recompute')
    y.float().sum().backward()
    assert types == [torch.bfloat16, torch.bfloat16]


def test_threads_have_tapes_of_their_own(part):
    found = []

    def outer(x):
        thread = threading.Thread(target=lambda: found.append(replay.current_tape()))
        thread.start()
        thread.join()
        assert replay.current_tape() is not None
        return part(x)

    compute(outer, torch.randn(6, 4, requires_grad=True), [part], 'sums')
    assert found == [None]


@pytest.mark.parametrize(
    ('largest', 'other', 'expected'),
    [
        (127, torch.float32, torch.int8),
        (128, torch.float32, torch.int16),
        (32768, torch.float32, torch.float32),
        (576, torch.bfloat16, torch.bfloat16),
        (float('inf'), torch.float32, torch.float32),
    ],
)
def test_sums_take_the_smallest_type_that_holds_them(largest, other, expected):
    assert smallest_type(largest, other) == expected
