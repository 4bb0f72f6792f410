"""Every row once a pass, similar lengths side by side, the same order after a break."""

from collections import Counter
from itertools import chain, islice

import pytest
from mmengine.registry import DATA_SAMPLERS

from rebnn_mm.datasets import GLUEDataset, LengthGroupedSampler
from tests.datasets.glue_folder import write_rows


@pytest.fixture(scope='module')
def rows(tmp_path_factory):
    return GLUEDataset('mrpc', str(write_rows(tmp_path_factory.mktemp('rows') / 'train.tsv', 'mrpc', 96)))


class Texts(list):
    def get_data_info(self, index):
        return dict(text=self[index])


def batches(sampler, count, size=8):
    stream = iter(sampler)
    return [list(islice(stream, size)) for _ in range(count)]


def spread(rows, indices):
    lengths = [len(rows[index]['text']) + len(rows[index]['text_pair']) for index in indices]
    return max(lengths) - min(lengths)


def test_every_row_once_in_a_pass_of_similar_lengths(rows):
    sampler = DATA_SAMPLERS.build(
        dict(type='LengthGroupedSampler', batch_size=8, window=6), default_args=dict(dataset=rows, seed=1)
    )
    found = batches(sampler, 12)
    assert sorted(chain.from_iterable(found)) == list(range(96))
    plain = DATA_SAMPLERS.build(dict(type='InfiniteSampler'), default_args=dict(dataset=rows, seed=1))
    grouped_spread = sum(spread(rows, batch) for batch in found) / 12
    plain_spread = sum(spread(rows, batch) for batch in batches(plain, 12)) / 12
    assert grouped_spread < plain_spread / 2


@pytest.mark.parametrize('processes', [1, 8])
@pytest.mark.parametrize('count', [130, 131, 300])
def test_no_batch_holds_a_row_twice(monkeypatch, processes, count):
    """Windows that are longer than a pass, and passes that no whole number of batches fills."""
    texts = Texts('x' * (1 + number % 40) for number in range(count))
    size = 16 * processes
    samplers = []
    for rank in range(processes):
        monkeypatch.setattr('mmengine.dataset.sampler.get_dist_info', lambda rank=rank: (rank, processes))
        samplers.append(iter(LengthGroupedSampler(texts, 16, seed=1)))
    steps = [[next(stream) for stream in samplers for _ in range(16)] for _ in range(4 * count // size)]
    assert [len(set(step)) for step in steps] == [size] * len(steps)
    often = Counter(chain.from_iterable(steps)).values()
    assert len(often) == count and max(often) - min(often) <= 1


def test_fewer_rows_than_a_batch_come_once_a_pass():
    stream = iter(LengthGroupedSampler(Texts(['a', 'bc', 'd']), 4, seed=1))
    assert [sorted(islice(stream, 3)) for _ in range(5)] == [[0, 1, 2]] * 5


def test_order_of_batches_is_random_and_follows_the_seed(rows):
    def first(seed):
        return batches(LengthGroupedSampler(rows, 8, window=12, seed=seed), 24)

    assert first(3) == first(3) != first(4)
    assert first(3)[:12] != first(3)[12:]
    shortest = [min(len(rows[index]['text']) for index in batch) for batch in first(3)[:12]]
    assert shortest != sorted(shortest)


def test_goes_on_where_it_stood(rows):
    whole = batches(LengthGroupedSampler(rows, 8, seed=5), 20)
    resumed = LengthGroupedSampler(rows, 8, seed=5)
    resumed.skip(8 * 13)
    assert batches(resumed, 7) == whole[13:]


def test_processes_share_each_group(rows, monkeypatch):
    parts = []
    for rank in (0, 1):
        monkeypatch.setattr('mmengine.dataset.sampler.get_dist_info', lambda rank=rank: (rank, 2))
        parts.append(batches(LengthGroupedSampler(rows, 4, window=12, seed=2), 12, size=4))
    assert sorted(chain.from_iterable(parts[0] + parts[1])) == list(range(96))
    together = [one + other for one, other in zip(*parts, strict=True)]
    assert max(spread(rows, batch) for batch in together) < spread(rows, range(96)) / 2
