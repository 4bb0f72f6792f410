import importlib
import json

import cv2
import pytest

TOOL = 'rebnn curves'


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('rebnn_mm.cli.curves')


@pytest.fixture
def write(tmp_path):
    def run(name, *entries):
        path = tmp_path / name / 'vis_data' / 'scalars.json'
        path.parent.mkdir(parents=True)
        path.write_text('\n'.join(map(json.dumps, entries)))
        return path

    return run


def train(step, loss, **values):
    return dict(lr=0.1, loss=loss, step=step, **values)


def test_validation_entries_take_the_training_step_before_them(tool, write):
    score = {'coco/bbox_mAP_50': 0.25, 'coco/bbox_mAP_s': -1.0, 'step': 0}
    entries = tool.read_entries([write('a', train(10, 3.0), train(20, 2.0), score, train(30, 1.0))])
    assert tool.collect(entries, ('_mAP_50', '_mAP_s')) == {'coco/bbox_mAP_50': ([20], [25.0])}
    assert tool.collect(entries, ('loss',)) == {'loss': ([10, 20, 30], [3.0, 2.0, 1.0])}


def test_several_optimizers_have_a_rate_each(tool, write):
    both = {'weights.lr': 0.1, 'others.lr': 0.2}
    losses = ({'loss': loss, 'step': step, **both} for loss, step in ((3.0, 10), (2.0, 20)))
    entries = tool.read_entries([write('a', *losses, {'accuracy/top1': 70.0, 'step': 1})])
    assert tool.collect(entries, ('loss',)) == {'loss': ([10, 20], [3.0, 2.0])}
    assert tool.collect(entries, ('/top1',)) == {'accuracy/top1': ([20], [70.0])}


def test_a_resumed_run_continues_the_curve_and_a_new_one_begins_it_again(tool, write):
    first = write('a', train(10, 3.0), train(20, 2.0), train(30, 1.5))
    resumed = write('b', train(30, 1.4), train(40, 1.0))
    new = write('c', train(10, 9.0))
    losses = tool.collect(tool.read_entries([first, resumed]), ('loss',))['loss']
    assert losses == ([10, 20, 30, 40], [3.0, 2.0, 1.4, 1.0])
    assert tool.collect(tool.read_entries([first, resumed, new]), ('loss',))['loss'] == ([10], [9.0])


def test_a_line_that_a_killed_run_has_cut_off_is_left_out(tool, write):
    path = write('a', train(10, 3.0), train(20, 2.0))
    path.write_text(path.read_text()[:-5])
    assert tool.collect(tool.read_entries([path]), ('loss',)) == {'loss': ([10], [3.0])}


def test_draws_what_a_run_logged(run_tool, trained_detector, tmp_path):
    done = run_tool(TOOL, trained_detector[1], '--out', tmp_path / 'new' / 'curves.png')
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith('curves.png: training loss, validation score')  # no ReBNN layers in this run
    assert cv2.imread(str(tmp_path / 'new' / 'curves.png')).std() > 10


@pytest.mark.parametrize(
    ('key', 'panel'),
    [
        ('accuracy/top1', 'validation score'),
        ('pascal_voc/mAP', 'validation score'),
        ('glue/matthews', 'validation score'),
        ('coco/segm_mAP', 'validation score'),
        ('sequential_flips_per_million', 'signs flipped per step, of a million'),
        ('glue/accuracy_majority', None),
    ],
)
def test_every_kind_of_score_has_its_panel(tool, write, tmp_path, key, panel):
    entries = tool.read_entries([write('a', train(10, 3.0), {key: 0.5, 'step': 1})])
    panels = tool.draw(entries, 'run', tmp_path / 'curves.png')
    assert panels == ['training loss', *([panel] if panel else [])]


def test_ap_is_in_percent_and_few_steps_are_whole_numbers(tool, write, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(tool, 'save_picture', lambda figure, *_, **__: figures.append(figure))
    score = {'coco/bbox_mAP': 0.25, 'accuracy/top1': 70.0, 'step': 1}
    tool.draw(tool.read_entries([write('a', train(7, 3.0), train(8, 2.0), score)]), 'run', tmp_path / 'curves.png')
    losses, scores = figures[0].axes
    assert {line.get_label(): line.get_ydata()[0] for line in scores.lines} == {
        'coco/bbox_mAP, %': 25.0, 'accuracy/top1': 70.0
    }  # fmt: skip
    assert all(tick == int(tick) for axis in (losses, scores) for tick in axis.get_xticks())


@pytest.mark.parametrize('lowest', [0.0, -12.5])
def test_a_score_below_zero_is_within_the_picture(tool, write, tmp_path, monkeypatch, lowest):
    figures = []
    monkeypatch.setattr(tool, 'save_picture', lambda figure, *_, **__: figures.append(figure))
    scores = [{'glue/matthews': value, 'step': 1} for value in (lowest, 30.0)]
    tool.draw(tool.read_entries([write('a', train(7, 3.0), *scores)]), 'run', tmp_path / 'curves.png')
    assert figures[0].axes[1].get_ylim()[0] == 0 if lowest == 0 else figures[0].axes[1].get_ylim()[0] < lowest


def test_nothing_to_draw_is_one_sentence(run_tool, tmp_path):
    done = run_tool(TOOL, tmp_path)
    assert done.returncode == 1
    assert f'{TOOL}: no */vis_data/scalars.json in {tmp_path}' in done.stderr and 'Traceback' not in done.stderr


def test_a_resumed_file_may_begin_with_other_entries(tool, write):
    first = write('a', train(10, 3.0), train(20, 2.0))
    resumed = write('b', {'flip_percent/conv': 0.5, 'step': 2}, train(30, 1.0))
    assert tool.collect(tool.read_entries([first, resumed]), ('loss',)) == {'loss': ([10, 20, 30], [3.0, 2.0, 1.0])}
