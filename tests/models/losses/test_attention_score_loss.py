import torch

from rebnn_mm.models.losses import AttentionScoreLoss
from tests.models.losses.encoders import encoded
from tests.tolerances import FLOAT32_ROUNDING


def test_mean_over_pairs_of_real_tokens_or_over_all_pairs():
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    student, teacher = encoded(0, mask=mask), encoded(1, mask=mask)
    masked = everything = 0
    for ours, theirs in zip(student.attention, teacher.attention, strict=True):
        squares = (ours.scores - theirs.scores).square()
        masked += torch.cat([squares[b][:, mask[b]][:, :, mask[b]].flatten() for b in range(3)]).mean()
        for b in range(3):
            squares[b, :, :, ~mask[b]] = 0
        everything += squares.mean()
    for on, expected in ((True, masked), (False, everything)):
        got = AttentionScoreLoss(mask_padding=on)(student, teacher)['loss_scores']
        torch.testing.assert_close(got.double(), expected, atol=0, rtol=FLOAT32_ROUNDING)
