from xml.etree import ElementTree

import cv2
import pytest

from rebnn_mm.analysis.figure_style import LINE_STYLES, figure_style
from rebnn_mm.analysis.weight_history import WeightHistory, read_weight_history
from rebnn_mm.cli import oscillation as plot
from tests.tools.analysis.figures import assert_no_text_is_clipped_or_overlaps, recorded_run

TOOL = 'rebnn oscillation'
LAYERS = ['backbone.layer1.0.conv1', 'backbone.layer4.1.conv2']


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return recorded_run(tmp_path_factory.mktemp('oscillation') / 'run')


def history(factor, epochs=12):
    counts = dict(weights=1000, steps=10, epoch_flips=9, sequential_epoch_flips=1)
    return WeightHistory(
        dict(
            epoch=epoch,
            iteration=10 * epoch,
            layers={
                name: dict(counts, flips=5 * factor, sequential_flips=factor * (index + 1) * epoch)
                for index, name in enumerate(LAYERS)
            },
            channels=[],
        )
        for epoch in range(1, epochs + 1)
    )


def test_lines_are_the_ratios_by_run_and_layer():
    runs = {'one': history(1), 'two': history(2)}
    losses = {'one': ([1, 2], [3.0, 2.0]), 'two': ([1, 2], [3.0, 1.0])}
    with figure_style():
        figure = plot.draw(runs, losses, LAYERS)
    left, right = figure.axes
    drawn = [(line.get_linestyle(), line.get_color(), list(line.get_ydata())) for line in left.lines]
    assert [style for style, _, _ in drawn] == ['-', '-', ':', ':']
    assert drawn[0][1] == drawn[2][1] != drawn[1][1] == drawn[3][1]  # a colour is a layer
    expected = [runs[run].flip_percent(layer)[1] for run in runs for layer in LAYERS]
    assert [values for _, _, values in drawn] == expected
    assert expected[3][-1] == pytest.approx(100 * 2 * 2 * 12 / 10_000)
    assert [(line.get_label(), line.get_linestyle(), list(line.get_ydata())) for line in right.lines] == [
        ('one', '-', [3.0, 2.0]),
        ('two', ':', [3.0, 1.0]),
    ]
    assert left.get_ylabel() == 'sequential flips per step, % of the layer' and left.get_xlabel() == 'epoch'
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == LAYERS
    assert_no_text_is_clipped_or_overlaps(figure)


@pytest.mark.parametrize('quantity', ['flips', 'sequential-epoch', 'flips-epoch'])
def test_every_quantity_fits_the_figure(quantity):
    names = [f'backbone.layer{stage}.{block}.conv{conv}' for stage in (1, 2, 3) for block in (0, 1) for conv in (1, 2)]
    counts = dict(weights=1000, steps=10, flips=5, sequential_flips=1, epoch_flips=9, sequential_epoch_flips=1)
    entry = dict(epoch=1, iteration=10, layers=dict.fromkeys(names, counts), channels=[])
    runs = {f'run {index}': WeightHistory([entry]) for index in range(len(LINE_STYLES))}
    with figure_style():
        figure = plot.draw(runs, dict.fromkeys(runs, ([1], [2.0])), names, quantity, log=True)
    assert figure.axes[0].get_yscale() == 'log'
    assert_no_text_is_clipped_or_overlaps(figure)


def test_layers_are_spread_from_first_to_last():
    names = [str(index) for index in range(18)]
    assert plot.spread(names, 4) == ['0', '6', '11', '17']
    assert plot.spread(names[:3], 4) == names[:3]


def test_losses_are_means_over_the_iterations_of_an_epoch(run, tmp_path):
    epochs, losses = plot.loss_by_epoch(run, read_weight_history(run))
    _, logged = plot.collect(plot.read_entries(sorted(run.glob('*/vis_data/scalars.json'))), ('loss',))['loss']
    assert epochs == [1, 2, 3] and len(logged) == 6  # logged every second iteration of four
    assert losses == [pytest.approx((logged[2 * epoch] + logged[2 * epoch + 1]) / 2) for epoch in range(3)]
    assert plot.loss_by_epoch(tmp_path, read_weight_history(run)) == ([], [])


def test_writes_png_and_svg(run_tool, run, tmp_path):
    done = run_tool(TOOL, run, run, '--labels', 'a', 'b', '--layers', 'conv2', '--out', tmp_path / 'new' / 'x.png')
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith('x.png: sequential flips per step, layers: 1, runs: 2')
    assert cv2.imread(str(tmp_path / 'new' / 'x.png')).std() > 10
    assert [file.name for file in (tmp_path / 'new').iterdir()] == ['x.png']


def test_svg_is_vector_graphics(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', [TOOL, str(run), '--quantity', 'flips-epoch', '--out', str(tmp_path / 'x.svg')])
    plot.main()
    root = ElementTree.parse(tmp_path / 'x.svg').getroot()
    assert root.tag.endswith('svg') and len(list(root.iter('{http://www.w3.org/2000/svg}path'))) > 10
    assert 'flips per epoch, layers: 2, runs: 1' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['{empty}'], 'no */vis_data/binary_weights.jsonl in '),
        (['{run}', '--layers', 'cnov2'], "no layer 'cnov2' in the record of {run}. Did you mean 'conv2'?"),
        (['{run}', '--labels', 'a', 'b'], '--labels names 2 runs, and there are 1.'),
        (['{run}', '{run}'], 'Tell them apart with --labels.'),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(run, tmp_path, monkeypatch, capsys, arguments, message):
    paths = dict(run=run, empty=tmp_path)
    monkeypatch.setattr('sys.argv', [TOOL, *(argument.format(**paths) for argument in arguments)])
    with pytest.raises(SystemExit) as stopped:
        plot.main()
    error = capsys.readouterr().err
    assert stopped.value.code == 1 and message.format(**paths) in error and error.count('\n') == 1
    assert not list(tmp_path.iterdir()) and not (run / 'oscillation.png').exists()
