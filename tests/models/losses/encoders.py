"""Random outputs of encoders, for the losses that compare two of them."""

import torch

from rebnn_mm.models.language.encoder_output import AttentionRecord, EncoderOutput

LAYERS, BATCH, HEADS, LENGTH, DIM = 2, 3, 2, 5, 4


def encoded(seed, *, length=LENGTH, layers=LAYERS, labels=3, mask=None):
    """An output in float64 whose tensors are leaves with gradients."""
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    records = []
    for _ in range(layers):
        query, key, value = (leaf(BATCH, HEADS, length, DIM) for _ in range(3))
        records.append(AttentionRecord(query, key, value, leaf(BATCH, HEADS, length, length), None, DIM**-0.5))
    states = tuple(leaf(BATCH, length, HEADS * DIM) for _ in range(layers + 1))
    mask = torch.ones(BATCH, length, dtype=torch.bool) if mask is None else mask
    return EncoderOutput(leaf(BATCH, labels), states, records, mask)


def padded(output, extra, seed=9):
    """The same with padding of random content behind it."""
    generator = torch.Generator().manual_seed(seed)

    def wider(x, dims):
        for dim in dims:
            shape = list(x.shape)
            shape[dim] = extra
            x = torch.cat([x, 3 * torch.randn(shape, generator=generator, dtype=x.dtype)], dim=dim)
        return x

    records = [
        record._replace(
            query=wider(record.query, [2]),
            key=wider(record.key, [2]),
            value=wider(record.value, [2]),
            scores=wider(record.scores, [2, 3]),
        )
        for record in output.attention
    ]
    mask = torch.cat([output.mask, torch.zeros(BATCH, extra, dtype=torch.bool)], dim=1)
    return EncoderOutput(output.logits, tuple(wider(state, [1]) for state in output.hidden_states), records, mask)
