"""A resumed run with dropout ends where the uninterrupted one does."""

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from rebnn_mm.engine import IterSeedHook
from tests.engine.small_runner import SmallClassifier, runner_config


class StopAfter(Hook):
    """Ends a run as a kill would, while its schedules know of more."""

    def __init__(self, iterations):
        self.iterations = iterations

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if runner.iter + 1 == self.iterations:
            runner.train_loop.stop_training = True


class Dropping(SmallClassifier):
    def forward(self, inputs, labels, mode='tensor'):
        return super().forward(torch.nn.functional.dropout(torch.stack(inputs), 0.5), labels, mode)


def run(work_dir, stop_after=None, seeded=True, resume=False):
    config = runner_config(
        work_dir,
        train_cfg=dict(by_epoch=False, max_iters=6, val_interval=1000),
        optim_wrapper=dict(optimizer=dict(type='BertAdam', lr=0.02)),
        param_scheduler=dict(type='WarmupLinearLR', warmup=0.2, by_epoch=False),
        resume=resume,
    )
    config['experiment_name'] += f'_{resume}'  # mmengine shares what runs of one name start in one second
    config['train_dataloader'] |= dict(sampler=dict(type='InfiniteSampler', shuffle=True))
    config['default_hooks']['checkpoint'] |= dict(by_epoch=False, interval=3)
    config['custom_hooks'] = [*config['custom_hooks'], *([dict(type='IterSeedHook')] if seeded else [])]
    torch.manual_seed(0)
    runner = Runner(model=Dropping(), **config)
    if stop_after:
        runner.register_hook(StopAfter(stop_after), 'LOWEST')
    torch.manual_seed(123 + resume)  # what a new process may have drawn
    runner.train()
    return runner


def weights(runner):
    return torch.cat([parameter.detach().flatten() for parameter in runner.model.parameters()])


def test_resumed_run_is_the_uninterrupted_one_to_the_last_bit(tmp_path):
    whole = run(tmp_path / 'whole')
    run(tmp_path / 'broken', stop_after=3)
    resumed = run(tmp_path / 'broken', resume=True)
    assert resumed.iter == whole.iter == 6
    assert torch.equal(weights(resumed), weights(whole))


def test_without_the_hook_dropout_differs(tmp_path):
    whole = run(tmp_path / 'whole', seeded=False)
    run(tmp_path / 'broken', stop_after=3, seeded=False)
    assert not torch.equal(weights(run(tmp_path / 'broken', resume=True, seeded=False)), weights(whole))


def test_seeds_differ_by_run_iteration_and_process():
    seeds = {IterSeedHook.seed_of(*key) for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]}
    assert len(seeds) == 5
