import pytest
import torch

from rebnn_mm.functional import random_rotation, refined_rotation, rotated, rotation_sides, sign, standardised
from tests.tolerances import FLOAT32_ROUNDING, FLOAT64_EXACT


def matrices(count, rows, columns, seed=0):
    return torch.randn(count, rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotation(size, seed):
    torch.manual_seed(seed)
    return torch.linalg.qr(random_rotation(size).double()).Q


def agreement(filters, left, right):
    """What the update climbs: the summed product of rotated filters with their signs."""
    return rotated(filters, left, right).abs().sum().item()


def assert_orthogonal(matrix, atol):
    torch.testing.assert_close(matrix.T @ matrix, torch.eye(len(matrix), dtype=matrix.dtype), atol=atol, rtol=0)


def test_standardised_by_hand():
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0], [2.0, 2.0, 2.0, 2.0]], dtype=torch.float64)
    expected = torch.tensor([[-3.0, -1.0, 1.0, 3.0], [0.0] * 4], dtype=torch.float64) / 5**0.5
    torch.testing.assert_close(standardised(x, (1,), eps=0.0)[0], expected[0], atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(standardised(x, (1,))[1], expected[1], atol=0, rtol=0)


def test_standardised_has_its_true_gradient_and_a_finite_one_for_constant_values():
    x = matrices(2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: standardised(x, (1, 2)), x)
    constant = torch.full((1, 5), 3.0, requires_grad=True)
    standardised(constant, (1,)).square().sum().backward()
    assert constant.grad.isfinite().all()


def test_standardised_computes_half_precision_in_single():
    x = torch.tensor([[300.0, -300.0]], dtype=torch.float16)
    assert standardised(x, (1,)).tolist() == [[1.0, -1.0]] and standardised(x, (1,)).dtype == torch.float32


def test_sides_are_the_factors_nearest_to_a_square():
    for values in range(1, 200):
        rows, columns = rotation_sides(values)
        assert rows * columns == values and rows <= columns
        assert not [d for d in range(rows + 1, columns) if values % d == 0]


def test_random_rotation_is_orthogonal_and_decided_by_the_seed():
    first, again, other = (rotation(6, seed) for seed in (0, 0, 1))
    torch.manual_seed(0)
    assert_orthogonal(random_rotation(6), FLOAT32_ROUNDING)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_random_rotations_have_no_preferred_direction():
    torch.manual_seed(0)
    mean = torch.stack([random_rotation(3) for _ in range(2000)]).mean(dim=0)
    # Entries of one rotation have variance 1/3, so the mean has standard deviation 0.013.
    torch.testing.assert_close(mean, torch.zeros(3, 3), atol=0.06, rtol=0)


def test_two_small_rotations_are_one_large_rotation_of_the_filter():
    filters, left, right = matrices(4, 2, 3), rotation(2, 1), rotation(3, 2)
    one = torch.kron(left, right)
    expected = (filters.flatten(1) @ one).view_as(filters)
    torch.testing.assert_close(rotated(filters, left, right), expected, atol=FLOAT64_EXACT, rtol=0)
    assert_orthogonal(one, FLOAT64_EXACT)


def test_autocast_does_not_reach_the_rotation():
    filters, left, right = matrices(4, 6, 6).float(), rotation(6, 1).float(), rotation(6, 2).float()
    outside = rotated(filters, left, right), *refined_rotation(filters, left, right)
    with torch.autocast('cpu', torch.bfloat16):
        inside = rotated(filters, left, right), *refined_rotation(filters, left, right)
    assert all(torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


@pytest.mark.parametrize(('count', 'rows', 'columns'), [(8, 4, 6), (3, 1, 7), (2, 5, 5)])
def test_rotation_stays_orthogonal_and_agreement_never_falls(count, rows, columns):
    filters, left, right = matrices(count, rows, columns), rotation(rows, 1), rotation(columns, 2)
    first = last = agreement(filters, left, right)
    for _ in range(10):
        left, right = refined_rotation(filters, left, right, rounds=1)
        assert_orthogonal(left, FLOAT64_EXACT)
        assert_orthogonal(right, FLOAT64_EXACT)
        now = agreement(filters, left, right)
        assert now >= last - FLOAT64_EXACT * last
        last = now
    assert last > first


def test_three_rounds_are_one_round_three_times():
    filters, start = matrices(8, 4, 6), (rotation(4, 1), rotation(6, 2))
    turned = start
    for _ in range(3):
        turned = refined_rotation(filters, *turned, rounds=1)
    for at_once, one_by_one in zip(refined_rotation(filters, *start), turned, strict=True):
        assert torch.equal(at_once, one_by_one)


def test_right_rotation_is_the_best_for_the_signs_and_the_left_one():
    filters, left, right = matrices(8, 4, 6), rotation(4, 1), rotation(6, 2)
    codes = sign(rotated(filters, left, right))
    left, right = refined_rotation(filters, left, right, rounds=1)
    best = (rotated(filters, left, right) * codes).sum()
    for seed in range(50):
        other = rotation(6, seed + 10)
        nearby = torch.linalg.qr(right + 0.1 * other).Q
        nearby = nearby * (nearby * right).sum(dim=0).sign()
        assert (rotated(filters, left, other) * codes).sum() < best
        assert (rotated(filters, left, nearby) * codes).sum() < best


def test_signs_that_were_slightly_turned_are_found_again():
    codes = sign(matrices(16, 4, 6))
    small = [torch.linalg.matrix_exp(0.1 * (m - m.T)) for m in (matrices(1, 4, 4, 1)[0], matrices(1, 6, 6, 2)[0])]
    filters = small[0] @ codes @ small[1].T
    left, right = refined_rotation(filters, torch.eye(4).double(), torch.eye(6).double(), rounds=30)
    torch.testing.assert_close(rotated(filters, left, right), codes, atol=FLOAT64_EXACT, rtol=0)
