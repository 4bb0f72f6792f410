"""Finished GLUE runs as the table that papers print."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.fileio import load
from rich.table import Table

MAJORITY = 'majority class'


class Column(NamedTuple):
    """A column of the table.

    Attributes:
        key: its name in ``configs/glue/paper.yml``.
        title: its heading.
        task: the task, as the variable ``TASK`` names it.
        score: which of the task's scores is printed, as in the papers.
    """

    key: str
    title: str
    task: str
    score: str


COLUMNS = (
    Column('mnli', 'MNLI-m', 'mnli', 'glue/accuracy_matched'),
    Column('mnli_mm', 'MNLI-mm', 'mnli', 'glue/accuracy_mismatched'),
    Column('qqp', 'QQP', 'qqp', 'glue/accuracy'),
    Column('qnli', 'QNLI', 'qnli', 'glue/accuracy'),
    Column('sst2', 'SST-2', 'sst2', 'glue/accuracy'),
    Column('cola', 'CoLA', 'cola', 'glue/matthews'),
    Column('stsb', 'STS-B', 'stsb', 'glue/spearman'),
    Column('mrpc', 'MRPC', 'mrpc', 'glue/accuracy'),
    Column('rte', 'RTE', 'rte', 'glue/accuracy'),
)
"""The nine columns of the ReBNN paper's Table 4; its average is over all nine."""

ROWS = ('real', 'qbert', 'q2bert', 'ternarybert', 'binarybert', 'bibert', 'rebnn', 'bit')
"""The rows, by the names of their configs."""


def run_name(encoder: str, row: str, task: str) -> str:
    """Name of the work dir of one run.

    Example:
        >>> run_name('bert_base', 'real', 'sst2'), run_name('minilm', 'rebnn', 'rte')
        ('bert_base_sst2', 'minilm_rebnn_rte')
    """
    return f'{encoder}_{task}' if row == 'real' else f'{encoder}_{row}_{task}'


def best_checkpoint(work_dir: Path) -> Path | None:
    """The best checkpoint of a run, None if there is none yet."""
    found = sorted(work_dir.glob('best_glue_*.pth'), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def is_trained(work_dir: Path, max_iters: int) -> bool:
    """Whether a run has reached its last iteration."""
    return (work_dir / f'iter_{max_iters}.pth').is_file()


def scores_of(work_dir: Path) -> dict[str, float] | None:
    """Read what ``tools/test.py --work-dir <work dir>/test`` wrote; None if cut off or older than the best weights."""
    best = best_checkpoint(work_dir)
    found = sorted(work_dir.glob('test/*/*.json'), key=lambda path: path.stat().st_mtime)
    if best is None or not found or found[-1].stat().st_mtime < best.stat().st_mtime:
        return None
    try:
        scores: dict[str, float] = json.loads(found[-1].read_text())
    except json.JSONDecodeError:  # the test was killed while it wrote
        return None
    return scores


def paper_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The printed numbers by row and column key (``configs/glue/paper.yml``)."""
    rows: dict[str, dict[str, Any]] = load(path)['Rows']
    return rows


def result_table(
    scores: Mapping[tuple[str, str], Mapping[str, float]],
    rows: Sequence[str],
    tasks: Sequence[str],
    paper: Mapping[str, Mapping[str, Any]],
    with_paper: bool,
    title: str,
) -> Table:
    """The table of the paper: a line of measured scores per row and the majority class last.

    Args:
        scores: by row and task, what testing gave.
        rows: of :data:`ROWS`.
        tasks: the tasks whose columns are shown.
        paper: printed numbers, for names, bits and their lines.
        with_paper: whether each row is followed by the paper's numbers.
        title: of the table.
    """
    columns = [column for column in COLUMNS if column.task in tasks]
    table = Table('', 'W-E-A', 'source', *(column.title for column in columns), 'average', title=title)
    for row in rows:
        entry = paper[row]
        measured = [scores.get((row, column.task), {}).get(column.score) for column in columns]
        table.add_row(entry['Name'], entry['Bits'], 'measured', *_cells(measured), end_section=not with_paper)
        if with_paper:
            printed = [entry[column.key] for column in columns]
            table.add_row('', '', 'the paper', *_cells(printed), end_section=True)
    constant = []
    for column in columns:
        found = [result for (_, task), result in scores.items() if task == column.task]
        constant.append(found[0].get(f'{column.score}_majority') if found else None)
    table.add_row(MAJORITY, '', 'measured', *_cells(constant))
    return table


def _cells(values: Sequence[float | None]) -> list[str]:
    numbers = [value for value in values if value is not None]
    average = sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None
    return ['-' if value is None else f'{value:.1f}' for value in (*values, average)]
