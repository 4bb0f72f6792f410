"""The tasks of GLUE: their files, columns, labels and scores."""

from dataclasses import dataclass, field

from rebnn_mm.errors import RebnnError


@dataclass(frozen=True)
class GLUETask:
    """Files of a task's classic TSV folder, and how the task is scored."""

    name: str  # as in configs, such as 'sst2'
    folder: str  # the task's folder in GLUE's layout
    text: tuple[str, ...]  # column of the sentence, or of both sentences of a pair
    label: str  # column of the label
    # the labels as files spell them, in the order of GLUE's own code; empty for a score (regression)
    labels: tuple[str, ...]
    metrics: tuple[str, ...]  # what :class:`rebnn_mm.evaluation.GLUEMetric` computes
    selection: str  # the score that the best checkpoint is chosen by
    train_rows: int  # rows of the official training file
    columns: tuple[str, ...] = ()  # the columns of a file without a header line; empty where the file has one
    # what the official development files are called, by file name
    splits: dict[str, str] = field(default_factory=lambda: {'dev.tsv': ''})
    skips_broken_rows: bool = False  # whether rows that cannot be read are left out, as the official file has some
    # the labels in the order of Hugging Face's glue data set, where it is another one
    hub_labels: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether the label is a number."""
        return not self.labels


BINARY = ('0', '1')
PAIR = ('sentence1', 'sentence2')
ENTAILMENT = ('entailment', 'not_entailment')

GLUE_TASKS = {
    task.name: task
    for task in (
        GLUETask(
            'cola',
            'CoLA',
            text=('sentence',),
            label='label',
            labels=BINARY,
            metrics=('matthews',),
            selection='matthews',
            train_rows=8551,
            columns=('source', 'label', 'mark', 'sentence'),
        ),
        GLUETask('sst2', 'SST-2', ('sentence',), 'label', BINARY, ('accuracy',), 'accuracy', 67349),
        GLUETask('mrpc', 'MRPC', ('#1 String', '#2 String'), 'Quality', BINARY, ('accuracy', 'f1'), 'accuracy', 3668),
        GLUETask('stsb', 'STS-B', PAIR, 'score', (), ('pearson', 'spearman'), 'pearson_spearman', 5749),
        GLUETask(
            'qqp',
            'QQP',
            text=('question1', 'question2'),
            label='is_duplicate',
            labels=BINARY,
            metrics=('accuracy', 'f1'),
            selection='accuracy',
            train_rows=363846,
            skips_broken_rows=True,
        ),
        GLUETask(
            'mnli',
            'MNLI',
            text=PAIR,
            label='gold_label',
            labels=('contradiction', 'entailment', 'neutral'),
            metrics=('accuracy',),
            selection='accuracy_matched',
            train_rows=392702,
            splits={'dev_matched.tsv': 'matched', 'dev_mismatched.tsv': 'mismatched'},
            hub_labels=('entailment', 'neutral', 'contradiction'),
        ),
        GLUETask('qnli', 'QNLI', ('question', 'sentence'), 'label', ENTAILMENT, ('accuracy',), 'accuracy', 104743),
        GLUETask('rte', 'RTE', PAIR, 'label', ENTAILMENT, ('accuracy',), 'accuracy', 2490),
        GLUETask('wnli', 'WNLI', PAIR, 'label', BINARY, ('accuracy',), 'accuracy', 635),
    )
}
"""GLUE's tasks by name, without its diagnostic set AX.

Source: Wang et al. 2018, GLUE, and the files it distributes.
"""


def glue_task(name: str) -> GLUETask:
    """The task of that name."""
    if name not in GLUE_TASKS:
        raise RebnnError(f'GLUE has no task {name!r}. Use one of: {", ".join(GLUE_TASKS)}.')
    return GLUE_TASKS[name]
