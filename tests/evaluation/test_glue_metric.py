"""GLUE's scores against values by hand, and on predictions that have none."""

import math
import warnings

import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS
from mmengine.structures import BaseDataElement
from torch.nn.functional import one_hot

from rebnn_mm.datasets import GLUE_TASKS
from rebnn_mm.evaluation import GLUEMetric

FOUR_DIGITS = dict(rel=0, abs=5e-5)
"""Scores are rounded to four digits of a percent."""


def evaluated(task, predictions, labels, splits=None):
    """Scores through mmengine's evaluator, from class numbers or from scores."""
    evaluator = Evaluator([METRICS.build(dict(type='GLUEMetric', task=task))])
    classes = len(GLUE_TASKS[task].labels)
    samples = []
    for number, (predicted, label) in enumerate(zip(predictions, labels, strict=True)):
        split = splits[number] if splits else ''
        sample = BaseDataElement(metainfo=dict(sample_idx=number, split=split))
        score = one_hot(torch.tensor(predicted), classes) if classes else torch.tensor([predicted])
        sample.pred_score = score.float()
        sample.gt_label = torch.tensor(label)
        samples.append(sample)
    evaluator.process(data_samples=samples[:2], data_batch={})
    evaluator.process(data_samples=samples[2:], data_batch={})
    return evaluator.evaluate(len(samples))


def test_accuracy_and_majority():
    scores = evaluated('sst2', [1, 0, 1, 1, 0], [1, 0, 0, 1, 1])
    assert scores == {'glue/accuracy': 60.0, 'glue/accuracy_majority': 60.0}
    scores = evaluated('qnli', [1, 0, 0, 1], [1, 0, 0, 0])
    assert scores == {'glue/accuracy': 75.0, 'glue/accuracy_majority': 75.0}


def test_f1_of_the_positive_class():
    labels, predicted = [1, 1, 1, 0, 0], [1, 1, 0, 1, 0]  # 2 hits, 1 false alarm, 1 miss
    scores = evaluated('mrpc', predicted, labels)
    assert scores['glue/accuracy'] == 60
    assert scores['glue/f1'] == pytest.approx(200 * 2 / (2 * 2 + 1 + 1), **FOUR_DIGITS)
    assert scores['glue/f1_majority'] == pytest.approx(200 * 3 / (2 * 3 + 2), **FOUR_DIGITS)
    assert evaluated('qqp', [1, 0, 0], [1, 0, 0])['glue/f1_majority'] == 0


def test_matthews():
    labels, predicted = [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 1]  # hits 2, rejections 2, false alarm 1, miss 1
    scores = evaluated('cola', predicted, labels)
    expected = (2 * 2 - 1 * 1) / math.sqrt(3 * 3 * 3 * 3)
    assert scores == {
        'glue/matthews': pytest.approx(100 * expected, **FOUR_DIGITS),
        'glue/matthews_majority': 0.0,
    }


def test_correlations_with_ties():
    labels, predicted = [0.0, 1.0, 2.0, 3.0], [0.5, 0.5, 2.0, 9.0]
    scores = evaluated('stsb', predicted, labels)
    deviations = [value - 3 for value in predicted]
    pearson = sum(d * (y - 1.5) for d, y in zip(deviations, labels, strict=True)) / math.sqrt(
        sum(d * d for d in deviations) * 5
    )
    # Ranks 1.5 1.5 3 4 against 1 2 3 4: covariance 4.5, variances 4.5 and 5.
    spearman = 4.5 / math.sqrt(4.5 * 5)
    assert scores['glue/pearson'] == pytest.approx(100 * pearson, **FOUR_DIGITS)
    assert scores['glue/spearman'] == pytest.approx(100 * spearman, **FOUR_DIGITS)
    assert scores['glue/pearson_spearman'] == pytest.approx(50 * (pearson + spearman), **FOUR_DIGITS)
    assert [scores[f'glue/{name}_majority'] for name in ('pearson', 'spearman', 'pearson_spearman')] == [0, 0, 0]


def test_constant_predictions_score_zero_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert evaluated('cola', [1, 1, 1], [1, 0, 1])['glue/matthews'] == 0
        scores = evaluated('stsb', [2.0, 2.0, 2.0], [1.0, 2.0, 3.0])
    assert (scores['glue/pearson'], scores['glue/spearman']) == (0, 0)


def test_output_of_a_diverged_model_is_never_right():
    metric = GLUEMetric('sst2')
    metric.process({}, [dict(pred_score=torch.tensor([math.nan, 0.0]), gt_label=torch.tensor(0), split='')] * 3)
    assert metric.evaluate(3) == {'glue/accuracy': 0.0, 'glue/accuracy_majority': 100.0}
    metric = GLUEMetric('stsb')
    metric.process(
        {}, [dict(pred_score=torch.tensor([math.nan]), gt_label=torch.tensor(y), split='') for y in (1.0, 2)]
    )
    assert metric.evaluate(2)['glue/pearson_spearman'] == 0


def test_splits_are_scored_apart():
    scores = evaluated('mnli', [0, 1, 2, 0, 0, 0], [0, 1, 2, 1, 1, 0], ['matched'] * 3 + ['mismatched'] * 3)
    assert scores == {
        'glue/accuracy_matched': 100.0,
        'glue/accuracy_matched_majority': pytest.approx(100 / 3, **FOUR_DIGITS),
        'glue/accuracy_mismatched': pytest.approx(100 / 3, **FOUR_DIGITS),
        'glue/accuracy_mismatched_majority': pytest.approx(200 / 3, **FOUR_DIGITS),
    }


@pytest.mark.parametrize('task', GLUE_TASKS)
def test_what_the_best_checkpoint_is_chosen_by_is_computed(task):
    splits = [split for split in GLUE_TASKS[task].splits.values() for _ in range(3)]
    scores = evaluated(task, [0, 1, 1] * (len(splits) // 3), [0.0, 1.0, 1.0] * (len(splits) // 3), splits)
    assert f'glue/{GLUE_TASKS[task].selection}' in scores


def test_model_with_the_wrong_number_of_outputs_is_refused():
    with pytest.raises(ValueError, match='gives 2 numbers per row, and mnli needs 3. Set num_labels=3'):
        GLUEMetric('mnli').process({}, [dict(pred_score=torch.zeros(2), gt_label=torch.tensor(0))])
