"""How the latent weights of a trained model are distributed, small enough for a record."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..functional import channel_mean_abs

REACH = 3.0
"""Histograms go from -REACH to REACH mean magnitudes of the channel."""

BINS = 60


def latent_weight_histograms(state: Mapping[str, Tensor], layers: Iterable[str]) -> dict[str, dict[str, Any]]:
    r"""Histogram of :math:`w_{ij} / \frac{1}{M} \sum_j |w_{ij}|` of each layer.

    Channels of one layer differ in the size of their weights; divided by their mean magnitude they can be put
    together. With a scaling factor of mean(abs(w)), -1 and 1 are where the binarised weights stand.

    Args:
        state: state dict of the model.
        layers: names of its binary layers.

    Returns:
        dict: by layer ``mean_abs``, the mean magnitude; ``counts`` of :data:`BINS` equal bins from -:data:`REACH` to
        :data:`REACH`; ``outside``, how many weights are further out.

    Example:
        >>> weight = torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.1, 0.1, 0.1, -0.5]])
        >>> found = latent_weight_histograms({'conv.weight': weight}, ['conv'])['conv']
        >>> found['mean_abs'], sum(found['counts']), found['outside']
        (0.6, 8, 0)
    """
    found = {}
    for name in layers:
        weight = state[f'{name}.weight'].detach().float().cpu()
        size = channel_mean_abs(weight).clamp(min=1e-12)
        ratio = weight.flatten(1) / size[:, None]
        counts = torch.histc(ratio, bins=BINS, min=-REACH, max=REACH).long().tolist()
        found[name] = dict(
            mean_abs=float(f'{weight.abs().mean():.4g}'), counts=counts, outside=ratio.numel() - sum(counts)
        )
    return found
