"""Lists of runs, as files have them."""

import pytest

from rebnn_mm.experiments.experiment import read_experiment

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


def test_a_run_can_have_seeds_of_its_own(write):
    first, second = read_experiment(write(LIST.replace("start='first',", 'seeds=[1, 5],'))).rows
    assert [run.seed for run in first.runs] == [0, 1] and [run.seed for run in second.runs] == [1, 5]
    with pytest.raises(ValueError, match="run 'second' starts from 'first', which has no seed 5"):
        read_experiment(write(LIST.replace("start='first',", "start='first', seeds=[1, 5],")))


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
    ],
)
def test_a_mistake_is_named(write, old, new, message):
    assert old in LIST
    with pytest.raises(ValueError, match=message):
        read_experiment(write(LIST.replace(old, new)))


def test_a_list_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match='Name a list of runs'):
        read_experiment(tmp_path / 'none.py')
