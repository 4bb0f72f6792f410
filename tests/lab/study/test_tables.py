"""Tables against numbers worked out by hand."""

import csv
import io
from dataclasses import replace

import pytest

from lab.study.plan import Experiment, Row
from lab.study.record import RecordStore
from lab.study.tables import (
    CSV_COLUMNS,
    csv_table,
    flip_percent,
    markdown_table,
    provenance_text,
    row_differences,
    row_results,
)
from tests.lab.runs import planned, record_of


def flips(first, second, sequential=0):
    """A layer of 50 weights in two epochs of four steps, and one of 150 weights that has none."""
    counts = dict(epoch=[1, 2], steps=[4, 4])
    return {
        'a': dict(weights=50, flips=[first, second], sequential_flips=[sequential, 0], **counts),
        'b': dict(weights=150, flips=[0, 0], sequential_flips=[0, 0], **counts),
    }


def row(name, paper=None, table=True, **options):
    runs = tuple(planned(name, seed=seed, what=name, **options) for seed in (0, 1, 2))
    return Row(name, name.upper(), runs, paper, table)


@pytest.fixture
def experiment():
    rows = (row('first', table=False), row('none'), row('ours', paper=61.6), row('later', paper=60.0))
    return Experiment('methods', 'Methods', 'accuracy/top1', 'ImageNet', rows)


@pytest.fixture
def store(tmp_path, experiment):
    store = RecordStore(tmp_path)
    _, none, ours, _ = experiment.rows
    for run, final in zip(none.runs, (50.0, 52.0, 54.0), strict=True):
        store.write(run, record_of(run, final, flips=flips(16, 0, 8)))
    for run, final in zip(ours.runs[:2], (51.0, 54.0), strict=True):
        store.write(run, record_of(run, final, cpu_s=120.0))
    return store


def cells(table):
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in table.splitlines()]


def test_flips_are_weighed_by_layer_and_step():
    record = dict(flips=flips(16, 8, 8))
    # 24 flips of 200 weights in 8 steps; 16 of 200 in 4.
    assert flip_percent(record, 'flips') == pytest.approx(100 * 24 / 1600)
    assert flip_percent(record, 'flips', epoch=1) == pytest.approx(100 * 16 / 800)
    assert flip_percent(record) == pytest.approx(0.5)
    assert flip_percent(dict(flips={})) is None


def test_markdown(experiment, store):
    head, rule, none, ours, later = cells(markdown_table(experiment, store, reference='none'))
    assert len({len(line) for line in (head, rule, none, ours, later)}) == 1
    assert head[1] == 'top-1, %' and head[-1] == "the paper's: ImageNet, %"
    # Mean 52, s = 2, t = 4.303: 4.303 * 2 / sqrt(3) = 4.97.
    assert none == ['NONE', '52.0 ± 5.0 (n = 3)', '', '0.5', '1', '8', '1.0', '']
    # Seeds 0 and 1: differences 1 and 2; mean 1.5, s = 0.7071, t = 12.706: 6.35.
    assert ours == ['OURS', '52.5 ± 19.1 (n = 2)', '+1.5 ± 6.4 (n = 2): open', '', '', '', '2.0', '61.6']
    assert later == ['LATER', 'not run yet', '', '', '', '', '', '60.0']


def test_more_scores_of_the_test_stand_beside_the_first(experiment, store):
    tested = {'options': {}, 'scores': {'accuracy/top1': 50.0, 'accuracy/top5': 80.0}}
    for run in (run for row in experiment.rows for run in row.runs if store.find(run)):
        store.write(run, {**record_of(run), 'test': tested})
    head, _, none, *_ = cells(markdown_table(replace(experiment, also=('accuracy/top5',)), store, 'none'))
    assert head[2] == 'accuracy/top5, %' and none[1].startswith('50.0') and none[2].startswith('80.0')


def test_anything_of_a_record_can_be_compared(experiment, store):
    results = row_results(experiment, store)
    found = row_differences(results, 'none', lambda record: record['cost']['cpu_s'])
    assert list(found) == ['ours'] and found['ours'].mean == pytest.approx(60) and found['ours'].n == 2
    # 'ours' has no flips in its records, so there is nothing to compare.
    assert row_differences(results, 'none', flip_percent) == {}
    assert row_differences(results, None, flip_percent) == row_differences(results, 'later', flip_percent) == {}


