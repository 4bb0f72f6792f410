"""Draw the picture of the README: what the zoo's detector finds, and what docs/choose.md has of it and of its rivals.

python -m tools.docs.landing_picture
"""

from __future__ import annotations

import re

from matplotlib import pyplot

from demo.run_demo import ROOT, draw_cells
from rebnn_mm.analysis.figure_style import COLOURS, figure_style
from rebnn_mm.deploy import load

OUT = ROOT / 'docs/images/bccd.png'
SHOWN = {
    '1 bit, fast, rest int8': '1 bit, the rest int8',
    'fp32, int8': 'real-valued, int8',
    'half as wide, taught, fp32, int8': 'half as wide, taught, int8',
    'fp32': 'real-valued, fp32',
}


def points(page: str) -> dict[str, tuple[float, float, float]]:
    """AP, milliseconds and megabytes of the files in :data:`SHOWN`, by what the picture calls them."""
    rows = re.findall(r'^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$', page.replace('**', ''), flags=re.MULTILINE)
    found = {label: numbers for label, *numbers in rows if label in SHOWN}
    return {name: tuple(map(float, found[label])) for label, name in SHOWN.items()}  # type: ignore[misc]


def main() -> None:
    found = points((ROOT / 'docs/choose.md').read_text(encoding='utf-8'))
    with figure_style():
        figure, panels = pyplot.subplots(1, 3, figsize=(13, 3.4), width_ratios=[4, 4, 4])
        draw_cells(panels[:2], load('zoo:blood-cells-int8'))
        panels[1].set(title='found by a 1-bit network of 1.8 MB')
        axis = panels[2]
        lowest = min(score for score, _, _ in found.values())
        for number, (name, (score, milliseconds, megabytes)) in enumerate(found.items()):
            area = 20 * megabytes
            below = score == lowest  # or its name would lie on the next one
            axis.scatter(milliseconds, score, s=area, color=COLOURS[number])
            axis.annotate(
                f'{name}\n{megabytes:g} MB',
                (milliseconds, score),
                xytext=(0, (-1 if below else 1) * (area**0.5 / 2 + 5)),
                textcoords='offset points',
                va='top' if below else 'baseline',
                ha='center' if milliseconds > 50 else 'left',
            )
        axis.set(title='AP over milliseconds; areas: megabytes', xlabel='ms of one CPU thread')
        axis.set(xlim=(0, 370), ylim=(50, 58))
        figure.savefig(OUT, dpi=110)
    print(f'picture: {OUT}')


if __name__ == '__main__':
    main()
