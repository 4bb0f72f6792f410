"""Draw the picture of the README: what the zoo's detector finds, and the numbers of the README's table.

python -m tools.docs.landing_picture
"""

from __future__ import annotations

import re

from matplotlib import pyplot

from demo.run_demo import ROOT, draw_cells
from rebnn_mm.analysis.figure_style import figure_style
from rebnn_mm.deploy import load

OUT = ROOT / 'docs/images/bccd.png'
MODEL = 'zoo:blood-cells-tiny'
ROW = re.compile(r'^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$', flags=re.MULTILINE)


def read_rows(page: str) -> dict[str, tuple[float, float, float]]:
    """Read AP, milliseconds and megabytes of each file from the README's table."""
    rows = ROW.findall(page.replace('**', '').replace('`', ''))
    return {name: tuple(map(float, numbers)) for name, *numbers in rows}  # type: ignore[misc]


def main() -> None:
    rows = read_rows((ROOT / 'README.md').read_text(encoding='utf-8'))
    names = list(rows)[::-1]  # bars are drawn from the bottom
    with figure_style():
        figure, panels = pyplot.subplots(1, 5, figsize=(14, 3.2), width_ratios=[4, 4, 2, 2, 2])
        draw_cells(panels[:2], load(MODEL))
        panels[0].set(title='annotated')
        panels[1].set(title=f'found by {MODEL}, 1 bit')
        for place, title in enumerate(('AP', 'milliseconds per image', 'megabytes')):
            axis = panels[2 + place]
            # No colours, which mean classes in the photographs.
            greys = ['0.35' if name.startswith('zoo:') else '0.75' for name in names]
            bars = axis.barh(names, [rows[name][place] for name in names], color=greys)
            axis.bar_label(bars, padding=3, fmt='%g')
            axis.set(title=title, xticks=[])
            axis.tick_params(left=False, labelleft=place == 0)
            axis.margins(x=0.25)
            axis.grid(visible=False)
        figure.savefig(OUT, dpi=110)
    print(f'picture: {OUT}')


if __name__ == '__main__':
    main()
