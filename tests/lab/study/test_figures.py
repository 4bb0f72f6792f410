"""What is drawn is what is recorded."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot

from lab.study.collect import BINS, latent_weight_histograms
from lab.study.figures import draw_flips, draw_histograms, shares
from rebnn_mm.analysis.figure_style import figure_style


def record(sequential, weight):
    flips = dict(weights=100, epoch=[1, 2], steps=[2, 4], sequential_flips=sequential)
    return dict(flips={'backbone.conv': flips}, weights=latent_weight_histograms({'conv.weight': weight}, ['conv']))


@pytest.fixture(autouse=True)
def _style():
    with figure_style():
        yield
    pyplot.close('all')


def test_lines_are_means_over_seeds():
    records = [record([2, 4], torch.ones(1, 4)), record([4, 8], torch.ones(1, 4))]
    figure = draw_flips({'ReBNN': records, 'ReCU': records[:1]}, ['backbone.conv'])
    ours, theirs = figure.axes[0].lines
    # 2 and 4 of 200, 4 and 8 of 400: percent.
    assert ours.get_ydata().tolist() == [1.5, 1.5] and theirs.get_ydata().tolist() == [1.0, 1.0]
    assert list(ours.get_xdata()) == [1, 2]
    assert ours.get_label() == 'ReBNN (n = 2)'
    assert figure.axes[0].get_title() == 'conv'


def test_histograms_are_shares_of_all_weights():
    weight = torch.tensor([[1.0, 1.0, 1.0, -1.0]])
    records = [dict(weights={'conv': latent_weight_histograms({'conv.weight': weight}, ['conv'])['conv']})] * 2
    figure = draw_histograms({'A': records, 'B': records}, ['conv'])
    values = figure.axes[0].patches[0].get_data().values
    assert values.sum() == pytest.approx(100) and sorted(values)[-2:] == [25, 75]


def test_a_weight_out_of_reach_is_counted_outside():
    weight = torch.cat([torch.full((1, 99), 0.01), torch.tensor([[-50.0]])], dim=1)
    found = latent_weight_histograms({'conv.weight': weight}, ['conv'])['conv']
    assert found['outside'] == 1 and sum(found['counts']) == 99


def test_channels_are_measured_by_their_own_size():
    weight = torch.stack([torch.full((4, 3), 0.001), torch.full((4, 3), 10.0)])
    counts = latent_weight_histograms({'conv.weight': weight}, ['conv'])['conv']['counts']
    assert [(index, count) for index, count in enumerate(counts) if count] == [(40, 24)]


def test_shares_of_a_normal_distribution():
    weight = torch.randn(64, 4000, generator=torch.Generator().manual_seed(0))
    found = shares(dict(weights=latent_weight_histograms({'c.weight': weight}, ['c'])))
    # A normal variable's mean magnitude is 0.7979 of its deviation; from a printed table of the distribution.
    scale = 0.7979
    table = {0.25: 0.1581, 0.75: 0.4504, 1.25: 0.6814, 2.0: 0.8895}
    assert scale == pytest.approx(np.sqrt(2 / np.pi), abs=1e-4) and BINS == 60
    assert found['near_zero'] == pytest.approx(100 * table[0.25], abs=1)
    assert found['near_alpha'] == pytest.approx(100 * (table[1.25] - table[0.75]), abs=1)
    assert found['far'] == pytest.approx(100 * (1 - table[2.0]), abs=1)
