import copy
import math

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from torch import nn

from rebnn_mm.engine import BertAdam, ResilientGradient, WarmupLinearLR
from rebnn_mm.methods import ReBNNLinear
from tests.engine.small_runner import runner_config, trained
from tests.tolerances import FLOAT64_EXACT


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in ((3, 4), (5,), ())]


def gradients(step):
    """Norms from far below to far above one."""
    generator = torch.Generator().manual_seed(100 + step)
    sizes = (0.01, 3.0, 40.0)
    return [
        size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        for size, parameter in zip(sizes, parameters(), strict=True)
    ]


def test_steps_are_those_of_the_formula():
    params = parameters()
    lr, beta1, beta2, eps, decay = 0.02, 0.8, 0.95, 1e-6, 0.1
    optimizer = BertAdam(
        [dict(params=params[:2]), dict(params=params[2:], weight_decay=0.0)],
        lr=lr,
        betas=(beta1, beta2),
        weight_decay=decay,
    )
    expected = [parameter.detach().reshape(-1).tolist() for parameter in params]
    means = [[0.0] * len(values) for values in expected]
    squares = [[0.0] * len(values) for values in expected]
    for step in range(6):
        for number, (parameter, gradient) in enumerate(zip(params, gradients(step), strict=True)):
            parameter.grad = gradient.clone()
            values = gradient.reshape(-1).tolist()
            norm = math.sqrt(sum(value * value for value in values))
            clipped = [value * min(1.0, 1.0 / (norm + 1e-6)) for value in values]
            for j, value in enumerate(clipped):
                means[number][j] = beta1 * means[number][j] + (1 - beta1) * value
                squares[number][j] = beta2 * squares[number][j] + (1 - beta2) * value * value
                update = means[number][j] / (math.sqrt(squares[number][j]) + eps)
                update += (decay if number < 2 else 0.0) * expected[number][j]
                expected[number][j] -= lr * update
        optimizer.step()
    for parameter, values in zip(params, expected, strict=True):
        reference = torch.tensor(values, dtype=torch.float64).reshape(parameter.shape)
        torch.testing.assert_close(parameter.detach(), reference, rtol=FLOAT64_EXACT, atol=FLOAT64_EXACT)


def test_each_tensor_is_clipped_by_its_own_norm():
    params = parameters()
    for parameter, gradient in zip(params, gradients(0), strict=True):
        parameter.grad = gradient.clone()
    BertAdam(params, lr=0.0).step()
    for parameter, gradient in zip(params, gradients(0), strict=True):
        twin = nn.Parameter(torch.zeros_like(gradient))
        twin.grad = gradient.clone()
        nn.utils.clip_grad_norm_([twin], 1.0)
        torch.testing.assert_close(parameter.grad, twin.grad, rtol=FLOAT64_EXACT, atol=0)
    unclipped = nn.Parameter(torch.zeros(2))
    unclipped.grad = torch.tensor([30.0, 40.0])
    BertAdam([unclipped], clip_norm=None).step()
    assert unclipped.grad.tolist() == [30.0, 40.0]


def test_reconstruction_term_is_added_to_the_clipped_gradient():
    torch.manual_seed(0)
    layer = ReBNNLinear(64, 16, bias=False, gamma=10.0).double()
    optimizer = BertAdam(layer.parameters(), lr=0.0, clip_norm=1e-3)
    ResilientGradient(layer).attach(optimizer)
    layer(torch.randn(8, 64, dtype=torch.float64)).square().sum().backward()
    optimizer.step()
    weight, alpha = layer.weight.detach(), layer.alpha.detach().reshape(-1, 1)
    term = 10.0 * (weight - alpha * torch.where(weight >= 0, 1.0, -1.0))
    assert term.norm() > 1
    rest = layer.weight.grad - term
    assert rest.norm() <= 1e-3 * (1 + FLOAT64_EXACT)
    assert rest.norm() > 0


