"""One look for all figures of training runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler

COLOURS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000')
"""Told apart by colour-blind readers."""

LINE_STYLES = ('-', ':', '--', '-.', (0, (5, 1, 1, 1, 1, 1)), (0, (1, 4)))
"""Solid, dotted and dashed first."""

DPI = 200
"""Pixels per inch of formats that have pixels."""

_STYLE: Any = {
    'axes.axisbelow': True,
    'axes.grid': True,
    'axes.labelsize': 9,
    'axes.prop_cycle': cycler(color=COLOURS),
    'axes.spines.right': False,
    'axes.spines.top': False,
    'axes.titlesize': 9,
    'figure.constrained_layout.use': True,
    'font.size': 9,
    'grid.alpha': 0.25,
    'legend.fontsize': 8,
    'legend.frameon': False,
    'lines.linewidth': 1.4,
    # The same data give the same names inside the file.
    'svg.hashsalt': 'rebnn_mm',
    'xtick.labelsize': 8,
    'ytick.labelsize': 8,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in the common style, without a screen."""
    matplotlib.use('Agg')
    with matplotlib.rc_context(_STYLE):
        yield
