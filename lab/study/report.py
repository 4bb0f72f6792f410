"""Write the tables and figures of the pages of lab/reports from the records of finished runs and of choices.

    python -m lab.study.report

Only the parts between the markers of the pages are replaced; lab/experiments/results.csv gets a line for every run,
and lab/reports/images the figures. It trains nothing and takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.tools.choice_page import describe_choice
from lab.tools.page import renew
from rebnn_mm.analysis.figure_style import DPI, figure_style
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.picture import save_picture

from .figures import draw_flips, draw_histograms, shares
from .interval import estimate
from .plan import Experiment, read_experiment
from .record import RecordStore
from .tables import (
    csv_table,
    flip_percent,
    markdown_table,
    provenance_text,
    row_results,
)

ROOT = Path(__file__).parents[2].resolve()

# List, the row that differences are to, what makes percent of its score, and whether it is about flips and gamma.
TABLES = {
    'methods': ('rebnn', 1, True),
    'gamma': ('gamma_0', 1, True),
    'gamma_taught': ('gamma_0', 1, True),
    'settings': ('none', 1, True),
    'settings_taught': ('gamma_0', 1, True),
    'longer': ('long_none', 1, True),
    'bccd': ('rebnn', 100, True),
    'signs': ('moving_none', 1, True),
    'transitions': ('transitions_sgd', 1, True),
    'transitions_bccd': ('recipe', 100, True),
    'signs_bccd': ('signs_moving', 100, True),
    'signs_kangaroo': ('signs_moving', 100, True),
    'cifar10_full': ('full_none', 1, True),
    'recipe': ('recipe_adam', 1, True),
    'detectors_bccd': ('twin_long', 100, False),
    'detectors_kangaroo': ('twin_long', 100, False),
    'pretrained_kangaroo': ('pretrained_twin', 100, False),
    'augmented_kangaroo': ('augmented_twin', 100, False),
    'augmented_bccd': ('augmented_twin', 100, False),
    'towers_bccd': ('towers_real', 100, False),
    'atss_bccd': ('atss_real_long', 100, False),
    'atss_kangaroo': ('atss_real_long', 100, False),
    'fcos_bccd': ('fcos_real', 100, False),
    'one_bit_bccd': ('yolox_nano_long', 100, False),
    'one_bit_bccd_160': ('yolox_nano_long', 100, False),
    'one_bit_kangaroo': ('tiny_teacher', 100, False),
    'photos_kangaroo': ('detector_twin', 100, False),
    'one_bit_voc6': ('tiny_twin', 100, False),
    'one_bit_voc6_224': ('tiny_twin', 100, False),
    'one_bit_voc6_methods': ('rebnn', 100, False),
    'faster_rcnn_voc6': ('twin', 100, False),
    'one_bit_deeppcb': ('tiny_twin', 100, False),
}

OSCILLATING = ('react', 'recu', 'rebnn')
LAYERS = ('backbone.layer1.0.conv1', 'backbone.layer2.1.conv1', 'backbone.layer3.2.conv2')


def on_pages(pages: list[str], sections: Mapping[str, str]) -> list[str]:
    """New parts for several pages (:func:`lab.tools.page.renew`), each part on the first that has its markers.

    Raises:
        ValueError: no page has the markers of a part, or one has them twice.
    """
    place = {
        name: next((at for at, page in enumerate(pages) if f'<!-- begin {name} -->\n' in page), 0) for name in sections
    }
    return [
        renew(page, {name: text for name, text in sections.items() if place[name] == at})
        for at, page in enumerate(pages)
    ]


def oscillation_table(settings: dict[str, list[dict[str, Any]]]) -> str:
    """Flips in the first, middle and last epoch, and where final latent weights stand; means over the seeds."""
    lines = [
        '| method | n | sequential flips per step, %: first / middle / last epoch | flips per step, % | '
        'final weights below 0.25 | 0.75 to 1.25 | above 2 |',
        '|---|--:|--:|--:|--:|--:|--:|',
    ]
    for label, records in settings.items():
        cells = [label, str(len(records))]
        last = max(next(iter(records[0]['flips'].values()))['epoch'])
        for count in ('sequential_flips', 'flips'):
            means = [mean_flips(records, count, epoch) for epoch in (1, (last + 1) // 2, last)]
            cells.append(' / '.join(f'{mean:.3g}' for mean in means))
        places = [shares(record) for record in records]
        cells += [f'{estimate([place[key] for place in places]).mean:.1f} %' for key in places[0]]
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def mean_flips(records: list[dict[str, Any]], count: str, epoch: int) -> float:
    """Mean over the seeds of what :func:`flip_percent` gives for an epoch."""
    values = [flip_percent(record, count, epoch) for record in records]
    return estimate([value for value in values if value is not None]).mean


def oscillation_section(methods: Experiment, store: RecordStore, images: Path) -> str:
    """The table and both figures of the methods whose oscillation the paper compares."""
    found = {result.row.name: result for result in row_results(methods, store)}
    settings = {
        found[name].row.label: list(found[name].records.values()) for name in OSCILLATING if found[name].records
    }
    if not settings:
        return 'No run is done yet.\n'
    with figure_style():
        save_picture(draw_flips(settings, LAYERS), images / 'experiment_flips.png', dpi=DPI)
        save_picture(draw_histograms(settings, LAYERS), images / 'experiment_weights.png', dpi=DPI)
    return (
        f'{oscillation_table(settings)}\n'
        f'![Sequential flips of three layers by epoch]({images.name}/experiment_flips.png)\n\n'
        f'![Final latent weights of three layers]({images.name}/experiment_weights.png)\n'
    )


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--records', type=Path, default=ROOT / 'lab' / 'experiments' / 'records', help='folder of the records'
    )
    parser.add_argument(
        '--pages',
        type=Path,
        nargs='+',
        default=[ROOT / 'lab' / 'reports' / f'{name}.md' for name in ('results', 'gamma', 'one_bit_detectors')],
        help='pages of one folder to write into, each part where its markers are',
    )
    parser.add_argument(
        '--csv', type=Path, default=ROOT / 'lab' / 'experiments' / 'results.csv', help='table to write'
    )
    args = parser.parse_args()

    for page in args.pages:
        if not page.is_file():
            raise RebnnError(f'there is no page {page}. Name one with the markers in it.')
    old = [page.read_text() for page in args.pages]
    store = RecordStore(args.records)
    lists = {name: read_experiment(ROOT / 'lab' / 'experiments' / f'{name}.py') for name in TABLES}
    images = args.pages[0].parent / 'images'
    choices = {
        f'choice {path.stem}': path for path in sorted((ROOT / 'lab' / 'experiments' / 'choices').glob('*.json'))
    }
    parts = [*(f'experiment {name}' for name in TABLES), 'experiment oscillation', *choices]
    sections = {}
    on_pages(old, dict.fromkeys(parts, ''))  # before the figures are drawn
    for name, (reference, scale, signs) in TABLES.items():
        table = markdown_table(lists[name], store, reference, scale, signs)
        sections[f'experiment {name}'] = f'{table}\n{provenance_text(lists[name], store)}'.lstrip()
    sections |= {name: describe_choice(path) for name, path in choices.items()}
    sections['experiment oscillation'] = oscillation_section(lists['methods'], store, images)
    texts = dict(zip(args.pages, on_pages(old, sections), strict=True))
    texts[args.csv] = csv_table(list(lists.values()), store)
    done = len(store)
    for path, text in texts.items():
        with whole_file(path) as part:
            part.write_text(text)
    print(f'{", ".join(map(str, args.pages))}: {len(sections)} parts, {done} finished runs; {args.csv}')


if __name__ == '__main__':
    main()
