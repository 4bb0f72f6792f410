import logging

import numpy as np
import pytest
import torch
from torch import nn

from rebnn_mm.export import DOMAIN, pack, trace
from rebnn_mm.export.trace import trace_images
from rebnn_mm.methods import ReBNNConv2d
from tests.export.graphs import run
from tests.export.networks import lively


class Shared(nn.Module):
    """A head that sees two levels, as detectors have it."""

    def __init__(self):
        super().__init__()
        self.head = nn.ModuleDict({'conv': ReBNNConv2d(8, 4, 3, padding=1)})

    def forward(self, x):
        return self.head.conv(x), [self.head.conv(-x[:, :, ::2, ::2])]


@pytest.fixture(scope='module')
def shared():
    packed = pack(lively(Shared())).model
    return packed, trace(packed, {'x': torch.zeros(2, 8, 6, 6)}, ['large', 'small'], {'x': [0, 2, 3]})


def test_nodes_are_named_after_their_layer_and_its_call(shared):
    assert [node.name for node in shared[1].graph.node if node.domain == DOMAIN] == ['head.conv', 'head.conv/1']


def test_a_shared_layer_is_stored_once(shared):
    packed = [tensor.name for tensor in shared[1].graph.initializer if tensor.data_type == 2]
    assert packed == ['head.conv.bits']


def test_versions_and_free_dimensions(shared):
    model = shared[1]
    assert model.ir_version == 9
    assert {entry.domain: entry.version for entry in model.opset_import} == {'': 18, 'rebnn': 1}
    dims = [dim.HasField('dim_param') for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [True, False, True, True]


def test_outputs_in_tuples_and_lists(shared):
    x = torch.randn(1, 8, 10, 4)
    large, (small,) = shared[0](x)
    found = run(shared[1], {'x': x.numpy()})
    assert np.array_equal(found[0], large.numpy()) and np.array_equal(found[1], small.numpy())


def test_nothing_of_this_machine_is_in_the_graph(shared):
    text = shared[1].SerializeToString()
    assert b'.py' not in text and b'stack_trace' not in text


def test_an_output_may_be_called_what_a_value_inside_is_called():
    model = trace(nn.Sequential(nn.Hardtanh(), nn.ReLU()), {'x': torch.ones(2, 3)}, ['hardtanh'])
    assert run(model, {'x': np.full((2, 3), -5, np.float32)})[0].tolist() == [[0.0] * 3] * 2
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [2, 3]


def test_what_cannot_be_traced_is_said_in_a_sentence():
    class Branching(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ValueError, match='^Branching cannot be traced: .*data-dependent'):
        trace(Branching(), {'x': torch.ones(2)}, ['y'])


def test_what_the_tracer_gets_around_is_not_logged(caplog):
    class Weighted(nn.Linear):
        def forward(self, x):
            return super().forward(x), self.weight  # which then cannot be stored once with its like

    trace(Weighted(2, 3), {'x': torch.ones(2, 2)}, ['y', 'weight'])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


class Calls(nn.Module):
    """A module that is one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    'function',
    [
        lambda x: torch.clamp(x, -0.7, 2),
        lambda x: x.clone().clamp_(max=0.5, min=0),
        lambda x: torch.clip(x, 0, 0.5),
        lambda x: x.round().int().clamp(-1, 1).float(),
    ],
)
def test_bounds_of_two_kinds(function):
    graph = trace(Calls(function), {'x': torch.ones(2, 3)}, ['y'], {'x': [0]})
    x = 2 * torch.randn(5, 3)
    assert np.array_equal(run(graph, {'x': x.numpy()})[0], function(x).numpy())


SIZES = {
    'of the positions': lambda x: x * torch.linspace(-1, 1, x.shape[2]).view(-1, 1),
    'of another map': lambda x: nn.functional.interpolate(x, size=[int(1.5 * side) for side in x.shape[2:]]),
    'in a quotient': lambda x: x / int(x.shape[2] / 2.0),
    'rounded': lambda x: x * round(x.shape[2] / 3),
    'adaptive': lambda x: nn.functional.adaptive_avg_pool2d(x, (3, 1)).flatten(1),
    'adaptive layer': nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(27, 4))
    .eval()
    .requires_grad_(False),
}


@pytest.mark.parametrize('function', SIZES.values(), ids=SIZES)
def test_a_size_that_becomes_a_number_fixes_the_size(function):
    graph = trace_images(Calls(function), torch.zeros(2, 3, 20, 12), ['y'], fixed=torch.zeros(2, 3, 8, 10))
    batch, _, height, width = graph.graph.input[0].type.tensor_type.shape.dim
    assert (bool(batch.dim_param), height.dim_value, width.dim_value) == (True, 8, 10)
    x = torch.randn(3, 3, 8, 10)
    np.testing.assert_allclose(run(graph, {'image': x.numpy()})[0], function(x).numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    'function',
    [lambda x: x / x.shape[2], lambda x: nn.functional.interpolate(x, scale_factor=1.5), nn.AdaptiveAvgPool2d(1)],
)
def test_a_size_that_stays_one_is_free(function):
    graph = trace_images(Calls(function), torch.zeros(2, 3, 8, 10), ['y'])
    x = torch.randn(1, 3, 20, 24)
    np.testing.assert_allclose(run(graph, {'image': x.numpy()})[0], function(x).numpy(), rtol=0, atol=1e-6)


def test_pooling_to_cells_of_a_detector_is_refused_and_waited_for_by_nobody():
    with pytest.raises(ValueError, match='adaptive_max_pool2d to several cells has no operator for maps of any size'):
        trace(nn.AdaptiveMaxPool2d(2), {'image': torch.zeros(1, 3, 8, 8)}, ['y'], {'image': [2, 3]})


class CountsImages(nn.Module):
    """Makes a Python number of how many images there are, as the windows of Swin do."""

    def forward(self, x):
        halves = torch.cat([x, -x])
        return halves.reshape(int(halves.shape[0] / 2.0), 6, -1).mean(2)


def test_a_module_that_counts_its_images_gets_a_graph_for_one():
    graph = trace_images(CountsImages().eval(), torch.randn(2, 3, 8, 6), ['y'])
    batch, _, height, _ = graph.graph.input[0].type.tensor_type.shape.dim
    assert batch.dim_value == 1 and height.dim_param
    x = torch.randn(1, 3, 10, 6)
    (y,) = run(graph, {'image': x.numpy()})
    np.testing.assert_allclose(y, CountsImages()(x).numpy(), rtol=0, atol=1e-6)
