"""GLUE's task folders as data sets, and batches of their token sequences."""

import csv
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset
from mmengine.logging import print_log
from mmengine.registry import DATASETS, FUNCTIONS
from torch.nn.utils.rnn import pad_sequence

from ..errors import RebnnError
from .glue_tasks import glue_task

DOWNLOAD = 'https://gluebenchmark.com/tasks'


class _BrokenRow(ValueError):
    """A row that cannot be read; says why."""


@DATASETS.register_module()
class GLUEDataset(BaseDataset):
    r"""The rows of one file of a GLUE task, in the file's order.

    Files are read as GLUE's own code reads them: fields between tabs, quotation marks are text. A byte-order mark,
    Windows line ends and blank lines do no harm. Columns are found by their names in the header line (CoLA has none),
    so other columns may come or lack. Nothing is downloaded.

    Args:
        task: one of ``cola sst2 mrpc stsb qqp mnli qnli rte wnli``.
        ann_file: the TSV file, relative to ``data_root``, such as ``'SST-2/dev.tsv'``. Files with labels only: GLUE's
            ``test.tsv`` has none.
        data_root: folder of the task folders.
        label_map: None for the classes in the order of GLUE's own code, ``'hub'`` for that of Hugging Face's ``glue``
            data set, which differs for MNLI and which models of the hub have learned.
        split: written into every item, to tell rows apart that one loader mixes (``'matched'``, ``'mismatched'``).
        kwargs: those of mmengine's ``BaseDataset``; ``indices=100`` keeps the first 100 rows.

    Each item has ``text``, ``text_pair`` if the task is about pairs, ``gt_label`` (int, or float for STS-B) and
    ``split`` before the pipeline sees it.

    Raises:
        ValueError: unknown task or label map, a column is missing, a row cannot be read (QQP's are skipped and
            counted in the log), or there is no row; the message names file and line.
        FileNotFoundError: no such file; the message says where to get it.

    Example:
        >>> import tempfile
        >>> file = tempfile.NamedTemporaryFile('w', suffix='.tsv')
        >>> _ = file.write('sentence\tlabel\na "gem\t1\n'), file.flush()
        >>> dataset = GLUEDataset('sst2', file.name)
        >>> dataset[0]['text'], dataset[0]['gt_label'], dataset.metainfo['classes']
        ('a "gem', 1, ('0', '1'))

    Source: Wang et al. 2018, GLUE: a multi-task benchmark and analysis platform for natural language understanding.
    """

    def __init__(
        self,
        task: str,
        ann_file: str,
        *,
        data_root: str = '',
        label_map: str | None = None,
        split: str = '',
        **kwargs: Any,
    ) -> None:
        self.task = glue_task(task)
        if label_map not in (None, 'hub'):
            raise RebnnError(f"GLUEDataset: label_map={label_map!r} is unknown. Use None or 'hub'.")
        classes = (self.task.hub_labels if label_map else ()) or self.task.labels
        self.label_map = {label: number for number, label in enumerate(classes)}
        self.split = split
        metainfo = {'classes': classes, **(kwargs.pop('metainfo', None) or {})}
        super().__init__(ann_file=ann_file, data_root=data_root, metainfo=metainfo, **kwargs)

    def load_data_list(self) -> list[dict[str, Any]]:
        """The rows of the file."""
        path = Path(self.ann_file)
        if not path.is_file():
            raise FileNotFoundError(
                f'GLUEDataset: no {path}. Get {self.task.folder} from {DOWNLOAD} and unpack it so that this file is '
                'there, or set data_root of the data set to where it lies.'
            )
        items, broken = [], 0
        try:
            # The signature of MRPC's file is not part of its first column's name.
            with path.open(encoding='utf-8-sig', newline='') as file:
                rows = csv.reader(file, delimiter='\t', quoting=csv.QUOTE_NONE)
                columns = self._columns(rows, path)
                for row in rows:
                    if not row:
                        continue
                    try:
                        items.append(self._item(row, columns))
                    except _BrokenRow as problem:
                        if not self.task.skips_broken_rows:
                            raise RebnnError(
                                f'GLUEDataset: {path}, line {rows.line_num}: {problem}. Repair or remove the line.'
                            ) from None
                        broken += 1
        except UnicodeDecodeError as error:
            raise RebnnError(f'GLUEDataset: {path} is not UTF-8 text ({error.reason}). Get it again.') from None
        if broken:
            print_log(
                f'GLUEDataset: skipped {broken} broken rows of {path} and read {len(items)}.',
                logger='current',
                level=logging.WARNING,
            )
        if not items:
            raise RebnnError(f'GLUEDataset: {path} has no rows. Get it again from {DOWNLOAD}.')
        return items

    def _columns(self, rows: Iterator[list[str]], path: Path) -> dict[str, int]:
        """Position of each column that is needed."""
        names = list(self.task.columns) or next(rows, [])
        needed = (*self.task.text, self.task.label)
        missing = [name for name in needed if name not in names]
        if missing:
            found = ', '.join(names) or 'nothing'
            hint = ' GLUE publishes its test files without labels; use dev.tsv.' if self.task.label in missing else ''
            raise RebnnError(
                f'GLUEDataset: {path} lacks the column {" and ".join(missing)} of {self.task.folder}; its first line '
                f'has {found}.{hint}'
            )
        return {name: names.index(name) for name in needed}

    def _item(self, row: list[str], columns: dict[str, int]) -> dict[str, Any]:
        if len(row) <= max(columns.values()):
            raise _BrokenRow(f'{len(row)} fields, at least {max(columns.values()) + 1} are needed')
        texts = [row[columns[name]] for name in self.task.text]
        pair = {'text_pair': texts[1]} if len(texts) == 2 else {}
        return {'text': texts[0], **pair, 'gt_label': self._label(row[columns[self.task.label]]), 'split': self.split}

    def _label(self, text: str) -> int | float:
        if self.task.is_regression:
            try:
                score = float(text)
            except ValueError:
                score = math.nan
            if not math.isfinite(score):
                raise _BrokenRow(f'{self.task.label} is {text!r}, not a number')
            return score
        if text not in self.label_map:
            raise _BrokenRow(f'{self.task.label} is {text!r}, not one of {", ".join(self.label_map)}')
        return self.label_map[text]


@FUNCTIONS.register_module()
def glue_collate(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One batch of what :class:`TokenizeText` gives, padded to its longest item.

    Args:
        items: B items with ``inputs`` (dict of tensors of shape [N], N may differ), ``padding`` and ``data_samples``.

    Returns:
        dict: ``inputs``, a dict of tensors of shape [B, N], and ``data_samples``, the list of samples.

    Example:
        >>> import torch
        >>> padding = dict(input_ids=9, side='right')
        >>> items = [
        ...     dict(inputs=dict(input_ids=torch.arange(n)), padding=padding, data_samples=None) for n in (1, 3)
        ... ]
        >>> glue_collate(items)['inputs']['input_ids'].tolist()
        [[0, 9, 9], [0, 1, 2]]
    """
    padding = items[0]['padding']
    inputs = {
        name: pad_sequence(
            [item['inputs'][name] for item in items],
            batch_first=True,
            padding_value=padding[name],
            padding_side=padding['side'],
        )
        for name in items[0]['inputs']
    }
    return dict(inputs=inputs, data_samples=[item['data_samples'] for item in items])
