import pytest
import torch

from rebnn_mm.models.losses import PredictionLoss
from tests.models.losses.encoders import encoded
from tests.tolerances import FLOAT32_ROUNDING


def test_classes():
    student, teacher = encoded(0), encoded(1)
    p, log_q = teacher.logits.softmax(1), student.logits.log_softmax(1)
    expected = -sum(float(p[b, c] * log_q[b, c]) for b in range(3) for c in range(3)) / 9
    got = PredictionLoss()(student, teacher)['loss_pred'].item()
    assert got == pytest.approx(expected, rel=FLOAT32_ROUNDING)


def test_gradient_vanishes_where_both_agree():
    student = encoded(0)
    PredictionLoss()(student, encoded(0))['loss_pred'].backward()
    assert student.logits.grad.abs().max() < FLOAT32_ROUNDING


def test_regression():
    student, teacher = encoded(0, labels=1), encoded(1, labels=1)
    expected = (student.logits - teacher.logits).square().mean().float()
    torch.testing.assert_close(PredictionLoss()(student, teacher)['loss_pred'], expected)
