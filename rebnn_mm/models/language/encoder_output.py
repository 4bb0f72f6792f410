"""What an encoder shows of itself to the losses that compare two of them."""

from typing import NamedTuple

from torch import Tensor


class AttentionRecord(NamedTuple):
    """One attention of one forward pass.

    Attributes:
        query, key, value: (B, H, N, d), the projections before anything is quantized.
        scores: (B, H, N, N), products of query and key times the scaling, as the attention computed them (quantized
            where it quantizes), before the mask.
        mask: bool, (B, 1, 1 or N, N), True where a position may be attended to; None for everywhere.
        scaling: factor of the scores.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    mask: Tensor | None
    scaling: float


class EncoderOutput(NamedTuple):
    """One forward pass of an encoder with L layers.

    Attributes:
        logits: (B, labels).
        hidden_states: L + 1 tensors (B, N, D): behind the embeddings and behind every layer.
        attention: L records, in the order of the layers.
        mask: bool, (B, N), True for tokens and False for padding.
    """

    logits: Tensor
    hidden_states: tuple[Tensor, ...]
    attention: list[AttentionRecord]
    mask: Tensor
