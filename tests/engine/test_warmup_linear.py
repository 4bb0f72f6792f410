"""The schedule against BERT's own words for it, and inside a run."""

import pytest
import torch

from rebnn_mm.engine import WarmupLinearLR
from tests.engine.small_runner import runner_config, trained
from tests.tolerances import FLOAT64_EXACT


def rates(steps, **options):
    groups = [dict(params=[torch.nn.Parameter(torch.zeros(1))], lr=lr) for lr in (1.0, 0.1)]
    optimizer = torch.optim.SGD(groups)
    scheduler = WarmupLinearLR(optimizer, **options)
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
