"""Projected flips of several configs as a table for the terminal, and in a file that grows by calls."""

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
from .flip_projection import ENOUGH, round_percent, verdict
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
            *list_numbers(row),
            round_percent(row['percent']),
            tell_least(row),
        )
    console = Console(width=width or WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
        console.print()
        for row in rows:
            console.print(f'{row["config"]}: {row["verdict"]}.', markup=False, soft_wrap=True)
            console.print(f'  {tell_measurement(row)}', markup=False, soft_wrap=True)
    return '\n'.join(line.rstrip() for line in captured.get().splitlines()) + '\n'


def list_numbers(row: Row) -> list[str]:
    """Optimizer, steps, steps at the highest rate, and percent that flip in a step."""
    schedule = row['schedule']
    at_highest = schedule['steps'] * schedule['mean'] / schedule['highest']
    return [row['optimizer'], f'{schedule["steps"]:,}', f'{at_highest:,.0f}', round_percent(row['step_percent'])]


def tell_least(row: Row) -> str:
    """Percent and name of the layer with the fewest flips."""
    return f'{round_percent(row["least_percent"])} ({row["least"]})'


def tell_measurement(row: Row) -> str:
    """Steps, batch and data of a measurement."""
    about = '; '.join([row['data'], *row['notes']])
    return f'{row["steps"]} steps of {row["batch_size"]} on {about}'
