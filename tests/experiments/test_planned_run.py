"""What a run is, and which config it trains."""

import dataclasses

import pytest

from tests.experiments.runs import planned

CONFIG = """
train_cfg = dict(max_epochs=10)
optim_wrapper = dict(optimizer=dict(lr=0.1))
custom_hooks = [dict(type='BinaryHook')]
schedulers = [dict(end=10), dict(end=10)]
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / 'config.py').write_text(CONFIG)
    return tmp_path


def test_the_key_follows_the_definition_and_nothing_else():
    run = planned(lr=1)
    for change in (dict(config='b.py'), dict(seed=1), dict(options={'lr': 2}), dict(budget={}), dict(hooks=[{}])):
        assert dataclasses.replace(run, **change).key != run.key
    assert planned(start=planned('first'), lr=1).key != run.key
    for change in (dict(name='other'), dict(label='Other'), dict(score='loss'), dict(test={'a': 1})):
        assert dataclasses.replace(run, **change).key == run.key


def test_a_run_from_another_start_is_another_run():
    assert planned(start=planned('first', seed=0)).key != planned(start=planned('first', seed=1)).key


def test_the_config_has_overrides_budget_seed_hooks_and_start(root):
    run = planned(seed=3, epochs=4, hooks=[dict(type='Recorder')], **{'optim_wrapper.optimizer.lr': 0.5})
    cfg = run.build_config(root, root / 'first.pth')
    assert cfg.train_cfg.max_epochs == 4 and cfg.optim_wrapper.optimizer.lr == 0.5
    assert cfg.randomness.seed == 3
    assert [hook.type for hook in cfg.custom_hooks] == ['BinaryHook', 'Recorder']
    assert cfg.load_from == str(root / 'first.pth')


def test_a_config_without_hooks_gets_them_too(root):
    (root / 'config.py').write_text('train_cfg = dict(max_epochs=10)')
    cfg = planned(hooks=[dict(type='Recorder')]).build_config(root)
    assert [hook.type for hook in cfg.custom_hooks] == ['Recorder']
    assert cfg.get('load_from') is None


def test_building_a_config_leaves_the_run_as_it_is(root):
    run = planned(optim_wrapper=dict(_delete_=True, type='AmpOptimWrapper'))
    key = run.key
    assert run.build_config(root).optim_wrapper == dict(type='AmpOptimWrapper')
    assert run.key == key and run.options['optim_wrapper']['_delete_']


def test_an_entry_of_a_list_is_named_by_its_place(root):
    cfg = planned(**{'schedulers.1.end': 4}).build_config(root)
    assert [scheduler.end for scheduler in cfg.schedulers] == [10, 4]


def test_a_test_has_overrides_of_its_own(root):
    run = planned(test={'optim_wrapper.optimizer.lr': 3}, **{'schedulers.1.end': 4})
    assert run.build_test_config(root).optim_wrapper.optimizer.lr == 3
    assert run.build_test_config(root).schedulers[1].end == 4
    assert run.build_config(root).optim_wrapper.optimizer.lr == 0.1
    with pytest.raises(ValueError, match="config.py has no entry 'nothing', so 'nothing.there' would change"):
        planned(test={'nothing.there': 1}).build_test_config(root)


@pytest.mark.parametrize('key', ['optim_wrapper.optimiser.lr', 'schedulers.2.end', 'schedulers.end.0'])
def test_an_override_that_goes_nowhere_is_refused(root, key):
    run = planned('bnn', **{key: 1})
    entry = key.rpartition('.')[0]
    with pytest.raises(ValueError, match=f"run 'bnn': config.py has no entry '{entry}'"):
        run.build_config(root)
