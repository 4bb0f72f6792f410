import pytest
import torch
from torch.nn import functional as F

from rebnn_mm.layers import EncoderAttention, RealAttention
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('masked', [True, False])
def test_softmax_attention_equals_pytorch(masked):
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None] if masked else None
    parts = RealAttention(4, 8)(q, k, v, mask, 0.0, 8**-0.5)
    expected = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)
    torch.testing.assert_close(parts.output, expected, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(parts.scores, q @ k.transpose(-1, -2) / 8**0.5, atol=FLOAT64_EXACT, rtol=0)
    assert parts.output.is_contiguous()
    torch.testing.assert_close(parts.weights.sum(-1), torch.ones(2, 4, 5).double(), atol=FLOAT64_EXACT, rtol=0)


def test_dropout_in_training_only():
    q = torch.randn(1, 2, 16, 8)
    attention = RealAttention(2, 8)
    assert (attention(q, q, q, None, 0.5, 1.0).weights == 0).float().mean() > 0.3
    assert (attention.eval()(q, q, q, None, 0.5, 1.0).weights > 0).all()


def test_base_says_what_to_implement():
    q = torch.zeros(1, 1, 2, 4)
    with pytest.raises(NotImplementedError, match='EncoderAttention has to implement forward'):
        EncoderAttention(1, 4)(q, q, q, None, 0.0, 1.0)
