import torch

from rebnn_mm.models.losses import DirectionMatchingLoss
from tests.models.losses.encoders import encoded
from tests.tolerances import FLOAT64_EXACT


def test_value_and_gradient_are_the_written_out_formula():
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    student, teacher = encoded(0, mask=mask), encoded(1, mask=mask)
    terms = DirectionMatchingLoss()(student, teacher)
    assert list(terms) == ['loss_q', 'loss_k', 'loss_v']
    ours = torch.autograd.grad(terms['loss_k'], student.attention[0].key)[0]

    def pattern(key):
        total = torch.einsum('bhid,bhjd->bhij', key, key) / 2  # the root of d = 4
        return torch.stack([total[b] * mask[b][:, None] * mask[b] for b in range(3)])

    expected = 0
    for i in range(2):
        s, t = pattern(student.attention[i].key), pattern(teacher.attention[i].key)
        expected = expected + (s / s.square().sum().sqrt() - t / t.square().sum().sqrt()).square().sum().sqrt()
    torch.testing.assert_close(terms['loss_k'], expected, atol=FLOAT64_EXACT, rtol=0)
    theirs = torch.autograd.grad(expected, student.attention[0].key)[0]
    torch.testing.assert_close(ours, theirs, atol=FLOAT64_EXACT, rtol=0)


def test_only_directions_count():
    student, teacher = encoded(0), encoded(0)
    larger = [record._replace(query=record.query * 5) for record in student.attention]
    terms = DirectionMatchingLoss()(student._replace(attention=larger), teacher)
    assert terms['loss_q'] < 1e-12


def test_heads_may_have_other_widths():
    student, teacher = encoded(0), encoded(1)
    narrow = [
        r._replace(query=r.query[..., :2], key=r.key[..., :2], value=r.value[..., :2]) for r in student.attention
    ]
    assert all(value > 0 for value in DirectionMatchingLoss()(student._replace(attention=narrow), teacher).values())