@pytest.mark.parametrize('resilient', [False, True])
def test_a_gradient_that_the_step_computes_is_clipped_too(resilient):
    weights = []
    for inside in (False, True):
        torch.manual_seed(0)
        layer = ReBNNLinear(64, 16, bias=False, gamma=10.0).double()
        x = torch.randn(8, 64, dtype=torch.float64)
        optimizer = BertAdam(layer.parameters(), lr=0.1, clip_norm=1e-3)
        if resilient:
            ResilientGradient(layer).attach(optimizer)

        def closure(layer=layer, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = layer(x).square().sum()
            loss.backward()
            return loss

        if not inside:
            closure()
        optimizer.step(closure if inside else None)
        weights.append((layer.weight.detach(), layer.weight.grad))
    for outside, within in zip(*weights, strict=True):
        assert torch.equal(outside, within)


def test_copy_and_saved_state_go_on_alike():
    runs = []
    for mode in ('on', 'copied', 'loaded'):
        params = parameters()
        optimizer = BertAdam(params, lr=0.1)
        for step in range(4):
            if step == 2 and mode == 'copied':
                params, optimizer = copy.deepcopy((params, optimizer))
            if step == 2 and mode == 'loaded':
                state = optimizer.state_dict()
                optimizer = BertAdam(params, lr=0.1)
                optimizer.load_state_dict(copy.deepcopy(state))
            for parameter, gradient in zip(params, gradients(step), strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        runs.append(params)
    for others in runs[1:]:
        assert all(torch.equal(one, other) for one, other in zip(runs[0], others, strict=True))


def test_parameters_without_a_gradient_stay():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = BertAdam([used, unused], weight_decay=0.5)
    used.grad = torch.ones(2)
    optimizer.step()
    assert unused.tolist() == [1, 1] and used.tolist() != [1, 1]


def test_biases_and_norms_get_no_decay_through_the_constructor():
    model = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 8), nn.LayerNorm(8), ReBNNLinear(8, 4, activation=None))
    wrapper = build_optim_wrapper(
        model,
        dict(
            constructor='BinaryOptimWrapperConstructor',
            optimizer=dict(type='BertAdam', lr=1e-4, weight_decay=0.01),
            paramwise_cfg=dict(bias_decay_mult=0.0),
        ),
    )
    groups = wrapper.optimizer.param_groups
    decay = {id(p): group['weight_decay'] for group in groups for p in group['params']}
    found = {name: decay[id(parameter)] for name, parameter in model.named_parameters()}
    assert found == {
        '0.weight': 0.01, '1.weight': 0.01, '1.bias': 0, '2.weight': 0, '2.bias': 0, '3.weight': 0.01, '3.bias': 0,
        **{name: 0 for name in found if name.endswith('alpha')},
    }  # fmt: skip


@pytest.mark.parametrize(
    'wrong', [dict(lr=-1.0), dict(betas=(0.9, 1.0)), dict(eps=0.0), dict(weight_decay=-0.1), dict(clip_norm=0.0)]
)
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=f'BertAdam needs {next(iter(wrong))}'):
        BertAdam(parameters(), **wrong)


def rates(steps, **options):
    groups = [dict(params=[torch.nn.Parameter(torch.zeros(1))], lr=lr) for lr in (1.0, 0.1)]
    optimizer = torch.optim.SGD(groups)
    scheduler = WarmupLinearLR(optimizer, **{'by_epoch': False, **options})
    found = []
    for _ in range(steps):
        found.append([group['lr'] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return found


def test_triangle_of_every_group():
    found = rates(50, warmup=0.1, end=50)
    for step, (first, second) in enumerate(found):
        expected = step / 5 if step < 5 else (50 - step) / 45
        assert first == pytest.approx(expected, rel=FLOAT64_EXACT)
        assert second == pytest.approx(0.1 * expected, rel=FLOAT64_EXACT)


def test_without_warmup_it_only_falls():
    assert [first for first, _ in rates(4, warmup=0.0, end=4)] == pytest.approx(
        [1, 0.75, 0.5, 0.25], rel=FLOAT64_EXACT
    )


def test_a_config_that_counts_epochs_by_leaving_it_out_is_refused(tmp_path):
    schedule = dict(type='WarmupLinearLR', warmup=0.5)
    with pytest.raises(ValueError, match='set by_epoch=False'):
        trained(tmp_path, train_cfg=dict(by_epoch=False, max_iters=4), param_scheduler=schedule)


def iterations(count):
    """A run by iterations with the schedule's end left out."""
    return dict(
        train_cfg=dict(by_epoch=False, max_iters=count, val_interval=1000),
        param_scheduler=dict(type='WarmupLinearLR', warmup=0.5, by_epoch=False),
    )


def test_its_end_is_that_of_the_run(tmp_path):
    runner = trained(tmp_path / 'a', **iterations(6))
    (scheduler,) = runner.param_schedulers
    assert (scheduler.end, scheduler.warmup) == (6, 0.5)
    assert runner_config(tmp_path)['optim_wrapper']['optimizer']['lr'] == scheduler.base_values[0]
    assert scheduler.get_last_value()[0] == pytest.approx(scheduler.base_values[0] / 3, rel=FLOAT64_EXACT)


@pytest.mark.parametrize(
    ('wrong', 'message'),
    [
        (dict(warmup=1.0, end=5), 'warmup=1.0 must be a share'),
        (dict(), 'set by_epoch=False, and end'),
        (dict(end=5, by_epoch=True), 'counts iterations'),
    ],
)
def test_what_has_no_meaning_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        rates(1, **wrong)
