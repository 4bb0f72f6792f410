"""Batches of token sequences."""

from collections.abc import Sequence
from typing import Any

from mmengine.registry import FUNCTIONS
from torch.nn.utils.rnn import pad_sequence


@FUNCTIONS.register_module()
def glue_collate(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One batch of what :class:`TokenizeText` gives, padded to its longest item.

    Args:
        items: B items with ``inputs`` (dict of tensors of shape [N], N may differ), ``padding`` and ``data_samples``.

    Returns:
        dict: ``inputs``, a dict of tensors of shape [B, N], and ``data_samples``, the list of samples.

    Example:
        >>> import torch
        >>> padding = dict(input_ids=9, side='right')
        >>> items = [
        ...     dict(inputs=dict(input_ids=torch.arange(n)), padding=padding, data_samples=None) for n in (1, 3)
        ... ]
        >>> glue_collate(items)['inputs']['input_ids'].tolist()
        [[0, 9, 9], [0, 1, 2]]
    """
    padding = items[0]['padding']
    inputs = {
        name: pad_sequence(
            [item['inputs'][name] for item in items],
            batch_first=True,
            padding_value=padding[name],
            padding_side=padding['side'],
        )
        for name in items[0]['inputs']
    }
    return dict(inputs=inputs, data_samples=[item['data_samples'] for item in items])
