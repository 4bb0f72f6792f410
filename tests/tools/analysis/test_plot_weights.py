import cv2
import numpy as np
import pytest

from rebnn_mm.analysis.figure_style import figure_style
from rebnn_mm.analysis.weight_history import ChannelWeights, read_weight_history
from rebnn_mm.cli import weights as plot
from tests.tools.analysis.figures import assert_no_text_is_clipped_or_overlaps, recorded_run

TOOL = 'rebnn weights'


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return recorded_run(tmp_path_factory.mktemp('weights') / 'run')


def cells(alpha=0.1, count=5):
    generator = np.random.default_rng(0)
    return {epoch: ChannelWeights(alpha, generator.normal(0, 0.2, 144)) for epoch in range(count)}


def test_bars_are_shares_of_the_channel_and_alpha_is_on_both_sides():
    rows = {'a\nchannel 0': cells(0.1), 'b\nchannel 0': cells(0.3)}
    with figure_style():
        figure = plot.draw(rows, [0, 1, 4], 'backbone.layer1.0.conv1')
    assert len(figure.axes) == 6
    for axis, cell in zip(figure.axes, [row[epoch] for row in rows.values() for epoch in (0, 1, 4)], strict=True):
        assert sum(bar.get_height() for bar in axis.patches) == pytest.approx(100)
        assert [line.get_xdata()[0] for line in axis.lines] == [-cell.alpha, cell.alpha]
        counts, _ = np.histogram(cell.values, bins=[*(bar.get_x() for bar in axis.patches), np.inf])
        np.testing.assert_allclose([bar.get_height() for bar in axis.patches], 100 * counts / 144)
    assert len({axis.get_xlim() for axis in figure.axes}) == len({axis.get_ylim() for axis in figure.axes}) == 1
    assert [axis.get_title() for axis in figure.axes[:3]] == ['before training', 'epoch 1', 'epoch 4']
    assert figure.get_suptitle() == 'backbone.layer1.0.conv1'
    assert [axis.get_xlabel() for axis in figure.axes[3:]] == ['latent weight'] * 3
    assert figure.get_supylabel() == 'share of the channel, %'
    assert_no_text_is_clipped_or_overlaps(figure)


@pytest.mark.parametrize(('rows', 'epochs'), [(1, 1), (2, 1), (4, 5), (1, 9)])
def test_text_fits_figures_of_every_shape(rows, epochs):
    with figure_style():
        figure = plot.draw(
            {f'ReActNet\nchannel {index}': cells(count=epochs) for index in range(rows)},
            list(range(epochs)),
            'backbone.layer1.0.conv1',
        )
    assert_no_text_is_clipped_or_overlaps(figure)


def test_a_method_without_a_scale_has_no_marks():
    with figure_style():
        figure = plot.draw({'a': cells(None)}, [0, 4], 'conv')
    assert not figure.legends and not any(axis.lines for axis in figure.axes)


def test_draws_what_was_recorded(run_tool, run, tmp_path):
    out = tmp_path / 'new' / 'weights.png'
    done = run_tool(TOOL, run, '--layer', 'conv2', '--channel', '5', '--out', out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith('weights.png: conv2, channel 5, epoch 0, 1, 2, 3')
    assert cv2.imread(str(out)).std() > 10


def test_several_runs_and_all_channels_are_rows(run, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(plot, 'save_picture', lambda figure, *_, **__: drawn.update(figure=figure))
    arguments = [run, run, '--labels', 'one', 'two', '--epochs', 3, '--out', tmp_path / 'x.svg']
    monkeypatch.setattr('sys.argv', [TOOL, *map(str, arguments)])
    plot.main()
    names = [axis.get_ylabel() for axis in drawn['figure'].axes]
    assert names == ['one\nchannel 0', 'one\nchannel 5', 'two\nchannel 0', 'two\nchannel 5']
    last = read_weight_history(run).latent_weights('conv2', 5)[3]
    assert drawn['figure'].axes[3].lines[1].get_xdata()[0] == last.alpha


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['{empty}'], 'no */vis_data/binary_weights.jsonl in '),
        (['{run}', '--layer', 'conv'], "layer 'conv' in the record of {run}. Did you mean 'conv2'?"),
        (
            ['{run}', '--layer', 'conv2', '--channel', '8'],
            "channel 8 of layer 'conv2' in the record of {run}; recorded: 0, 5.",
        ),
        (['{run}', '--epochs', '9'], 'no latent weights of epoch 9 in every run; recorded: 0, 1, 2, 3.'),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(run, tmp_path, monkeypatch, capsys, arguments, message):
    paths = dict(run=run, empty=tmp_path)
    monkeypatch.setattr('sys.argv', [TOOL, *(argument.format(**paths) for argument in arguments)])
    with pytest.raises(SystemExit) as stopped:
        plot.main()
    error = capsys.readouterr().err
    assert stopped.value.code == 1 and message.format(**paths) in error and error.count('\n') == 1


def test_a_run_that_diverged_is_named(tmp_path, monkeypatch, capsys):
    file = tmp_path / 'part' / 'vis_data' / 'binary_weights.jsonl'
    file.parent.mkdir(parents=True)
    channel = '{"layer": "conv", "channel": 0, "alpha": NaN, "values": [NaN, 0.5]}'
    file.write_text(f'{{"epoch": 1, "iteration": 4, "layers": {{}}, "channels": [{channel}]}}\n')
    monkeypatch.setattr('sys.argv', [TOOL, str(tmp_path)])
    with pytest.raises(SystemExit):
        plot.main()
    assert 'latent weights of epoch 1 are not finite: training has diverged.' in capsys.readouterr().err
