"""Reading what the recorder wrote."""

import json

import numpy as np
import pytest

from rebnn_mm.analysis.weight_history import WeightHistory, read_weight_history


def line(epoch, flips=0, steps=4, sequential=0, over_epoch=0, back=0, channels=(), layer='conv'):
    counts = dict(weights=50, steps=steps, flips=flips, sequential_flips=sequential)
    counts |= dict(epoch_flips=over_epoch, sequential_epoch_flips=back)
    return dict(epoch=epoch, iteration=4 * epoch, layers={layer: counts}, channels=list(channels))


@pytest.fixture
def write(tmp_path):
    def to_file(part, *entries, end=''):
        path = tmp_path / part / 'vis_data' / 'binary_weights.jsonl'
        path.parent.mkdir(parents=True)
        path.write_text(''.join(json.dumps(entry) + '\n' for entry in entries) + end)
        return tmp_path

    return to_file


def test_ratios_are_percent_of_weights_per_step_and_per_epoch():
    history = WeightHistory([line(1, 20, 4, 2, 10, None), line(2, 10, 2, 1, 5, 3)])
    assert history.flip_percent('conv', 'flips') == ([1, 2], [10.0, 10.0])
    assert history.flip_percent('conv') == history.flip_percent('conv', 'sequential') == ([1, 2], [1.0, 1.0])
    assert history.flip_percent('conv', 'flips-epoch') == ([1, 2], [20.0, 10.0])
    # Nothing can have come back in the first epoch, so it is left out rather than 0.
    assert history.flip_percent('conv', 'sequential-epoch') == ([2], [6.0])


def test_an_epoch_in_which_the_layer_is_frozen_is_left_out():
    assert WeightHistory([line(1, steps=0), line(2, 10)]).flip_percent('conv', 'flips') == ([2], [5.0])


def test_a_resumed_run_takes_the_place_of_what_it_repeats(write):
    write('a', line(1, 10), line(2, 20), line(3, 30))
    work_dir = write('b', line(2, 40), line(3, 50), line(4, 60))
    history = read_weight_history(work_dir)
    assert history.flip_percent('conv', 'flips') == ([1, 2, 3, 4], [5.0, 20.0, 25.0, 30.0])
    assert history.epochs == [(1, 4), (2, 8), (3, 12), (4, 16)]


def test_a_new_run_in_the_same_work_dir_begins_the_record_again(write):
    write('a', line(1, 10), line(2, 20))
    work_dir = write('b', dict(epoch=0, iteration=0, layers={}, channels=[]), line(1, 30, layer='other'))
    history = read_weight_history(work_dir)
    assert history.epochs == [(1, 4)] and history.layers == ['other']


def test_latent_weights_by_epoch():
    def channel(alpha, *values):
        return dict(layer='conv', channel=3, alpha=alpha, values=values)

    first = dict(epoch=0, iteration=0, layers={}, channels=[channel(0.5, 1.0, -2.0)])
    history = WeightHistory([first, line(1), line(2, channels=[channel(None, 3.0, 4.0)])])
    found = history.latent_weights('conv', 3)
    assert history.channels == [('conv', 3)]
    assert list(found) == [0, 2] and (found[0].alpha, found[2].alpha) == (0.5, None)
    np.testing.assert_array_equal(found[2].values, [3.0, 4.0])
    with pytest.raises(ValueError, match="no latent weights of channel 0 of layer 'conv' in the record; recorded: 3"):
        history.latent_weights('conv', 0)
    with pytest.raises(ValueError, match="'cnov' in the record. Did you mean 'conv'"):
        history.latent_weights('cnov', 3)


def test_a_line_cut_off_by_a_kill_is_left_out(write):
    history = read_weight_history(write('a', line(1, 10), end='{"epoch": 2, "iterat'))
    assert history.epochs == [(1, 4)]


def test_what_cannot_be_read_is_one_sentence(write, tmp_path):
    with pytest.raises(ValueError, match=r'no \*/vis_data/binary_weights.jsonl in .*BinaryWeightRecorderHook'):
        read_weight_history(tmp_path)
    write('a', end='broken\n')
    with pytest.raises(ValueError, match='line 1 is not JSON'):
        read_weight_history(tmp_path)
    (tmp_path / 'a/vis_data/binary_weights.jsonl').write_text('')
    with pytest.raises(ValueError, match='no epoch is recorded yet'):
        read_weight_history(tmp_path)


def test_unknown_layer_names_what_there_is():
    with pytest.raises(ValueError, match="no layer 'bn' in the record. Recorded: conv."):
        WeightHistory([line(1)]).flip_percent('bn')
