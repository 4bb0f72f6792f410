"""The queue, on fake runs of fractions of a second: order, resume, skip, failure, interruption."""

import sys
from pathlib import Path

import pytest

from rebnn_mm.experiments.run_queue import RunQueue
from rebnn_mm.experiments.run_record import RecordStore
from tests.experiments.runs import planned

FAKE = Path(__file__).with_name('fake_train.py')
FAKE_SCORING = Path(__file__).with_name('fake_scoring.py')
CONFIG = """
train_cfg = dict(max_epochs=2)
seconds = 0.0
load_from = None
fails_in = None
test_name = 'accuracy/top1'
"""


class Place:
    """A folder with a config, records and work dirs, and queues in it."""

    def __init__(self, root):
        self.root = root
        (root / 'config.py').write_text(CONFIG)
        self.store = RecordStore(root / 'records')
        self.lines = []

    def queue(self, *runs, workers=1):
        return RunQueue(
            [('list', run) for run in runs],
            self.store,
            self.root,
            self.root / 'work',
            lambda config, work_dir: [sys.executable, str(FAKE), str(config), str(work_dir)],
            lambda *arguments: [sys.executable, str(FAKE_SCORING), *map(str, arguments)],
            lambda name, run: f'run {name} {run.name} {run.seed}',
            workers,
            self.lines.append,
        )

    def parts(self, run):
        return len(list((self.root / 'work' / run.stem).glob('part*')))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_every_run_gets_a_record_with_its_results_and_costs(place):
    report = place.queue(planned('a'), planned('b', seed=1), workers=2).work(pause=0.05)
    assert (len(report.finished), report.failed, report.skipped) == (2, [], 0)
    record = place.store.finished(planned('b', seed=1))
    assert record['final'] == 53.0 and record['experiment'] == 'list'
    assert record['curves']['accuracy/top1'] == {'epoch': [2], 'value': [53.0]}
    assert record['curves']['loss'] == {'epoch': [1, 2], 'value': [1.0, 0.5]}
    assert record['made']['command'] == 'run list b 1' and record['made']['workers'] == 2
    assert record['cost']['parts'] == 1 and record['cost']['cpu_s'] >= 0


def test_what_is_done_is_left_out(place):
    place.queue(planned('a')).work(pause=0.05)
    report = place.queue(planned('a'), planned('renamed'), planned('b', seed=1)).work(pause=0.05)
    assert report.skipped == 1 and len(report.finished) == 1
    assert place.parts(planned('a')) == 1


def test_a_run_that_fails_is_recorded_and_tried_again_and_the_others_go_on(place):
    bad = planned('bad', fails_in=2)
    report = place.queue(bad, planned('good')).work(pause=0.05)
    assert report.failed == [bad.stem] and report.finished == [planned('good').stem]
    record = place.store.find(bad)
    assert record['status'] == 'failed' and record['error'] == 'ValueError: the loss is not a number'
    assert record['final'] is None and record['curves'] == {}
    assert place.queue(bad).work(pause=0.05).failed == [bad.stem]
    assert place.parts(bad) == 2


def test_a_run_without_its_score_fails(place):
    run = planned('short', epochs=1)
    assert place.queue(run).work(pause=0.05).failed == [run.stem]
    assert "no score 'accuracy/top1'" in place.store.find(run)['error']
    assert 'Written: nothing' in place.store.find(run)['error']


def test_an_override_that_goes_nowhere_is_recorded(place):
    run = planned('typo', **{'nothing.there': 1})
    assert place.queue(run).work(pause=0.05).failed == [run.stem]
    assert "has no entry 'nothing'" in place.store.find(run)['error']


def test_an_interrupted_run_goes_on_from_its_last_checkpoint(place):
    run = planned('long', epochs=4, seconds=0.3)

    def interrupt():
        if (place.root / 'work' / run.stem / 'epoch_2.pth').is_file():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.queue(run, planned('later')).work(interrupt, pause=0.02)
    assert len(place.store) == 0
    assert any('stopped' in line for line in place.lines)
    queue = place.queue(run)
    assert queue.epochs[0] >= 2 and queue.epochs[1] == 4
    assert queue.work(pause=0.05).finished == [run.stem]
    record = place.store.finished(run)
    assert record['cost']['parts'] == 2 and place.parts(run) == 2
    assert record['curves']['loss']['epoch'] == [1, 2, 3, 4]
    # The second part has done only what was left.
    second = (place.root / 'work' / run.stem / 'part1' / 'vis_data' / 'scalars.json').read_text()
    assert '"epoch": 1,' not in second and '"epoch": 1}' not in second


