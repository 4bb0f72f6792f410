"""Small planned runs and their records."""

from lab.study.plan import PlannedRun

VERSIONS = {'python': '3.11', 'torch': '2.13.0'}


def planned(name='bnn', seed=0, config='config.py', start=None, epochs=2, hooks=(), test=None, **options):
    return PlannedRun(
        id=f'list.{name}.seed{seed}',
        name=name,
        label=name.upper(),
        config=config,
        options=options,
        budget={'train_cfg.max_epochs': epochs},
        hooks=list(hooks),
        seed=seed,
        score='accuracy/top1',
        start=start,
        test=test,
    )


def record_of(run, final=50.0, flips=None, cpu_s=60.0, weights=None, experiment='list', test=None):
    return dict(
        format=2,
        id=run.id,
        experiment=experiment,
        name=run.name,
        status='finished',
        error=None,
        **run.definition,
        score=run.score,
        final=final,
        curves={'loss': {'epoch': [1, 2], 'value': [2.0, 1.0]}},
        flips=flips or {},
        weights=weights or {},
        test=test or {},
        cost=dict(wall_s=2 * cpu_s, cpu_s=cpu_s, parts=1),
        made=dict(
            command='python run.py',
            workers=1,
            commit='abc',
            changed=False,
            date='2026-11-21',
            hardware='a machine, 2 cores',
            device='cpu',
            threads='1',
            versions=VERSIONS,
        ),
    )
