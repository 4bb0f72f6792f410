"""Records and where they are kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.study.record import FIELDS, RecordStore, check_record, final_score
from tests.lab.runs import planned, record_of


def test_a_record_is_found_by_its_id_though_config_and_hooks_are_renamed(tmp_path):
    store = RecordStore(tmp_path / 'records')
    run = planned(hooks=[dict(type='Old', part='x')])
    path = store.write(run, record_of(run, final=51.0))
    assert path.name == 'list.bnn.seed0.json'
    renamed = replace(run, config='renamed.py', name='other', hooks=[dict(type='New', part='x')])
    assert store.find_finished(renamed)['final'] == 51.0
    assert store.find(planned(seed=1)) is None and store.find(planned('other')) is None
    assert list(tmp_path.rglob('*.part')) == []


def test_a_run_that_was_trained_otherwise_is_refused(tmp_path):
    store = RecordStore(tmp_path)
    store.write(planned(), record_of(planned()))
    with pytest.raises(ValueError, match="list.bnn.seed0.json has other 'options' than its list. Rename the run, or"):
        store.find(planned(lr=1))


def test_a_renamed_file_is_refused(tmp_path):
    path = RecordStore(tmp_path).write(planned(), record_of(planned()))
    with pytest.raises(ValueError, match="id is 'list.bnn.seed0'. Rename the file to list.bnn.seed0.json"):
        RecordStore.read(path.rename(tmp_path / 'another.json'))


def test_what_is_written_is_read_and_has_a_line_per_layer(tmp_path):
    store = RecordStore(tmp_path)
    run = planned()
    flips = {'conv1': dict(weights=9, epoch=[1, 2]), 'conv2': dict(weights=9, epoch=[1, 2])}
    record = record_of(run, flips=flips)
    path = store.write(run, record)
    assert store.find(run) == record
    assert json.loads(path.read_text()) == record
    assert sum(line.lstrip().startswith('"conv') for line in path.read_text().splitlines()) == 2


def test_a_run_that_asks_for_a_test_is_finished_when_it_is_tested(tmp_path):
    store = RecordStore(tmp_path)
    run = planned(test={'crop': (3, 4)})
    store.write(run, record_of(run))
    assert store.find_finished(run) is None and store.find(run)['final'] == 50.0
    test = dict(options={'crop': (3, 4)}, scores={'accuracy/top1': 49.0})
    store.write(run, record_of(run, test=test))
    assert final_score(store.find_finished(run)) == 49.0
    assert store.find_finished(planned(test={'crop': (3, 5)})) is None and store.find_finished(planned()) is not None


def test_a_later_record_takes_the_place_of_an_earlier_one(tmp_path):
    store = RecordStore(tmp_path)
    store.write(planned(), record_of(planned(), final=51.0))
    store.write(planned(), record_of(planned(), final=52.0))
    assert [record['final'] for record in store] == [52.0] and len(store) == 1


def test_a_list_reads_its_own_score_of_a_run_that_another_list_has_made(tmp_path):
    store = RecordStore(tmp_path)
    run = planned()
    other = replace(run, score='accuracy/top5')
    record = record_of(run)
    store.write(run, record)
    with pytest.raises(ValueError, match="has no score 'accuracy/top5', which a list wants of it"):
        store.find(other)
    record['curves'] |= {
        'accuracy/top1': dict(epoch=[2], value=[50.0]),
        'accuracy/top5': dict(epoch=[2], value=[80.0]),
    }
    store.write(run, record)
    assert final_score(store.find(other)) == 80.0 and final_score(store.find(run)) == 50.0
    record['test'] = dict(options={}, scores={'accuracy/top1': 49.0, 'accuracy/top5': 79.0})
    store.write(run, record)
    assert final_score(store.find(other)) == 79.0


def test_a_full_disk_leaves_the_earlier_record(tmp_path, monkeypatch):
    store = RecordStore(tmp_path)
    store.write(planned(), record_of(planned(), final=51.0))

    def full(self, text):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(Path, 'write_text', full)
    with pytest.raises(OSError, match='No space'):
        store.write(planned(), record_of(planned(), final=52.0))
    assert [record['final'] for record in store] == [51.0]


@pytest.mark.parametrize('name', FIELDS)
def test_every_entry_is_needed_and_has_a_type(name):
    record = record_of(planned())
    del record[name]
    with pytest.raises(ValueError, match=f"a file: '{name}' is missing"):
        check_record(record, 'a file')
    with pytest.raises(ValueError, match=f"a file: '{name}' has a value of the wrong type"):
        check_record({**record, name: object()}, 'a file')


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(extra=1), "'extra' is unknown"),
        (dict(format=1), 'format 1 is unknown'),
        (dict(status='running'), "status='running' is unknown"),
        (dict(status='failed'), "status='failed' is unknown"),
        (dict(final=None), "'final' has a value of the wrong type"),
    ],
)
def test_what_is_no_record(change, message):
    with pytest.raises(ValueError, match=message):
        check_record({**record_of(planned()), **change}, 'a file')


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / 'bnn_seed0_x.json'
    path.write_text('{')
    with pytest.raises(ValueError, match=r'bnn_seed0_x.json is no JSON .* Remove it'):
        list(RecordStore(tmp_path))
