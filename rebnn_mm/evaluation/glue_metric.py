"""The scores of GLUE's tasks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.evaluator import BaseMetric
from mmengine.registry import METRICS

from ..datasets.glue_tasks import glue_task
from ..errors import RebnnError
from ..utils.score_table import MAJORITY

Labels = np.ndarray


@METRICS.register_module()
class GLUEMetric(BaseMetric):
    """A task's own scores in percent, and next to each what predicting the most frequent class would reach.

    The second one, ``<score>_majority``, tells a trained model from a collapsed one: 1-bit models often end there. It
    is taken from the rows that are scored. For STS-B it is the score of any constant, which is 0.

    A correlation or Matthews coefficient with a constant is undefined; it is given as 0. A model that gives NaN has no
    row right.

    Args:
        task: one of ``cola sst2 mrpc stsb qqp mnli qnli rte wnli``.
        collect_device: as in mmengine.
        prefix: before every name.

    Takes data samples with ``pred_score`` (logits, [classes]; [1] for STS-B), ``gt_label`` and ``split``. Gives, by
    task, ``glue/accuracy``, ``glue/f1`` (of class 1), ``glue/matthews``, ``glue/pearson``, ``glue/spearman`` and their
    mean ``glue/pearson_spearman``. Rows of different splits are scored apart: ``glue/accuracy_matched`` and
    ``glue/accuracy_mismatched``.

    Raises:
        ValueError: unknown task, or the model's output does not fit the task.

    Example:
        >>> import torch
        >>> metric = GLUEMetric('sst2')
        >>> rows = [(0.1, 0.9, 1), (0.8, 0.2, 1), (0.7, 0.3, 0), (0.2, 0.8, 1)]
        >>> metric.process({}, [dict(pred_score=torch.tensor(row[:2]), gt_label=row[2], split='') for row in rows])
        >>> metric.evaluate(size=4)
        {'glue/accuracy': 75.0, 'glue/accuracy_majority': 75.0}

    Source: Wang et al. 2018, GLUE, for which task has which score; scikit-learn and scipy for the scores.
    """

    default_prefix = 'glue'

    def __init__(self, task: str, collect_device: str = 'cpu', prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.task = glue_task(task)

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        """Keep prediction and label of every row."""
        outputs = max(len(self.task.labels), 1)
        for sample in data_samples:
            scores = sample['pred_score'].detach().float().cpu().numpy().reshape(-1)
            if len(scores) != outputs:
                raise RebnnError(
                    f'GLUEMetric: the model gives {len(scores)} numbers per row, and {self.task.name} needs '
                    f'{outputs}. Set num_labels={outputs} in the model.'
                )
            predicted = float(scores[0]) if self.task.is_regression else int(scores.argmax())
            if not np.isfinite(scores).all():
                predicted = math.nan
            self.results.append((sample.get('split', ''), predicted, float(sample['gt_label'])))

    def compute_metrics(self, results: Sequence[tuple[str, float, float]]) -> dict[str, float]:
        """Scores of each split, each followed by the majority class's."""
        rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for split, predicted, label in results:
            rows[split].append((predicted, label))
        scores = {}
        for split, pairs in rows.items():
            guesses, labels = (np.array(values) for values in zip(*pairs, strict=True))
            values, counts = np.unique(labels, return_counts=True)
            constant = np.full_like(labels, values[counts.argmax()])
            for name, value in self._scores(guesses, labels).items():
                key = f'{name}_{split}' if split else name
                scores[key] = value
                scores[key + MAJORITY] = self._scores(constant, labels)[name]
        return scores

    def _scores(self, predicted: Labels, labels: Labels) -> dict[str, float]:
        if np.isnan(predicted).any():  # a diverged model has no score
            predicted = np.full_like(labels, -1)
        values = {name: _score(name, labels, predicted) for name in self.task.metrics}
        if self.task.is_regression:
            values['pearson_spearman'] = sum(values.values()) / len(values)
        return {name: round(100 * value, 4) for name, value in values.items()}


def _score(name: str, labels: Labels, predicted: Labels) -> float:
    """A score by its name, 0 to 1 or -1 to 1."""
    if name == 'accuracy':
        return float((labels == predicted).mean())
    if name in ('f1', 'matthews'):
        from sklearn import metrics

        if name == 'f1':
            return float(metrics.f1_score(labels == 1, predicted == 1, zero_division=0))
        return float(metrics.matthews_corrcoef(labels, predicted))
    from scipy import stats

    if len(labels) < 2 or np.ptp(labels) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(getattr(stats, f'{name}r')(labels, predicted).statistic)
