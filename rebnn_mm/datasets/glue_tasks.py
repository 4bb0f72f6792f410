"""The tasks of GLUE: their files, columns, labels and scores."""

from dataclasses import dataclass, field

from rebnn_mm.errors import RebnnError

BINARY = ('0', '1')


@dataclass(frozen=True)
class GLUETask:
    """Files of a task's classic TSV folder, and how the task is scored."""

    name: str  # as in configs, such as 'sst2'
    folder: str  # the task's folder in GLUE's layout
    text: tuple[str, ...]  # column of the sentence, or of both sentences of a pair
    train_rows: int  # rows of the official training file
    label: str = 'label'  # column of the label
    # the labels as files spell them, in the order of GLUE's own code; empty for a score (regression)
    labels: tuple[str, ...] = BINARY
    metrics: tuple[str, ...] = ('accuracy',)  # what :class:`rebnn_mm.evaluation.GLUEMetric` computes
    selection: str = 'accuracy'  # the score that the best checkpoint is chosen by
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


PAIR = ('sentence1', 'sentence2')
ENTAILMENT = ('entailment', 'not_entailment')

GLUE_TASKS = {
    task.name: task
    for task in (
        GLUETask(
            'cola',
            'CoLA',
            ('sentence',),
            8551,
            metrics=('matthews',),
            selection='matthews',
            columns=('source', 'label', 'mark', 'sentence'),
        ),
        GLUETask('sst2', 'SST-2', ('sentence',), 67349),
        GLUETask('mrpc', 'MRPC', ('#1 String', '#2 String'), 3668, 'Quality', metrics=('accuracy', 'f1')),
        GLUETask('stsb', 'STS-B', PAIR, 5749, 'score', (), ('pearson', 'spearman'), 'pearson_spearman'),
        GLUETask(
            'qqp',
            'QQP',
            ('question1', 'question2'),
            363846,
            'is_duplicate',
            metrics=('accuracy', 'f1'),
            skips_broken_rows=True,
        ),
        GLUETask(
            'mnli',
            'MNLI',
            PAIR,
            392702,
            'gold_label',
            ('contradiction', 'entailment', 'neutral'),
            selection='accuracy_matched',
            splits={'dev_matched.tsv': 'matched', 'dev_mismatched.tsv': 'mismatched'},
            hub_labels=('entailment', 'neutral', 'contradiction'),
        ),
        GLUETask('qnli', 'QNLI', ('question', 'sentence'), 104743, labels=ENTAILMENT),
        GLUETask('rte', 'RTE', PAIR, 2490, labels=ENTAILMENT),
        GLUETask('wnli', 'WNLI', PAIR, 635),
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
