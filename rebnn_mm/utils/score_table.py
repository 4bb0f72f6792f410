"""Prints the scores of a test run: average precision and GLUE's scores as tables, anything else by name."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from .console import plain_console

# mmdet's CocoMetric calls them <box or mask>_mAP<suffix>
COLUMNS = {'AP': '', 'AP50': '_50', 'AP75': '_75', 'APs': '_s', 'APm': '_m', 'APl': '_l'}

MAJORITY = '_majority'
"""Ends the name of the score that a constant prediction reaches in GLUEMetric."""


def ap_rows(scores: Mapping[str, float]) -> dict[str, list[float | None]]:
    """Average precision in percent, one row per kind of prediction (``coco/bbox``, ``coco/segm``)."""
    rows = {}
    for key in scores:
        if key.endswith('_mAP'):
            values = [scores.get(key + suffix, -1.0) for suffix in COLUMNS.values()]
            rows[key.removesuffix('_mAP')] = [round(100 * value, 3) if value >= 0 else None for value in values]
    return rows


def print_scores(scores: Mapping[str, float], console: Console | None = None) -> None:
    """Print average precision and GLUE's scores as tables and every other score on a line of its own."""
    console = console or plain_console(width=88)
    rows = ap_rows(scores)
    if rows:
        table = Table('in %', *COLUMNS, title='Average precision')
        for name, values in rows.items():
            table.add_row(name, *('-' if value is None else f'{value:.1f}' for value in values))
        console.print(table)
    baselines = {key: scores[key + MAJORITY] for key in scores if key + MAJORITY in scores}
    if baselines:
        table = Table('in %', 'score', 'majority class', title='GLUE')
        for name, majority in baselines.items():
            table.add_row(name, f'{scores[name]:.1f}', f'{majority:.1f}')
        console.print(table)
    shown = {name + ending for name in baselines for ending in ('', MAJORITY)}
    shown |= {key for key in scores if any(key.startswith(f'{row}_mAP') for row in rows)}
    others = {key: value for key, value in scores.items() if key not in shown}
    for key, value in others.items():
        console.print(f'{key}: {value:.4g}' if isinstance(value, float) else f'{key}: {value}')
    if not scores:
        console.print('No scores: the model predicted nothing, or the config evaluates nothing.')
