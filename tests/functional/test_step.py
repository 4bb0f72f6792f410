import pytest
import torch

from rebnn_mm.functional import step_ste

SPECIAL = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), float('inf'), -float('inf'), 2.0, -2.0])


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64, torch.bfloat16])
def test_zero_is_a_tie_and_nan_does_not_attend(dtype):
    x = SPECIAL.to(dtype)
    tiny = float(x[2] > 0)  # bfloat16 has no number as small
    assert step_ste(x).tolist() == [1, 1, 1, 1 - tiny, 0, 1, 0, 1, 0]
    assert step_ste(x, tie=False).tolist() == [0, 0, tiny, 0, 0, 1, 0, 1, 0]
    assert step_ste(x).dtype == dtype


@pytest.mark.parametrize('tie', [True, False])
def test_gradient_passes_in_the_window(tie):
    x = torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(1.0, 8.0, dtype=torch.float64)
    (step_ste(x, tie) * upstream).sum().backward()
    assert x.grad.tolist() == [0, 2, 3, 4, 5, 6, 0]
