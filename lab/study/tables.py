"""Tables of an experiment: one row per setting in Markdown, one row per run in CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rebnn_mm.errors import RebnnError

from .interval import Estimate, differences, estimate
from .plan import Experiment, Row, user_command
from .record import RecordStore, final_score

CSV_COLUMNS = (
    'experiment',
    'name',
    'label',
    'seed',
    'status',
    'score',
    'test',
    'validation',
    'sequential_flip_percent',
    'flip_percent',
    'wall_s',
    'cpu_s',
    'parts',
    'config',
    'options',
    'budget',
    'start',
    'command',
    'commit',
    'changed',
    'date',
    'hardware',
    'device',
    'threads',
    'workers',
    'versions',
    'error',
)


GAMMA = 'rebnn/gamma_mean_x1e6'
AT_LOWER = 'rebnn/gamma_at_lower_percent'


@dataclass(frozen=True)
class RowResult:
    """A row of an experiment with the records of its finished runs, by seed."""

    row: Row
    records: dict[int, dict[str, Any]]

    @property
    def finals(self) -> dict[int, float]:
        """The score that counts, by seed."""
        return {seed: final_score(record) for seed, record in self.records.items()}


def row_results(experiment: Experiment, store: RecordStore) -> list[RowResult]:
    """Every row that is shown, with what is recorded of it."""
    rows = []
    for row in experiment.rows:
        found = {run.seed: store.find_finished(run) for run in row.runs}
        if row.table:
            rows.append(RowResult(row, {seed: record for seed, record in found.items() if record is not None}))
    return rows


def flip_percent(record: dict[str, Any], count: str = 'sequential_flips', epoch: int | None = None) -> float | None:
    """Flips of all layers together, in percent of the weights per step; over the whole run or in one epoch.

    Args:
        record: of a finished run.
        count: ``'flips'`` or ``'sequential_flips'``.
        epoch: from 1; None for all epochs.

    Returns:
        float | None: None where nothing is binary.

    Example:
        >>> layer = dict(weights=50, epoch=[1, 2], steps=[4, 4], flips=[10, 6], sequential_flips=[2, 0])
        >>> flip_percent(dict(flips=dict(conv=layer)), 'flips'), flip_percent(dict(flips=dict(conv=layer)), epoch=1)
        (4.0, 1.0)
    """
    flips = seen = 0
    for layer in record['flips'].values():
        for index, number in enumerate(layer['epoch']):
            if epoch is None or number == epoch:
                flips += layer[count][index]
                seen += layer['weights'] * layer['steps'][index]
    return 100 * flips / seen if seen else None


def flips_of_run(record: dict[str, Any]) -> float | None:
    """Flips of the whole run, in percent of the weights: 100 is one flip for each weight. None if nothing is binary.

    Example:
        >>> flips_of_run(dict(flips=dict(conv=dict(weights=50, epoch=[1, 2], flips=[10, 6]))))
        32.0
    """
    layers = record['flips'].values()
    weights = sum(layer['weights'] for layer in layers)
    return 100 * sum(sum(layer['flips']) for layer in layers) / weights if weights else None


def curve_mean(record: dict[str, Any], name: str) -> float | None:
    """Mean over the epochs of what the method's hook has logged; None where it has not.

    Example:
        >>> curve_mean(dict(curves={'rebnn/gamma_mean_x1e6': dict(epoch=[1, 2], value=[14.0, 10.0])}), GAMMA)
        12.0
    """
    values = record['curves'].get(name, {}).get('value')
    return sum(values) / len(values) if values else None


def row_differences(
    results: Sequence[RowResult], reference: str | None, value: Callable[[dict[str, Any]], float | None]
) -> dict[str, Estimate]:
    """Differences of every row to one of them by name; none where that one is not given or has no run.

    Args:
        results: the rows.
        reference: name of the row that the differences are to.
        value: what of a record is compared; a record that has none is left out.
    """
    if reference is None:
        return {}
    found = {r.row.name: {seed: value(record) for seed, record in r.records.items()} for r in results}
    return differences(
        {name: {s: v for s, v in by_seed.items() if v is not None} for name, by_seed in found.items()}, reference
    )


def markdown_table(
    experiment: Experiment, store: RecordStore, reference: str | None = None, scale: float = 1, signs: bool = True
) -> str:
    """Score with interval, difference to a reference, flips, gamma, cost and the paper's number of every row.

    Rows that are neither run nor in the paper are left out; where no row is run there is no table.

    Args:
        experiment: the list.
        store: the records.
        reference: name of the row that the differences are to, seed by seed; None leaves them out.
        scale: factor that makes percent of the score.
        signs: show flips per step and gamma, too, and not only the flips of the run.
    """
    results = row_results(experiment, store)
    if not any(result.records for result in results):
        return ''
    base = next((result for result in results if result.row.name == reference), None)
    to_base = row_differences(results, reference, lambda record: scale * final_score(record))
    head = ['setting', f'{short(experiment.score)}, %']
    if base is not None:
        head.append(f'difference to {base.row.label}')
    head[2:2] = [f'{short(name)}, %' for name in experiment.also]
    if signs:
        head += ['sequential flips per step, %', 'flips per step, %']
    head.append('flips of the run, % of the weights')
    # Where one row has a gamma there is nothing to compare.
    gammas = sum(any(curve_mean(r, GAMMA) is not None for r in found.records.values()) for found in results)
    with_gamma = signs and gammas > 1
    if with_gamma:
        head += ['mean gamma, 1e-6', 'channels on the lower bound, %']
    head.append('min of processor time')
    if experiment.paper:
        head.append(f"the paper's: {experiment.paper}, %")
    lines = [_line(head), _line(['---'] + ['--:'] * (len(head) - 1))]
    for result in results:
        if not result.records and result.row.paper is None:
            continue
        finals = [scale * value for value in result.finals.values()]
        records = list(result.records.values())
        cells = [result.row.label, estimate(finals).text() if finals else 'not run yet']
        cells += [
            estimate([scale * _test_score(record, name) for record in records]).text() if records else ''
            for name in experiment.also
        ]
        if base is not None:
            difference = to_base.get(result.row.name)
            sign = '+' if difference and difference.mean >= 0 else ''
            cells.append(f'{sign}{difference.text()}: {difference.verdict()}' if difference else '')
        if signs:
            cells += [
                _mean([flip_percent(record, count) for record in records]) for count in ('sequential_flips', 'flips')
            ]
        cells.append(_mean([flips_of_run(record) for record in records]))
        if with_gamma:
            cells += [_mean([curve_mean(record, name) for record in records]) for name in (GAMMA, AT_LOWER)]
        cells.append(f'{estimate([r["cost"]["cpu_s"] / 60 for r in records]).mean:.1f}' if records else '')
        if experiment.paper:
            cells.append('' if result.row.paper is None else f'{result.row.paper:.1f}')
        lines.append(_line(cells))
    return '\n'.join(lines) + '\n'


def provenance_text(experiment: Experiment, store: RecordStore) -> str:
    """One paragraph: how many runs there are, where, when and how they were made, and how many rows are left."""
    runs = experiment.runs()
    records = [record for record in map(store.find_finished, runs) if record is not None]
    waiting = sum(not found.records and found.row.paper is None for found in row_results(experiment, store))
    if not records:
        return f'None of {len(runs)} runs is done.\n'
    made = [record['made'] for record in records]
    dates = sorted({m['date'] for m in made})
    cpu = sum(record['cost']['cpu_s'] for record in records) / 3600
    parts = [
        f'{len(records)} of {len(runs)} runs are done'
        + (f', rows without any are left out ({waiting})' if waiting else '')
        + f'; {" to ".join(dict.fromkeys((dates[0], dates[-1])))}, {_list(m["hardware"] for m in made)}, '
        f'{_list(m["device"] for m in made)}, {_list(m["threads"] or "default" for m in made)} thread(s) per run, '
        f'other work going on; torch {_list(m["versions"]["torch"] for m in made)}; {cpu:.1f} h of processor time. '
        'Seeds, commits and all versions: [results.csv](../experiments/results.csv).',
        f'`snakemake -s lab/Snakefile --cores 2 {experiment.name}`',
    ]
    return ' '.join(parts) + '\n'


def csv_table(experiments: Sequence[Experiment], store: RecordStore) -> str:
    """Every record of the experiments, one line each, with all that is needed to make it again."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator='\n')
    writer.writeheader()
    for experiment in experiments:
        for run in (run for row in experiment.rows for run in row.runs):
            record = store.find(run)
            if record is None:
                continue
            flat = {**record, **record['cost'], **record['made'], 'validation': record['final']}
            flat['test'] = final_score(record) if record['test'] else None
            flat |= dict(experiment=experiment.name, name=run.name, label=run.label)
            # As it is called today; the commit says which code the run had.
            flat['command'] = user_command(experiment.name, run)
            for count in ('sequential_flip', 'flip'):
                percent = flip_percent(record, f'{count}s')
                flat[f'{count}_percent'] = '' if percent is None else f'{percent:.6g}'
            writer.writerow({column: flat[column] for column in CSV_COLUMNS})
    return text.getvalue()


def _test_score(record: dict[str, Any], name: str) -> float:
    scores: dict[str, float] = record['test']['scores']
    if name not in scores:
        raise RebnnError(f'{record["name"]} has no score {name!r}, which also names. It has: {", ".join(scores)}.')
    return scores[name]


def short(score: str) -> str:
    """Name a score as tables do."""
    return {'accuracy/top1': 'top-1', 'coco/bbox_mAP': 'AP', 'coco/bbox_mAP_50': 'AP50'}.get(score, score)


def _mean(values: Iterable[float | None]) -> str:
    present = [value for value in values if value is not None]
    if not present:
        return ''
    mean = estimate(present).mean
    return f'{mean:.0f}' if mean >= 1000 else f'{mean:.3g}'


def _list(values: Iterable[str]) -> str:
    return ', '.join(dict.fromkeys(values))


def _line(cells: Sequence[str]) -> str:
    return f'| {" | ".join(cells)} |'
