"""The readers on generated, real and damaged files."""

from pathlib import Path

import pytest
from mmengine.dataset import ConcatDataset
from mmengine.registry import DATASETS

from rebnn_mm.datasets import GLUE_TASKS, GLUEDataset, glue_task
from tests.datasets.glue_folder import HEADERS, write_glue, write_rows

REAL = Path(__file__).parent / 'glue_rows'


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / 'file.tsv'
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.mark.parametrize('task', GLUE_TASKS.values(), ids=GLUE_TASKS)
def test_rows_of_every_task_in_the_official_format(task, tmp_path):
    write_glue(tmp_path, rows=12)
    for name, split in task.splits.items():
        dataset = DATASETS.build(
            dict(type='GLUEDataset', task=task.name, data_root=str(tmp_path), ann_file=f'{task.folder}/{name}',
                 split=split)
        )  # fmt: skip
        assert len(dataset) == 12
        expected = [number % len(task.labels) if task.labels else number % 6 for number in range(12)]
        assert [item['gt_label'] for item in dataset] == expected
        assert {type(item['gt_label']) for item in dataset} == {int if task.labels else float}
        assert {item['split'] for item in dataset} == {split}
        assert all(('text_pair' in item) == (len(task.text) == 2) and item['text'] for item in dataset)
        assert dataset.metainfo['classes'] == task.labels


@pytest.mark.parametrize(
    ('task', 'name', 'count', 'labels', 'words'),
    [
        ('stsb', 'STS-B/train.tsv', 30, None, None),
        ('stsb', 'STS-B/dev.tsv', 30, None, None),
        ('qnli', 'QNLI/dev.tsv', 30, {0, 1}, 'What did Luther call  the consecrated bread and wine?'),
        ('wnli', 'WNLI/train.tsv', 24, {0, 1}, None),
        ('wnli', 'WNLI/dev.tsv', 24, {0, 1}, None),
    ],
)
def test_real_rows(task, name, count, labels, words):
    dataset = GLUEDataset(task, name, data_root=str(REAL))
    assert len(dataset) == count
    found = [item['gt_label'] for item in dataset]
    assert set(found) == labels if labels else all(0 <= score <= 5 for score in found) and max(found) > 3
    assert words is None or words in {item['text'] for item in dataset}
    assert all(item['text'] and item['text_pair'] and '\t' not in item['text_pair'] for item in dataset)


def test_quotation_marks_are_text(file):
    rows = 'sentence\tlabel\n"no end of it\t1\nit "ends" here"\t0\n""\t1\n'
    dataset = GLUEDataset('sst2', file(rows))
    assert [item['text'] for item in dataset] == ['"no end of it', 'it "ends" here"', '""']


def test_byte_order_mark_windows_line_ends_and_blank_lines(file):
    rows = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t2\t3\tone\ttwo\r\n\r\n0\t2\t3\tthree\tfour\r\n'
    dataset = GLUEDataset('mrpc', file(rows))
    items = [(item['text'], item['text_pair'], item['gt_label']) for item in dataset]
    assert items == [('one', 'two', 1), ('three', 'four', 0)]


def test_separators_of_lines_in_unicode_do_not_end_a_row(file):
    assert [item['text'] for item in GLUEDataset('sst2', file('sentence\tlabel\na\u2028b\x85c\t1\n'))] == [
        'a\u2028b\x85c'
    ]


def test_broken_rows_of_qqp_are_skipped_and_counted_once(file, monkeypatch):
    messages = []
    monkeypatch.setattr('rebnn_mm.datasets.glue.print_log', lambda message, **options: messages.append(message))
    broken = '7\t1\t2\tno second question\n8\t1\t2\ta\tb\tmaybe\n9\n'
    path = file(f'{HEADERS["qqp"]}\n1\t1\t2\ta?\tb?\t1\n{broken}2\t1\t2\tc?\td?\t0\n')
    dataset = GLUEDataset('qqp', path)
    assert [item['text'] for item in dataset] == ['a?', 'c?']
    assert messages == [f'GLUEDataset: skipped 3 broken rows of {path} and read 2.']


@pytest.mark.parametrize(
    ('task', 'content', 'message'),
    [
        ('rte', f'{HEADERS["rte"]}\n0\ta\tb\tentailment\n1\ta\tb\n', 'line 3: 3 fields, at least 4 are needed'),
        ('rte', f'{HEADERS["rte"]}\n0\ta\tb\tmaybe\n', "line 2: label is 'maybe', not one of entailment, not_ent"),
        ('stsb', f'{HEADERS["stsb"]}\n0\tg\tf\ty\to\ts\ts\ta\tb\tnan\n', "line 2: score is 'nan', not a number"),
        ('cola', 'sentence\tlabel\na\t1\n', 'line 1: 2 fields, at least 4 are needed'),
        ('sst2', 'index\tsentence\n0\ta\n', 'lacks the column label of SST-2; its first line has index, sentence. GL'),
        ('mnli', 'index\tsentence1\tgold_label\n', 'lacks the column sentence2 of MNLI; its first line has index, se'),
        ('sst2', '', 'lacks the column sentence and label of SST-2; its first line has nothing.'),
        ('cola', '', 'has no rows. Get it again'),
        ('sst2', 'sentence\tlabel\n', 'has no rows. Get it again'),
        ('sst2', b'sentence\tlabel\n\xff\xfe\t1\n', 'is not UTF-8 text'),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(file, task, content, message):
    with pytest.raises(ValueError, match=r'GLUEDataset: .*file\.tsv') as caught:
        GLUEDataset(task, file(content))
    assert message in str(caught.value)
    assert '\n' not in str(caught.value)


def test_missing_file_says_where_to_get_it():
    with pytest.raises(FileNotFoundError, match=r'no no/where/SST-2/dev\.tsv\. Get SST-2 from https://gluebenchmark'):
        GLUEDataset('sst2', 'SST-2/dev.tsv', data_root='no/where')


def test_unknown_task_is_refused():
    with pytest.raises(ValueError, match="no task 'sst-2'. Use one of: cola, sst2"):
        GLUEDataset('sst-2', 'dev.tsv')


@pytest.mark.parametrize(
    ('label_map', 'labels'),
    [(None, [0, 1, 2]), ('hub', [2, 0, 1])],
)
def test_order_of_labels(tmp_path, label_map, labels):
    path = write_rows(tmp_path / 'dev.tsv', 'mnli', 3)
    dataset = GLUEDataset('mnli', str(path), label_map=label_map)
    assert [item['gt_label'] for item in dataset] == labels
    assert [dataset.metainfo['classes'][label] for label in labels] == ['contradiction', 'entailment', 'neutral']


def test_wrong_label_map_is_refused(tmp_path):
    path = write_rows(tmp_path / 'dev.tsv', 'mnli', 3)
    with pytest.raises(ValueError, match='label_map='):
        GLUEDataset('mnli', str(path), label_map='hf')


def test_matched_and_mismatched_rows_in_one_data_set(tmp_path):
    write_glue(tmp_path, rows=3)
    both = ConcatDataset(
        [
            dict(type='GLUEDataset', task='mnli', ann_file=f'MNLI/{name}', data_root=str(tmp_path), split=split)
            for name, split in glue_task('mnli').splits.items()
        ]
    )
    assert [both[index]['split'] for index in range(6)] == ['matched'] * 3 + ['mismatched'] * 3
