"""Maxout as AdaBin uses it: a slope for each half of the line."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn


@MODELS.register_module()
class BinaryMaxout(nn.Module):
    r"""Piecewise linear function with two learnable slopes per channel.

    .. math:: y = p_c \max(x, 0) + n_c \min(x, 0)

    Args:
        channels: number of channels C.

    Attributes:
        positive (Parameter): slope of positive inputs, shape (C,), from 1.
        negative (Parameter): slope of negative inputs, shape (C,), from 0.25.

    Shapes: (N, C, ...) to the same.

    Source: Tu et al. 2022 (AdaBin), section 3.4.

    Example:
        >>> BinaryMaxout(2)(torch.tensor([[-4., 4.]]))
        tensor([[-1.,  4.]], grad_fn=<AddBackward0>)
    """

    param_roles: ClassVar[dict[str, str]] = {'positive': 'shift', 'negative': 'shift'}

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.positive = nn.Parameter(torch.ones(channels))
        self.negative = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x of shape (N, C, ...)."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        y = self.positive.view(shape) * x.clamp(min=0) + self.negative.view(shape) * x.clamp(max=0)
        return y.to(x.dtype)  # float32 under autocast
