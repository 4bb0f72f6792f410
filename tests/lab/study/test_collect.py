"""Results, taken out of what mmengine and the weight recorder wrote."""

import json

import pytest
import torch

from lab.study.collect import collect_results, last_checkpoint


def train(step, epoch, loss, **values):
    return {'lr': 0.1, 'loss': loss, 'step': step, 'epoch': epoch, 'time': 1.0, **values}


def score(epoch, value):
    return {'accuracy/top1': value, 'step': epoch, 'time': 1.0, 'data_time': 0.1}


@pytest.fixture
def write(tmp_path):
    def to_file(part, *entries, name='scalars.json'):
        path = tmp_path / part / 'vis_data' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(''.join(json.dumps(entry) + '\n' for entry in entries))
        return tmp_path

    return to_file


def test_means_of_an_epoch_and_scores(write):
    gamma = 'rebnn/gamma_mean_x1e6'
    found = collect_results(
        write(
            'a',
            train(5, 1, 2.0, **{gamma: 10}),
            train(10, 1, 1.0, **{gamma: 20}),
            train(15, 2, 0.5, **{gamma: 30}),
            score(2, 61.5),
        ),
        'accuracy/top1',
    )
    assert found['final'] == 61.5
    assert found['curves']['loss'] == {'epoch': [1, 2], 'value': [1.5, 0.5]}
    assert found['curves'][gamma]['value'] == [15, 30]
    assert set(found['curves']) == {'loss', gamma, 'accuracy/top1'}
    assert found['flips'] == {} and found['weights'] == {}


def test_what_a_resumed_run_repeats_takes_the_place_of_what_was_there(write):
    write('20260101', train(5, 1, 2.0), train(10, 2, 9.0), score(2, 10.0))
    work_dir = write('20260102', train(10, 2, 1.0), score(2, 20.0), train(15, 3, 0.5), score(3, 30.0))
    curves = collect_results(work_dir, 'accuracy/top1')['curves']
    assert curves['loss'] == {'epoch': [1, 2, 3], 'value': [2.0, 1.0, 0.5]}
    assert curves['accuracy/top1'] == {'epoch': [2, 3], 'value': [20.0, 30.0]}


def test_flips_and_final_weights_come_from_recorder_and_checkpoint(write):
    by_layer = {'flip_percent/backbone.conv': 1.0, 'sequential_flip_percent/neck.conv': 1.0, 'step': 1}
    work_dir = write('a', train(5, 1, 2.0), by_layer, score(1, 50.0))
    counts = dict(weights=8, steps=4, flips=3, sequential_flips=1, epoch_flips=2, sequential_epoch_flips=None)
    entry = dict(epoch=1, iteration=4, layers={'backbone.conv': counts}, channels=[])
    write('a', entry, name='binary_weights.jsonl')
    weight = torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.5, -0.5, 0.5, -0.5]])
    torch.save(dict(state_dict={'backbone.conv.weight': weight}), work_dir / 'epoch_1.pth')
    (work_dir / 'last_checkpoint').write_text(str(work_dir / 'epoch_1.pth'))
    found = collect_results(work_dir, 'accuracy/top1')
    assert found['flips']['backbone.conv'] == {
        'weights': 8,
        'epoch': [1],
        'steps': [4],
        'flips': [3],
        'sequential_flips': [1],
        'epoch_flips': [2],
        'sequential_epoch_flips': [None],
    }
    weights = found['weights']['backbone.conv']
    # Every weight is one mean magnitude of its channel: two bins, 0.1 wide, at -1 and 1.
    assert weights['mean_abs'] == 0.75 and weights['outside'] == 0
    assert [(i, n) for i, n in enumerate(weights['counts']) if n] == [(20, 4), (40, 4)]
    # What the recorder writes by layer is no score.
    assert set(found['curves']) == {'loss', 'accuracy/top1'}


def test_a_line_that_a_killed_run_has_cut_off_is_left_out(write):
    work_dir = write('20260101', train(5, 1, 2.0), score(1, 10.0))
    with (work_dir / '20260101' / 'vis_data' / 'scalars.json').open('a') as file:
        file.write('{"lr": 0.1, "lo')
    write('20260102', train(10, 2, 1.0), score(2, 20.0))
    assert collect_results(work_dir, 'accuracy/top1')['curves']['loss']['value'] == [2.0, 1.0]


def test_a_missing_score_is_named_with_what_there_is(write):
    with pytest.raises(ValueError, match=r"no score 'coco/bbox_mAP_50' in .* Written: accuracy/top1."):
        collect_results(write('a', train(5, 1, 2.0), score(1, 50.0)), 'coco/bbox_mAP_50')


def test_a_score_that_is_not_a_number(write):
    with pytest.raises(ValueError, match='training has diverged'):
        collect_results(write('a', score(1, float('nan'))), 'accuracy/top1')


def test_the_last_checkpoint_is_one_that_is_there(tmp_path):
    assert last_checkpoint(tmp_path) is None
    (tmp_path / 'last_checkpoint').write_text(str(tmp_path / 'epoch_4.pth'))
    assert last_checkpoint(tmp_path) is None
    (tmp_path / 'epoch_4.pth').touch()
    assert last_checkpoint(tmp_path) == (tmp_path / 'epoch_4.pth').resolve()


def test_the_score_is_that_of_the_last_epoch(write):
    folder = write('a', train(5, 1, 2.0), score(1, 60.0), score(2, 55.0))
    assert collect_results(folder, 'accuracy/top1')['final'] == 55.0
