import pytest
import torch
from mmengine.registry import MODELS
from torch.nn import functional

from rebnn_mm.models.losses import distribution_loss
from tests.tolerances import FLOAT64_EXACT


def scores(n=5, classes=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return (3 * torch.randn(2, n, classes, generator=generator, dtype=dtype)).unbind()


def test_value_and_gradient_against_the_closed_form():
    student, teacher = scores()
    student.requires_grad_()
    loss = distribution_loss(student, teacher)
    loss.backward()
    p, q = (x.exp() / x.exp().sum(dim=1, keepdim=True) for x in (teacher, student.detach()))
    torch.testing.assert_close(loss.detach(), -(p * q.log()).sum() / 5, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(student.grad, (q - p) / 5, atol=FLOAT64_EXACT, rtol=0)


def test_it_is_the_divergence_of_the_source_plus_the_entropy_of_the_teacher():
    student, teacher = scores()
    log_p, log_q = (functional.log_softmax(x, dim=1) for x in (teacher, student))
    divergence = functional.kl_div(log_q, log_p, reduction='batchmean', log_target=True)
    entropy = -(log_p.exp() * log_p).sum(dim=1).mean()
    torch.testing.assert_close(
        distribution_loss(student, teacher), divergence + entropy, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT
    )


def test_a_sure_teacher_gives_the_cross_entropy_of_its_label():
    student, _ = scores()
    labels = torch.arange(5)
    teacher = 1e4 * functional.one_hot(labels, 7).double()
    expected = functional.cross_entropy(student, labels)
    torch.testing.assert_close(distribution_loss(student, teacher), expected, atol=FLOAT64_EXACT, rtol=0)


def test_teacher_gets_no_gradient():
    student, teacher = (x.clone().requires_grad_() for x in scores())
    distribution_loss(student, teacher).backward()
    assert teacher.grad is None


def test_half_precision_scores_are_compared_in_float32():
    student, teacher = scores(dtype=torch.float32)
    loss = distribution_loss(student.half(), teacher.half())
    assert loss.dtype is torch.float32
    assert torch.equal(loss, distribution_loss(student.half().float(), teacher.half().float()))


def test_other_classes_are_an_error():
    with pytest.raises(ValueError, match=r'student gives scores of shape \(2, 10\), the teacher of shape \(2, 12\)'):
        distribution_loss(torch.zeros(2, 10), torch.zeros(2, 12))


def test_registered_loss_is_weighted():
    student, teacher = scores()
    loss = MODELS.build(dict(type='DistributionLoss', loss_weight=0.25))
    assert torch.equal(loss(student, teacher), 0.25 * distribution_loss(student, teacher))
    assert 'loss_weight=0.25' in repr(loss)
