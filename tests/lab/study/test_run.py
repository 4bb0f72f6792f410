"""One run of a list: resume, start, test, failure, interruption; with trainings that do nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.study.record import RecordStore
from lab.study.run import record, train
from tests.lab.runs import planned

FOLDER = Path(__file__).parents[1]
TRAIN = [sys.executable, str(FOLDER / 'fake_train.py')]
SCORE = [sys.executable, str(FOLDER / 'fake_scoring.py')]
CONFIG = """
train_cfg = dict(max_epochs=2)
seconds = 0.0
load_from = None
fails_in = None
forgets_start = False
test_name = 'accuracy/top1'
"""
INTERRUPTED = """
import sys
from pathlib import Path
from lab.study.run import stop_on_signal, train
from tests.lab.runs import planned

root = Path(sys.argv[1])
stop_on_signal()
train('list', planned('long', epochs=4, seconds=0.3), root / 'work', [sys.executable, sys.argv[2]], root=root)
"""


class Place:
    """A folder with a config, records and work dirs."""

    def __init__(self, root):
        self.root = root
        (root / 'config.py').write_text(CONFIG)
        self.store = RecordStore(root / 'records')
        self.work = root / 'work'

    def train(self, run):
        return train('list', run, self.work, TRAIN, workers=2, root=self.root)

    def record(self, run):
        return record(run, self.work, self.store, SCORE, root=self.root)

    def done(self, run):
        self.train(run)
        self.record(run)
        return self.store.find_finished(run)

    def parts(self, run):
        return len(list((self.work / run.id).glob('part*')))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_record_has_results_costs_and_the_command(place):
    found = place.done(planned('b', seed=1))
    assert found['final'] == 53.0 and found['experiment'] == 'list' and found['test'] == {}
    assert found['curves']['accuracy/top1'] == {'epoch': [2], 'value': [53.0]}
    assert found['curves']['loss'] == {'epoch': [1, 2], 'value': [1.0, 0.5]}
    assert found['made']['command'].endswith(' list --config only=b seeds=1') and found['made']['workers'] == 2
    assert found['cost']['parts'] == 1 and found['cost']['cpu_s'] >= 0


def test_a_run_that_fails_leaves_no_record_and_says_why(place):
    bad = planned('bad', fails_in=2)
    with pytest.raises(ValueError, match=r'^ValueError: the loss is not a number \(all of it: .*run.log'):
        place.train(bad)
    assert len(place.store) == 0 and list(place.work.rglob('trained.json')) == []


@pytest.mark.parametrize(
    ('run', 'message'),
    [
        (planned('short', epochs=1), "no score 'accuracy/top1' in .* Written: nothing"),
        (planned('typo', **{'nothing.there': 1}), "has no entry 'nothing'"),
    ],
)
def test_a_run_without_its_score_or_with_a_wrong_option_fails(place, run, message):
    with pytest.raises(ValueError, match=message):
        place.train(run)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_from_its_last_checkpoint(place):
    run = planned('long', epochs=4, seconds=0.3)
    command = [sys.executable, '-c', INTERRUPTED, str(place.root), str(FOLDER / 'fake_train.py')]
    process = subprocess.Popen(command, cwd=FOLDER.parents[1], stderr=subprocess.PIPE, text=True)
    while not (place.work / run.id / 'epoch_2.pth').is_file():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0 and not list(place.work.rglob('trained.json'))
    costs = place.work / run.id / 'costs.jsonl'
    costs.write_text(costs.read_text().replace('"cpu"', '"a card"'))
    found = place.done(run)
    assert found['cost']['parts'] == 2 and place.parts(run) == 2
    assert found['made']['device'] == 'a card, then cpu'
    assert found['curves']['loss']['epoch'] == [1, 2, 3, 4]
    # The second part has done only what was left.
    second = (place.work / run.id / 'part1' / 'vis_data' / 'scalars.json').read_text()
    assert '"epoch": 1,' not in second and '"epoch": 1}' not in second


@pytest.mark.slow
def test_a_part_that_was_killed_is_counted_without_a_time(place):
    run = planned('killed', epochs=4, seconds=0.3)
    command = [sys.executable, '-c', INTERRUPTED, str(place.root), str(FOLDER / 'fake_train.py')]
    process = subprocess.Popen(
        [part.replace("'long'", "'killed'") for part in command], cwd=FOLDER.parents[1], start_new_session=True
    )
    while not (place.work / run.id / 'epoch_2.pth').is_file():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    found = place.done(run)
    assert found['cost']['parts'] == 2 and place.parts(run) == 2
    first, second = map(json.loads, (place.work / run.id / 'costs.jsonl').read_text().splitlines())
    assert first['wall_s'] == first['cpu_s'] == 0 < second['wall_s'] == found['cost']['wall_s']


def test_a_training_that_was_begun_otherwise_is_refused(place):
    place.train(planned())
    with pytest.raises(ValueError, match="was begun with other 'budget' than the list has. Remove the folder."):
        place.train(planned(epochs=4))


def test_a_run_begins_with_the_last_weights_of_its_start(place):
    first = planned('first')
    second = planned('second', start=first)
    place.done(first)
    assert place.done(second)['start'] == first.id
    config = (place.work / second.id / 'planned.py').read_text()
    assert str((place.work / first.id / 'epoch_2.pth').resolve()) in config


def test_a_run_that_did_not_begin_where_it_should_leaves_no_record(place):
    first = planned('first')
    place.done(first)
    second = planned('second', start=first, forgets_start=True)
    with pytest.raises(ValueError, match=r'it did not begin from .*list.first.seed0/epoch_2.pth'):
        place.train(second)
    assert not (place.work / second.id / 'trained.json').exists()


def test_a_run_that_was_stopped_before_its_last_validation_leaves_no_record(place):
    with pytest.raises(ValueError, match='it was validated after 2 of 3 epochs. Remove its last checkpoint'):
        place.train(planned('odd', epochs=3))


def test_weights_that_are_gone_are_named(place):
    first = planned('first')
    place.train(first)
    (place.work / first.id / 'epoch_2.pth').unlink()
    with pytest.raises(ValueError, match=f'{first.id} has no checkpoint any more. Remove the folder'):
        place.train(planned('second', start=first))


def test_a_run_that_asks_for_a_test_is_scored_by_it(place):
    found = place.done(planned(seed=3, test={'seconds': 1}))
    assert found['final'] == 55.0
    assert found['test'] == {'options': {'seconds': 1}, 'scores': {'accuracy/top1': 43.0}}


@pytest.mark.parametrize(
    ('test', 'message'),
    [
        ({'test_name': 'loss'}, "wrote no score 'accuracy/top1', but loss"),
        ({'nothing.there': 1}, "has no entry 'nothing'"),
    ],
)
def test_a_test_that_fails_loses_no_training(place, test, message):
    run = planned(test=test)
    trained = place.train(run)
    with pytest.raises(ValueError, match=message):
        place.record(run)
    assert trained.is_file() and len(place.store) == 0


def test_a_test_says_what_it_printed_last(place):
    run = planned(test={})
    place.train(run)
    (place.work / run.id / 'epoch_2.pth').write_bytes(b'')
    with pytest.raises(ValueError, match='epoch_2.pth is no checkpoint'):
        place.record(run)
