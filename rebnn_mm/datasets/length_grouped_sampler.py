"""Batches of texts that are about equally long."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from mmengine.dataset import InfiniteSampler
from mmengine.registry import DATA_SAMPLERS


@DATA_SAMPLERS.register_module()
class LengthGroupedSampler(InfiniteSampler):
    """mmengine's ``InfiniteSampler``, with texts of similar length side by side, so that batches have little padding.

    Each shuffled pass over the rows is cut into windows of ``window`` batches; in each the rows are sorted by length,
    cut into batches, and the batches shuffled. Rows that fill no whole batch open the next pass, in a batch of mixed
    lengths. Every row comes once per pass, as without this sampler, but the rows of a batch are no longer independent
    of each other.

    No row is twice in a batch, nor in the batches that several processes have at the same time, unless the data set
    has fewer rows than these; then rows are shuffled and not grouped.

    Args:
        dataset: has ``get_data_info(index)`` with ``text`` and perhaps ``text_pair``, as
            :class:`rebnn_mm.datasets.GLUEDataset`. Lengths are counted in characters.
        batch_size: that of the data loader.
        window: batches that are sorted together.
        seed: filled in by mmengine.

    Example:
        >>> class Texts(list):
        ...     def get_data_info(self, index):
        ...         return dict(text=self[index])
        >>> texts = Texts('x' * (1 + number % 10) for number in range(100))
        >>> stream = iter(LengthGroupedSampler(texts, batch_size=10, window=10, seed=0))
        >>> sorted({len({len(texts[next(stream)]) for _ in range(10)}) for _ in range(10)})
        [1]
    """

    def __init__(self, dataset: Any, batch_size: int, window: int = 64, seed: int | None = None) -> None:
        super().__init__(dataset, shuffle=True, seed=seed)
        self.group = batch_size * self.world_size
        self.window = window
        infos = (dataset.get_data_info(index) for index in range(len(dataset)))
        self.lengths = [len(info['text']) + len(info.get('text_pair') or '') for info in infos]

    def _infinite_indices(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed)
        shuffled = super()._infinite_indices()
        left: list[int] = []
        while True:
            rows = list(islice(shuffled, self.size))
            waiting = set(left)
            joining = [row for row in rows if row not in waiting][: -len(left) % self.group]
            yield from left + joining
            joined = set(joining)
            rows = [row for row in rows if row not in joined]
            whole = len(rows) // self.group * self.group
            for start in range(0, whole, self.group * self.window):
                yield from self._draw_groups(rows[start : min(start + self.group * self.window, whole)], generator)
            left = rows[whole:]

    def _draw_groups(self, rows: list[int], generator: torch.Generator) -> Iterator[int]:
        rows = sorted(rows, key=self.lengths.__getitem__)
        for number in torch.randperm(len(rows) // self.group, generator=generator).tolist():
            yield from rows[number * self.group : (number + 1) * self.group]