def test_gamma_is_shown_where_there_is_something_to_compare(experiment, store):
    def with_gamma(run, *gamma, **curves):
        curve = {'rebnn/gamma_mean_x1e6': {'epoch': [1, 2], 'value': list(gamma)}, **curves}
        store.write(run, {**record_of(run), 'curves': curve})

    _, none, ours, later = experiment.rows
    with_gamma(ours.runs[0], 14.0, 10.0)
    assert not any('gamma' in cell for cell in cells(markdown_table(experiment, store))[0])
    with_gamma(later.runs[0], 1.0, 3.0, **{'rebnn/gamma_at_lower_percent': {'epoch': [1, 2], 'value': [70.0, 90.0]}})
    with_gamma(later.runs[1], 3.0, 5.0, **{'rebnn/gamma_at_lower_percent': {'epoch': [1, 2], 'value': [90.0, 98.0]}})
    head, _, none, ours, later = cells(markdown_table(experiment, store))
    assert head[5:7] == ['mean gamma, 1e-6', 'channels on the lower bound, %']
    assert (none[5:7], ours[5:7], later[5:7]) == (['', ''], ['12', ''], ['3', '87'])


def test_where_signs_are_not_the_question_only_the_flips_of_the_run_stay(experiment, store):
    head, _, none, *_ = cells(markdown_table(experiment, store, signs=False))
    assert [cell for cell in head if 'flip' in cell or 'gamma' in cell] == ['flips of the run, % of the weights']
    assert none[2] == '8'


def test_a_negative_difference_and_a_score_that_is_a_share(experiment, store):
    table = cells(markdown_table(experiment, store, reference='ours', scale=0.01))
    assert table[2][1:3] == ['0.5 ± 0.0 (n = 3)', '-0.0 ± 0.1 (n = 3): open']


def test_without_a_reference_there_is_no_difference(experiment, store):
    assert not any('difference' in cell for cell in cells(markdown_table(experiment, store))[0])


def test_rows_that_others_start_from_are_not_shown(experiment, store):
    assert [result.row.name for result in row_results(experiment, store)] == ['none', 'ours', 'later']


def test_provenance_says_how_much_is_done(experiment, store):
    text = provenance_text(experiment, store)
    assert text.startswith('5 of 12 runs are done; 2026-11-21, a machine, 2 cores')
    # 3 runs of 1 minute and 2 of 2.
    assert '0.1 h of processor time' in text
    assert 'torch 2.13.0' in text and 'lab/Snakefile --cores 2 methods`' in text


def test_provenance_of_nothing(experiment, tmp_path):
    nothing = RecordStore(tmp_path / 'none')
    assert provenance_text(experiment, nothing) == 'None of 12 runs is done.\n'
    assert markdown_table(experiment, nothing) == ''


def test_rows_to_come_are_left_out(experiment, store):
    rows = tuple(replace(row, paper=None) for row in experiment.rows)
    coming = replace(experiment, rows=rows)
    assert [line[0] for line in cells(markdown_table(coming, store))[2:]] == ['NONE', 'OURS']


def test_the_score_is_that_of_the_test_where_there_is_one(experiment, store):
    run = experiment.rows[1].runs[0]
    store.write(run, record_of(run, 50.0, test=dict(options={}, scores={'accuracy/top1': 44.0})))
    # 44, 52 and 54.
    assert cells(markdown_table(experiment, store))[2][1].startswith('50.0 ±')
    line = next(csv.DictReader(io.StringIO(csv_table([experiment], store))))
    assert (line['validation'], line['test']) == ('50.0', '44.0')


def test_csv_has_a_line_per_run_with_what_makes_it_again(experiment, store):
    rows = list(csv.DictReader(io.StringIO(csv_table([experiment], store))))
    assert len(rows) == 5 and tuple(rows[0]) == CSV_COLUMNS
    assert [(line['name'], line['seed'], line['validation']) for line in rows[:2]] == [
        ('none', '0', '50.0'),
        ('none', '1', '52.0'),
    ]
    assert rows[0]['sequential_flip_percent'] == '0.5' and rows[3]['sequential_flip_percent'] == ''
    for column in ('command', 'commit', 'hardware', 'wall_s', 'cpu_s', 'versions'):
        assert all(line[column] for line in rows), column
