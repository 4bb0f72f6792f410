import pytest
import torch

from rebnn_mm.methods import QBERTWeight
from tests.tolerances import FLOAT64_EXACT


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_groups_have_ranges_of_their_own():
    w = values(6, 10)
    rounded = QBERTWeight((6, 10), groups=3, bits=2)(w)
    for group in range(3):
        part, out = w[2 * group : 2 * group + 2], rounded[2 * group : 2 * group + 2]
        levels = torch.linspace(0, 1, 4, dtype=torch.float64) * (part.max() - part.min()) + part.min()
        nearest = levels[(part[..., None] - levels).abs().argmin(dim=-1)]
        torch.testing.assert_close(out, nearest, atol=FLOAT64_EXACT, rtol=0)


def test_gradient_of_grouped_weights_passes_unchanged():
    w, upstream = values(6, 10).requires_grad_(), values(6, 10, seed=1)
    (QBERTWeight((6, 10), groups=3, bits=2)(w) * upstream).sum().backward()
    assert torch.equal(w.grad, upstream)


def test_constant_group_keeps_its_value():
    assert torch.equal(QBERTWeight((2, 3), groups=1)(torch.full((2, 3), 0.7)), torch.full((2, 3), 0.7))


def test_by_hand():
    w = torch.tensor([[0.0, 0.9, 3.0], [0.0, 0.4, 0.6]], requires_grad=True)
    w_hat = QBERTWeight((2, 3), bits=2, groups=2)(w)
    w_hat.sum().backward()
    torch.testing.assert_close(w_hat.detach(), torch.tensor([[0.0, 1.0, 3.0], [0.0, 0.4, 0.6]]))
    assert torch.equal(w.grad, torch.ones(2, 3))
    assert QBERTWeight((2, 3), bits=2, groups=1)(w)[1].tolist() == [0, 0, 1]


@pytest.mark.parametrize(('rows', 'groups', 'taken'), [(768, 128, 128), (384, 128, 128), (312, 128, 104), (2, 128, 2)])
def test_number_of_groups_divides_the_rows(rows, groups, taken):
    quantizer = QBERTWeight((rows, 4), groups=groups)
    assert quantizer.groups == taken and quantizer.factors == 2 * taken


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match='groups=0 must be at least 1'):
        QBERTWeight((2, 3), groups=0)
    with pytest.raises(ValueError, match='must be a whole number from 1 to 8'):
        QBERTWeight((2, 3), bits=16)
