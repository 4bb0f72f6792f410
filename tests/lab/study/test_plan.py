"""Lists of runs, as files have them, what a run is, and which config it trains."""

import copy
import dataclasses
import json
import os
from pathlib import Path

import pytest

from lab.study.plan import HOOKS_MODULE, read_experiment
from tests.lab.runs import planned

ROOT = Path(__file__).parents[3]

LIST = """
title = 'Two of them'
score = 'accuracy/top1'
paper = 'ImageNet'
seeds = [0, 1]
options = {'a.b': 1, 'a.c': 2}
budget = {'train_cfg.max_epochs': 2}
hooks = [dict(type='Recorder')]
test = {'test.indices': 3}
runs = [
    dict(name='first', label='First', config='first.py', table=False),
    dict(
        name='second', label='Second', config='second.py', options={'a.c': 3}, hooks=[dict(type='Own')],
        start='first', paper=60.1,
    ),
]
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text):
        path = tmp_path / 'pairs.py'
        path.write_text(text)
        return path

    return to_file


def test_runs_have_what_is_common_and_their_own(write):
    experiment = read_experiment(write(LIST))
    assert (experiment.name, experiment.paper) == ('pairs', 'ImageNet')
    first, second = experiment.rows
    assert not first.table and first.paper is None
    assert second.paper == 60.1
    run = second.runs[1]
    assert run.options == {'a.b': 1, 'a.c': 3} and run.budget == {'train_cfg.max_epochs': 2}
    assert run.hooks == [{'type': 'Recorder'}, {'type': 'Own'}] and run.seed == 1 and run.test == {'test.indices': 3}
    assert run.start == first.runs[1]


def test_variables_before_a_config_choose_its_method(monkeypatch):
    monkeypatch.setenv('METHOD', 'recu')
    run = planned(config='METHOD=bnn configs/cifar10/cpu/resnet20.py')
    assert run.build_config(ROOT).binary.type == 'BNNConv2d'
    assert os.environ['METHOD'] == 'recu'


def test_a_run_can_have_seeds_of_its_own(write):
    first, second = read_experiment(write(LIST.replace("start='first',", 'seeds=[1, 5],'))).rows
    assert [run.seed for run in first.runs] == [0, 1] and [run.seed for run in second.runs] == [1, 5]
    with pytest.raises(ValueError, match="run 'second' starts from 'first', which has no seed 5"):
        read_experiment(write(LIST.replace("start='first',", "start='first', seeds=[1, 5],")))


def test_a_run_can_learn_from_another_and_have_a_budget_of_its_own(write):
    text = LIST.replace("start='first',", "teacher='first', budget={'train_cfg.max_epochs': 4},")
    first, second = read_experiment(write(text)).rows
    run = second.runs[1]
    assert run.teacher == first.runs[1] and run.start is None and run.needed == [first.runs[1]]
    assert run.epochs == 4 and first.runs[1].epochs == 2
    with pytest.raises(ValueError, match="run 'second' learns from 'first', which has no seed 5"):
        read_experiment(write(text.replace('teacher=', 'seeds=[1, 5], teacher=')))
    with pytest.raises(ValueError, match="run 'second': no run 'third' stands before it to learn from"):
        read_experiment(write(text.replace("teacher='first'", "teacher='third'")))


def test_the_first_seed_comes_first(write):
    experiment = read_experiment(write(LIST))
    assert [(run.name, run.seed) for run in experiment.runs()] == [
        ('first', 0),
        ('second', 0),
        ('first', 1),
        ('second', 1),
    ]
    assert [(run.name, run.seed) for run in experiment.runs(seeds=[1], names=['second'])] == [('second', 1)]


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(names=['third']), "pairs has no run 'third'. It has: first, second."),
        (dict(seeds=[7]), 'pairs has no seed 7. It has: 0, 1.'),
    ],
)
def test_a_name_or_seed_that_is_not_there(write, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(write(LIST)).runs(**arguments)


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ("score = 'accuracy/top1'", '', "pairs.py: 'score' is missing"),
        ('seeds =', 'seed =', "pairs.py: 'seeds' is missing"),
        ('budget =', 'budgets =', "'budgets' is unknown. Known: also, budget"),
        ("label='First', ", '', "run 'first': 'label' is missing"),
        ('paper=60.1', 'papers=60.1', "run 'second': 'papers' is unknown"),
        ("name='second'", "name='first'", "two runs are called 'first'"),
        ("start='first'", "start='third'", "run 'second': no run 'third' stands before it"),
        ('seeds = [0, 1]', 'seeds = 0', "'seeds' has to be a list of whole numbers"),
        ('seeds = [0, 1]', 'seeds = [0, 0]', "'seeds' has to be a list of whole numbers, each of them once"),
        ('seeds = [0, 1]', 'seeds = [0.5]', "'seeds' has to be a list of whole numbers"),
        ("budget = {'train_cfg.max_epochs': 2}", 'budget = 3', "'budget' has to be a dict"),
        ("options={'a.c': 3}", 'options=3', "run 'second': 'options' has to be a dict"),
    ],
)
def test_a_mistake_is_named(write, old, new, message):
    assert old in LIST
    with pytest.raises(ValueError, match=message):
        read_experiment(write(LIST.replace(old, new)))


def test_a_list_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match='Name a list of runs'):
        read_experiment(tmp_path / 'none.py')


def test_a_run_is_found_by_its_id(write):
    experiment = read_experiment(write(LIST))
    run = experiment.runs()[-1]
    assert experiment.run(run.id) == run
    with pytest.raises(ValueError, match="pairs has no run 'pairs.gone.seed0' any more"):
        experiment.run('pairs.gone.seed0')


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


@pytest.mark.parametrize(
    ('change', 'name'),
    [
        (dict(config='renamed.py', hooks=[dict(type='Renamed', part='x')], label='Other', score='loss'), None),
        (dict(seed=1), 'seed'),
        (dict(options={'lr': 2}), 'options'),
        (dict(budget={}), 'budget'),
        (dict(hooks=[dict(type='Own', part='y')]), 'hooks'),
        (dict(hooks=[]), 'hooks'),
        (dict(start=planned('first')), 'start'),
        (dict(teacher=planned('first')), 'teacher'),
    ],
)
def test_names_of_config_and_hooks_may_change_and_nothing_else(change, name):
    run = planned(hooks=[dict(type='Own', part='x')], lr=1)
    other = dataclasses.replace(run, **change)
    assert run.find_change(other.definition) == other.find_change(run.definition) == name


def test_tuples_of_a_list_are_the_lists_of_its_record():
    run = planned(shape=(3, 4))
    assert run.find_change(json.loads(json.dumps(run.definition))) is None


def test_ids_are_of_list_name_and_seed_or_of_another_list(write):
    first, second = read_experiment(write(LIST.replace("name='second',", "name='second', id='others.second',"))).rows
    assert [run.id for run in first.runs] == ['pairs.first.seed0', 'pairs.first.seed1']
    assert [run.id for run in second.runs] == ['others.second.seed0', 'others.second.seed1']
    assert second.runs[1].definition['start'] == 'pairs.first.seed1'


def test_the_config_has_the_model_of_the_teachers_run_and_its_weights(root):
    (root / 'teacher.py').write_text(CONFIG + "model = dict(type='Real', width=4)")
    (root / 'config.py').write_text(CONFIG + "model = dict(type='Taught', teacher='elsewhere.py')")
    teacher = planned('first', config='teacher.py', **{'model.width': 8})
    run = dataclasses.replace(planned(), teacher=teacher)
    cfg = run.build_config(root, teacher=root / 'first.pth')
    assert cfg.model == dict(
        type='Taught', teacher=dict(type='Real', width=8), teacher_checkpoint=str(root / 'first.pth')
    )
    assert run.build_test_config(root).model == dict(type='Taught', teacher=dict(type='Real', width=8))


def test_the_config_has_overrides_budget_seed_hooks_and_start(root):
    run = planned(seed=3, epochs=4, hooks=[dict(type='Recorder')], **{'optim_wrapper.optimizer.lr': 0.5})
    cfg = run.build_config(root, root / 'first.pth')
    assert cfg.train_cfg.max_epochs == 4 and cfg.optim_wrapper.optimizer.lr == 0.5
    assert cfg.randomness.seed == 3
    assert [hook.type for hook in cfg.custom_hooks] == ['BinaryHook', 'Recorder']
    assert cfg.load_from == str(root / 'first.pth')
    assert cfg.custom_imports.imports == [HOOKS_MODULE]


def test_without_a_start_a_run_begins_from_random_weights(root):
    (root / 'config.py').write_text(CONFIG + "load_from = 'first_stage.pth'")
    assert planned().build_config(root).load_from is None
    assert planned(load_from='mine.pth').build_config(root).load_from == 'mine.pth'


def test_a_config_without_hooks_gets_them_too(root):
    (root / 'config.py').write_text('train_cfg = dict(max_epochs=10)')
    cfg = planned(hooks=[dict(type='Recorder')]).build_config(root)
    assert [hook.type for hook in cfg.custom_hooks] == ['Recorder']
    assert cfg.get('load_from') is None


def test_building_a_config_leaves_the_run_as_it_is(root):
    run = planned(optim_wrapper=dict(_delete_=True, type='AmpOptimWrapper'))
    before = copy.deepcopy(run.definition)
    assert run.build_config(root).optim_wrapper == dict(type='AmpOptimWrapper')
    assert run.definition == before and run.options['optim_wrapper']['_delete_']


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
