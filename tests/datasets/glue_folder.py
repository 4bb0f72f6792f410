"""A small GLUE folder with generated rows in the files' own formats."""

import random
from pathlib import Path

from rebnn_mm.datasets import GLUE_TASKS, GLUETask

WORDS = ['the', 'film', 'was', 'a', 'good', 'bad', 'plot', 'and', 'not', 'story', 'is', 'fun', 'dull', 'scene']

HEADERS = {
    'sst2': 'sentence\tlabel',
    'mrpc': '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String',
    'stsb': 'index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore',
    'qqp': 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate',
    'mnli': 'index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t'
    'sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label',
    'qnli': 'index\tquestion\tsentence\tlabel',
    'rte': 'index\tsentence1\tsentence2\tlabel',
    'wnli': 'index\tsentence1\tsentence2\tlabel',
}
"""First line of each task's file as GLUE has it."""


def sentence(generator: random.Random) -> str:
    return ' '.join(generator.choices(WORDS, k=generator.randint(2, 9)))


def row(task: GLUETask, number: int, generator: random.Random) -> str:
    """A row with a label that goes round."""
    label = task.labels[number % len(task.labels)] if task.labels else f'{number % 6:.3f}'
    texts = [sentence(generator) for _ in task.text]
    if task.columns:
        return '\t'.join(['gen', label, '', *texts])
    values = {**dict(zip(task.text, texts, strict=True)), task.label: label}
    names = HEADERS[task.name].lstrip('\ufeff').split('\t')
    return '\t'.join(values.get(name, str(number)) for name in names)


def write_rows(path: Path, task: str, count: int, seed: int = 0) -> Path:
    """A file of ``count`` rows of that task."""
    generator = random.Random(seed)
    lines = [] if GLUE_TASKS[task].columns else [HEADERS[task]]
    lines += [row(GLUE_TASKS[task], number, generator) for number in range(count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return path


def write_glue(root: Path, rows: int = 24) -> Path:
    """Training and development files of all nine tasks under their official names."""
    for task in GLUE_TASKS.values():
        for number, name in enumerate(('train.tsv', *task.splits)):
            write_rows(root / task.folder / name, task.name, rows, seed=number)
    return root
