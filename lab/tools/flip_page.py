"""Write the page of projected flips, lab/reports/flips.md, from what ``lab.tools.flips --json`` keeps.

python -m lab.tools.flip_page lab/experiments/flips.json lab/reports/flips.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from lab.tools.flips import Row, list_numbers, read_rows, tell_least, tell_measurement
from rebnn_mm.analysis.flip_projection import round_percent, round_up
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors


def flip_markdown(rows: Sequence[Row]) -> str:
    """A page with one line per config and one column of flips per label, in the order in which they came."""
    labels = list(dict.fromkeys(row['label'] for row in rows))
    flips = {(row['config'], row['label']): round_percent(row['percent']) for row in rows}
    last = _last(rows)
    names = [label or 'flips, %' for label in labels]
    lines = [
        '| config | rate | steps | at the highest rate | flips a step, % | '
        + ' | '.join(names)
        + ' | fewest, % | rate needed | measured |',
        '|---|---|--:|--:|--:|' + '--:|' * len(labels) + '--:|--:|---|',
    ]
    measured = list(dict.fromkeys(tell_measurement(row) for row in last))
    for row in last:
        cells = [f'`{row["config"]}`', *list_numbers(row)]
        cells += [flips.get((row['config'], label), '') for label in labels]
        needed = f'x {round_up(row["enough"] / row["percent"]):,g}' if row['percent'] else 'x ?'
        needed = needed if row['percent'] < row['enough'] else ''
        cells += [tell_least(row), needed, str(measured.index(tell_measurement(row)) + 1)]
        lines.append('| ' + ' | '.join(cells) + ' |')
    lines += ['', 'How each was measured, by the number in the last column:', '']
    lines += [f'{number}. {text}' for number, text in enumerate(measured, start=1)]
    silent = [row for row in last if row['silent']]
    if silent:
        lines += ['', 'Layers without a flip while the others flip:', '']
        lines += [f'- `{row["config"]}`: {", ".join(row["silent"])}' for row in silent]
    return '\n'.join(lines) + '\n'


def flip_page(rows: Sequence[Row]) -> str:
    """:func:`flip_markdown` with what the numbers are and where they come from."""
    last = _last(rows)
    few = sum(row['percent'] < row['enough'] for row in last)
    made = sorted({json.dumps(row['made'], sort_keys=True) for row in rows})
    versions = [
        ', '.join(f'{name} {value}' for name, value in json.loads(text).items() if name != 'date') for text in made
    ]
    dates = sorted({row['made']['date'] for row in rows})
    seeds = ', '.join(map(str, sorted({row['seed'] for row in rows})))
    return f"""# Flips of the recipes

Written by `python -m lab.tools.flip_page`; what the numbers mean and how far they are to be trusted is in
[oscillation.md](oscillation.md#will-the-signs-move). Flips of the whole schedule are in percent of the binary weights.
{few} of {len(last)} configs stay below {round_percent(last[0]['enough'])} %: there too many signs keep their start.

{flip_markdown(rows)}
{dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}, seed {seeds}; {'; '.join(dict.fromkeys(versions))}.
"""


def _last(rows: Sequence[Row]) -> list[Row]:
    """The latest row of each config, by name."""
    return [row for _, row in sorted({row['config']: row for row in rows}.items())]


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the rows and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rows', type=Path, help='file that lab.tools.flips --json wrote')
    parser.add_argument('page', type=Path)
    args = parser.parse_args(arguments)
    rows = read_rows(args.rows)
    if not rows:
        raise RebnnError(f'{args.rows} holds no rows. Write some: python -m lab.tools.flips CONFIG --json {args.rows}')
    with whole_file(args.page) as part:
        part.write_text(flip_page(rows))
    print(f'{args.page}: {len(rows)} rows')


if __name__ == '__main__':
    main()
