"""The lists of this project: every run builds its config, and compared runs differ in what they say they do."""

import json
from functools import cache
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.registry import HOOKS

import lab.study.hooks  # noqa: F401
from lab.study.plan import read_experiment
from lab.study.record import RecordStore

ROOT = Path(__file__).parents[2]
LISTS = {path.stem: read_experiment(path) for path in sorted((ROOT / 'lab' / 'experiments').glob('*.py'))}
METHOD_HOOKS = ('BinaryHook', 'ReBNNHook')
RUNS = {run.id: run for experiment in LISTS.values() for run in experiment.runs(seeds=[0])}


@cache
def config(id: str) -> Config:
    return RUNS[id].build_config(ROOT, Path('start.pth') if RUNS[id].start else None)


@pytest.mark.slow
@pytest.mark.parametrize('id', RUNS)
def test_every_run_builds_its_config(id):
    run = RUNS[id]
    cfg = config(id)
    json.dumps(cfg.to_dict())  # plain values, which can be written
    assert cfg.randomness.seed == 0
    assert cfg.train_cfg.max_epochs == run.epochs
    scheduler = cfg.param_scheduler if isinstance(cfg.param_scheduler, list) else [cfg.param_scheduler]
    assert scheduler[-1].end == run.epochs
    # After the last epoch there is a checkpoint; mmengine scores it whatever the interval.
    assert cfg.default_hooks.checkpoint.get('save_last', True)  # whatever its interval
    assert [hook.type for hook in cfg.custom_hooks].count('BinaryWeightRecorderHook') == 1
    assert all(HOOKS.get(hook.type) for hook in cfg.custom_hooks)


@pytest.mark.parametrize('name', LISTS)
def test_a_config_is_read_as_it_was_written(name, tmp_path):
    cfg = config(LISTS[name].runs(seeds=[0])[-1].id)
    cfg.dump(tmp_path / 'planned.py')
    assert Config.fromfile(tmp_path / 'planned.py').to_dict() == cfg.to_dict()


def test_the_config_of_the_zoo_s_board_detector_is_the_run_that_made_it():
    cfg = Config.fromfile(ROOT / 'configs/one_bit/tiny_deeppcb.py')
    run = config('one_bit_deeppcb.tiny_alone_long_bf16.seed0')
    for key in ('model', 'load_from', 'param_scheduler', 'test_dataloader'):
        assert cfg[key] == run[key]
    assert cfg.train_cfg.max_epochs == run.train_cfg.max_epochs
    assert cfg.train_dataloader.dataset == run.train_dataloader.dataset
    assert cfg.optim_wrapper == {**run.optim_wrapper, 'type': 'OptimWrapper'}


@pytest.mark.parametrize('name', ['methods', 'gamma', 'gamma_taught', 'settings', 'settings_taught', 'longer'])
def test_compared_runs_have_one_budget_schedule_and_data(name):
    shown = [row.runs[0] for row in LISTS[name].rows if row.table]
    configs = [config(run.id).to_dict() for run in shown]
    for cfg in configs:
        for key in ('train_dataloader', 'val_dataloader', 'train_cfg', 'param_scheduler', 'randomness'):
            assert cfg[key] == configs[0][key]
        optimizer = {**cfg['optim_wrapper']['optimizer'], 'weight_decay': None}
        assert optimizer == {**configs[0]['optim_wrapper']['optimizer'], 'weight_decay': None}
        # The recorder sees a step after the method's hook.
        kinds = [hook['type'] for hook in cfg['custom_hooks']]
        assert all(kinds.index('BinaryWeightRecorderHook') > kinds.index(k) for k in METHOD_HOOKS if k in kinds)


def test_scores_are_those_of_the_whole_test_set():
    for name in ('methods', 'gamma', 'settings', 'settings_taught'):
        tested = LISTS[name].rows[-1].runs[0].build_test_config(ROOT)
        assert tested.test_dataloader.dataset.indices == 10000 and tested.val_dataloader.dataset.indices == 2000
    cells = LISTS['bccd'].rows[0].runs[0].build_test_config(ROOT)
    assert cells.test_evaluator.ann_file.endswith('instances_test.json')


def test_settings_change_one_thing_each():
    base, *others = [row.runs[0] for row in LISTS['settings'].rows]
    assert len({run.id for run in (base, *others)}) == len(LISTS['settings'].rows)
    for run in others:
        changed = run.options.keys() - base.options.keys()
        assert 1 <= len(changed) + len(run.hooks) - len(base.hooks) <= 2 and run.config == base.config


def test_every_setting_of_gamma_starts_from_the_first_stage_of_its_seed():
    stage1, *rows = LISTS['gamma'].rows
    assert {'gamma_0', 'gamma_adaptive'} <= {row.name for row in rows}
    for row in rows:
        assert [run.start for run in row.runs] == list(stage1.runs)


def test_rebnn_is_one_run_in_both_lists():
    ids = [{run.id for run in LISTS[name].runs(names=['rebnn'])} for name in ('methods', 'settings')]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(('name', 'run'), [('methods_gpu', 'resnet20_rebnn'), ('cifar10_full', 'full_rebnn')])
def test_on_the_whole_set_the_images_are_one_tensor_and_the_network_computes_in_bfloat16(name, run):
    cfg = config(LISTS[name].runs(seeds=[0], names=[run])[0].id)
    assert cfg.train_dataloader.dataset.type == cfg.val_dataloader.dataset.type == 'CIFAR10Resident'
    assert 'pipeline' not in cfg.train_dataloader.dataset and '_delete_' not in cfg.train_dataloader
    assert cfg.optim_wrapper.type == 'Bfloat16OptimWrapper'
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    loaders = [RUNS[id].build_config(ROOT).train_dataloader.dataset.type for id in list(RUNS) if 'recu' in id]
    assert set(loaders) == {'CIFAR10Archive', 'CIFAR10Resident'}


def test_with_a_teacher_the_lists_share_runs_and_start_from_nothing():
    gamma, settings = LISTS['gamma_taught'], LISTS['settings_taught']
    for name in ('gamma_0', 'gamma_adaptive'):
        assert {run.id for run in settings.runs(names=[name])} == {run.id for run in gamma.runs(names=[name])} != set()
    assert not any(run.needed for run in (*gamma.runs(), *settings.runs()))


def test_every_record_that_is_kept_belongs_to_the_run_of_its_id():
    runs = [run for experiment in LISTS.values() for run in experiment.runs()]
    store = RecordStore(ROOT / 'lab' / 'experiments' / 'records')
    assert {record['id'] for record in store} <= {run.id for run in runs}
    assert sum(store.find(run) is not None for run in {run.id: run for run in runs}.values()) == len(store)


def test_runs_that_lists_share_are_the_same():
    runs = [run for experiment in LISTS.values() for run in experiment.runs()]
    by_id = {run.id: run for run in runs}
    assert len(by_id) < len(runs)
    assert [run.id for run in runs if run.definition != by_id[run.id].definition] == []
