"""Projected flips of several configs as a table for the terminal, as Markdown, and in a file that grows by calls."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from rich.console import Console
from rich.table import Table

from rebnn_mm.utils.machine import versions

from ..errors import RebnnError
from .flip_measurement import Measurement
from .flip_projection import ENOUGH, round_percent, round_up, verdict
from .flip_setup import Options

DISTRIBUTIONS = ('torch', 'onedl-mmengine', 'onedl-mmcv', 'onedl-mmdetection', 'onedl-mmpretrain', 'transformers')
WIDTH = 150
"""Width of the table where no terminal says its own."""

Row = dict[str, Any]

KEPT = ('config', 'label', 'percent', 'schedule')
"""Entries by which a row of this tool is known."""


def result_row(
    config: str, cfg: Config, measured: Measurement, options: Options, label: str, enough: float = ENOUGH
) -> Row:
    """All that is told of one config, in plain values."""
    projection, schedule = measured.projection, measured.projection.schedule
    wrapper = cfg.optim_wrapper
    optimizer = wrapper.get('optimizer', {})
    constructor = str(wrapper.get('constructor', '')).endswith('ReBNNOptimWrapperConstructor')
    rate = f' {optimizer.lr:g}' if 'lr' in optimizer else ''  # else the optimizer's own
    return {
        'config': config,
        'label': label,
        'optimizer': f'{optimizer.get("type", "")}{rate}',
        'schedule': schedule._asdict(),
        'steps': options.steps,
        'batch_size': measured.batch_size,
        'data': measured.data,
        'notes': list(measured.notes),
        'seed': options.seed,
        'seconds': round(measured.seconds, 1),
        'enough': enough,
        'percent': projection.percent,
        'step_percent': projection.step_percent,
        'least': projection.least.name,
        'least_percent': projection.layer_percent(projection.least.name),
        'silent': projection.silent,
        'verdict': verdict(projection, enough, latent_lr_mult(wrapper), constructor),
        'layers': [layer._asdict() for layer in projection.layers],
        'made': {'date': datetime.date.today().isoformat(), **versions(DISTRIBUTIONS)},
    }


def latent_lr_mult(wrapper: Mapping[str, Any]) -> float:
    """Return the config's factor of the rate of latent weights."""
    roles = (wrapper.get('paramwise_cfg') or {}).get('roles') or {}
    named = {role.replace('_', ' '): given for role, given in roles.items()}
    return (named.get('latent weight') or {}).get('lr_mult', 1.0)


def read_rows(file: Path) -> list[Row]:
    """Load what earlier calls wrote; nothing if there is no file."""
    if not file.is_file():
        return []
    try:
        rows = json.loads(file.read_text())
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {*KEPT} <= {*row} for row in rows):
        raise RebnnError(f'{file} holds no results of this tool. Name another file with --json.')
    return rows


def with_row(rows: Sequence[Row], new: Row) -> list[Row]:
    """The rows with one more, which takes the place of that of its config and label."""
    keys = [(row['config'], row['label']) for row in rows]
    key = (new['config'], new['label'])
    if key not in keys:
        return [*rows, new]
    return [new if this == key else row for this, row in zip(keys, rows, strict=True)]


def rows_json(rows: Sequence[Row]) -> str:
    """The rows, one per line."""
    return '[\n' + ',\n'.join(json.dumps(row) for row in rows) + '\n]\n'


def flip_table(rows: Iterable[Row], width: int | None = None) -> str:
    """A table for the terminal, and a sentence for each config below it."""
    table = Table(box=None, pad_edge=False, header_style='bold')
    columns = ('config', 'label', 'rate', 'steps', 'of them at the highest rate', 'flips a step, %', 'flips in all, %')
    for name in (*columns, 'layer with the fewest, %'):
        table.add_column(name, justify='left' if name in ('config', 'label', 'rate') else 'right', overflow='fold')
    rows = list(rows)
    for row in rows:
        table.add_row(
            re.sub(r'\S*/', '', row['config']).removesuffix('.py'),
            row['label'],
            *_numbers(row),
            round_percent(row['percent']),
            _least(row),
        )
    console = Console(width=width or WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
        console.print()
        for row in rows:
            console.print(f'{row["config"]}: {row["verdict"]}.', markup=False, soft_wrap=True)
            console.print(f'  {_tell_measurement(row)}', markup=False, soft_wrap=True)
    return '\n'.join(line.rstrip() for line in captured.get().splitlines()) + '\n'


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
    measured = list(dict.fromkeys(_tell_measurement(row) for row in last))
    for row in last:
        cells = [f'`{row["config"]}`', *_numbers(row)]
        cells += [flips.get((row['config'], label), '') for label in labels]
        needed = f'x {round_up(row["enough"] / row["percent"]):,g}' if row['percent'] else 'x ?'
        needed = needed if row['percent'] < row['enough'] else ''
        cells += [_least(row), needed, str(measured.index(_tell_measurement(row)) + 1)]
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

Written by `rebnn flips --markdown`; what the numbers mean and how far they are to be trusted is in
[oscillation.md](oscillation.md#will-the-signs-move). Flips of the whole schedule are in percent of the binary weights.
{few} of {len(last)} configs stay below {round_percent(last[0]['enough'])} %: there too many signs keep their start.

{flip_markdown(rows)}
{dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}, seed {seeds}; {'; '.join(dict.fromkeys(versions))}.
"""


def _last(rows: Sequence[Row]) -> list[Row]:
    """The latest row of each config, by name."""
    return [row for _, row in sorted({row['config']: row for row in rows}.items())]


def _numbers(row: Row) -> list[str]:
    schedule = row['schedule']
    at_highest = schedule['steps'] * schedule['mean'] / schedule['highest']
    return [row['optimizer'], f'{schedule["steps"]:,}', f'{at_highest:,.0f}', round_percent(row['step_percent'])]


def _least(row: Row) -> str:
    return f'{round_percent(row["least_percent"])} ({row["least"]})'


def _tell_measurement(row: Row) -> str:
    about = '; '.join([row['data'], *row['notes']])
    return f'{row["steps"]} steps of {row["batch_size"]} on {about}'
