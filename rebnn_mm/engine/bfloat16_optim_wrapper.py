"""The mmengine optimizer wrapper that trains in bfloat16 on a processor, too."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from mmengine.registry import OPTIM_WRAPPERS
from torch import nn


@OPTIM_WRAPPERS.register_module()
class Bfloat16OptimWrapper(OptimWrapper):
    """Runs the forward pass under ``torch.autocast`` in bfloat16, on whatever device mmengine trains on.

    mmengine's ``AmpOptimWrapper`` needs a GPU. A processor with AVX512_BF16 multiplies bfloat16 faster than float32,
    too; one without takes longer with it. bfloat16 has the exponents of float32, so losses are not scaled. Latent
    weights, their gradients and the resilient gradient stay in float32, and so does evaluation.
    For classifiers and one-stage detectors: mmcv's NMS behind a proposal head takes no bfloat16 on a processor.

    In a config: ``optim_wrapper = dict(type='Bfloat16OptimWrapper', ...)``, all else as for ``OptimWrapper``.

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> wrapper = Bfloat16OptimWrapper(optimizer=torch.optim.SGD(layer.parameters(), lr=0.1))
        >>> with wrapper.optim_context(layer):
        ...     layer(torch.ones(1, 4)).dtype
        torch.bfloat16
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Around the forward pass: autocast, and no exchange of gradients while they are accumulated."""
        with super().optim_context(model), torch.autocast(get_device(), dtype=torch.bfloat16):
            yield