def test_no_child_outlives_an_interruption(place):
    run = planned('long', seconds=60)
    queue = place.queue(run)
    seen = []

    def interrupt():
        seen.extend(child for _, _, child in queue._active.values())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.work(interrupt, pause=0.02)
    assert len(seen) == 1 and seen[0].finished() is not None


def test_a_start_comes_first_and_gives_its_checkpoint(place):
    first = planned('first')
    second = planned('second', start=first)
    report = place.queue(second, workers=2).work(pause=0.05)
    assert report.finished == [first.stem, second.stem]
    config = (place.root / 'work' / second.stem / 'planned.py').read_text()
    assert str((place.root / 'work' / first.stem / 'epoch_2.pth').resolve()) in config
    assert place.store.find(second)['start'] == first.key


def test_a_start_whose_weights_are_gone_is_made_again(place):
    first = planned('first')
    place.queue(first).work(pause=0.05)
    (place.root / 'work' / first.stem / 'epoch_2.pth').unlink()
    report = place.queue(first, planned('second', start=first)).work(pause=0.05)
    assert len(report.finished) == 2 and report.failed == []
    assert len(place.store) == 2


def test_what_starts_from_a_failed_run_is_left_out(place):
    first = planned('first', fails_in=1)
    second = planned('second', start=first)
    report = place.queue(first, second, planned('third', seed=1)).work(pause=0.05)
    assert report.failed == [first.stem, second.stem] and len(report.finished) == 1
    assert place.store.find(second) is None


def test_a_run_that_asks_for_a_test_is_scored_by_it(place):
    run = planned(seed=3, test={})
    assert place.queue(run).work(pause=0.05).finished == [run.stem]
    record = place.store.finished(run)
    assert record['final'] == 55.0 and record['test'] == {'options': {}, 'scores': {'accuracy/top1': 43.0}}
    assert any('accuracy/top1 43' in line for line in place.lines)
    assert record['curves']['accuracy/top1'] == {'epoch': [2], 'value': [55.0]}


def test_what_was_trained_without_a_test_is_only_tested(place):
    place.queue(planned()).work(pause=0.05)
    before = place.store.find(planned())
    report = place.queue(planned(test={'seconds': 1})).work(pause=0.05)
    assert len(report.finished) == 1 and place.parts(planned()) == 1
    assert place.store.find(planned()) == {
        **before,
        'test': {'options': {'seconds': 1}, 'scores': {'accuracy/top1': 40.0}},
    }
    assert place.queue(planned(test={'seconds': 1})).work().skipped == 1
    assert place.queue(planned(test={})).work(pause=0.05).skipped == 0


def test_without_its_weights_a_run_is_made_again_to_be_tested(place):
    place.queue(planned()).work(pause=0.05)
    (place.root / 'work' / planned().stem / 'epoch_2.pth').unlink()
    assert len(place.queue(planned(test={})).work(pause=0.05).finished) == 1
    assert place.store.finished(planned(test={}))['test']


def test_a_tested_run_needs_no_weights_of_its_start(place):
    first = planned('first')
    second = planned('second', start=first)
    place.queue(first, second).work(pause=0.05)
    (place.root / 'work' / first.stem / 'epoch_2.pth').unlink()
    tested = planned('second', start=first, test={})
    assert place.queue(tested).work(pause=0.05).finished == [tested.stem]
    assert place.parts(first) == 1


@pytest.mark.parametrize(
    ('test', 'message'),
    [
        ({'test_name': 'loss'}, "wrote no score 'accuracy/top1', but loss"),
        ({'nothing.there': 1}, "has no entry 'nothing'"),
    ],
)
def test_a_test_that_fails_loses_nothing_and_is_tried_again(place, test, message):
    run = planned(test=test)
    assert place.queue(run).work(pause=0.05).failed == [run.stem]
    assert any(f'{run.stem}: its test failed' in line and message in line for line in place.lines)
    assert place.store.trained(run)['final'] == 52.0 and place.store.finished(run) is None
    assert place.queue(run).work(pause=0.05).failed == [run.stem]
    assert place.parts(run) == 1


def test_a_test_says_what_it_printed_last(place):
    run = planned(test={})
    place.queue(planned()).work(pause=0.05)
    (place.root / 'work' / run.stem / 'epoch_2.pth').write_bytes(b'')
    place.queue(run).work(pause=0.05)
    assert 'epoch_2.pth is no checkpoint' in place.lines[-1]


def test_at_least_one_worker(place):
    with pytest.raises(ValueError, match='workers=0 must be at least 1'):
        place.queue(planned('a'), workers=0)
