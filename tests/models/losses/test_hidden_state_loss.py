import pytest
import torch

from rebnn_mm.models.losses import HiddenStateLoss
from tests.models.losses.encoders import encoded
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT


def outputs():
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    return encoded(0, mask=mask), encoded(1, mask=mask), mask


def test_direction():
    student, teacher, mask = outputs()
    expected = 0
    for ours, theirs in zip(student.hidden_states, teacher.hidden_states, strict=True):
        s, t = ours[mask], theirs[mask]
        expected = expected + (s / s.norm() - t / t.norm()).norm()
    got = HiddenStateLoss()(student, teacher)['loss_hidden']
    torch.testing.assert_close(got, expected, atol=FLOAT64_EXACT, rtol=0)


def test_mse():
    student, teacher, mask = outputs()
    pairs = zip(student.hidden_states, teacher.hidden_states, strict=True)
    expected = sum((ours[mask] - theirs[mask]).square().mean() for ours, theirs in pairs)
    got = HiddenStateLoss('mse')(student, teacher)['loss_hidden']
    torch.testing.assert_close(got.double(), expected, atol=0, rtol=FLOAT32_ROUNDING)


def test_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form='cosine' is unknown; use 'direction' or 'mse'"):
        HiddenStateLoss('cosine')
