"""Learned parts of blocks made for one bit, other than convolutions: RPReLU, Maxout, and a gate."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional


@MODELS.register_module()
class RPReLU(nn.Module):
    r"""PReLU whose input and output are shifted per channel.

    .. math:: y = PReLU_{a_c}(x + \beta_c) + \zeta_c

    Args:
        slope: first value of the slope :math:`a_c` of negative inputs.

    Shapes: (N, C, ...) to the same.

    Source: Liu et al. 2020 (ReActNet), Eq. 4.

    Example:
        >>> RPReLU(2)(torch.tensor([[-4., 4.]]))
        tensor([[-1.,  4.]], grad_fn=<AddBackward0>)
    """

    param_roles: ClassVar[dict[str, str]] = {'shift_in': 'shift', 'slope': 'shift', 'shift_out': 'shift'}

    def __init__(self, channels: int, slope: float = 0.25) -> None:
        super().__init__()
        self.shift_in = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), slope))
        self.shift_out = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1, *[1] * (x.dim() - 2))
        y = functional.prelu(x + self.shift_in.view(shape), self.slope) + self.shift_out.view(shape)
        return y.to(x.dtype)  # float32 under autocast


@MODELS.register_module()
class Maxout(nn.Module):
    r"""Piecewise linear function with two learnable slopes per channel.

    .. math:: y = p_c \max(x, 0) + n_c \min(x, 0)

    The parameters ``positive`` and ``negative``, p from 1 and n from 0.25, have shape (C,).

    Shapes: (N, C, ...) to the same.

    Source: Tu et al. 2022 (AdaBin), section 3.4.

    Example:
        >>> Maxout(2)(torch.tensor([[-4., 4.]]))
        tensor([[-1.,  4.]], grad_fn=<AddBackward0>)
    """

    param_roles: ClassVar[dict[str, str]] = {'positive': 'shift', 'negative': 'shift'}

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.positive = nn.Parameter(torch.ones(channels))
        self.negative = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1, *[1] * (x.dim() - 2))
        y = self.positive.view(shape) * x.clamp(min=0) + self.negative.view(shape) * x.clamp(max=0)
        return y.to(x.dtype)  # float32 under autocast


class SqueezeExcite(nn.Module):
    r"""One factor between 0 and 1 per sample and channel, from the mean of each channel.

    .. math:: g = \sigma(W_2 \max(W_1 \bar x, 0))

    Args:
        channels: channels of the input, shape (N, channels, H, W).
        ratio: how many times narrower the layer inside is, which has one channel at least.
        out_channels: channels of the output, (N, out_channels, 1, 1); None for as many as the input has.
        bias: whether both layers have one.

    Source: Hu et al. 2018 (squeeze and excitation).

    Example:
        >>> SqueezeExcite(16, out_channels=32)(torch.randn(2, 16, 5, 5)).shape
        torch.Size([2, 32, 1, 1])
    """

    def __init__(self, channels: int, ratio: int = 8, *, out_channels: int | None = None, bias: bool = True) -> None:
        super().__init__()
        inner = max(channels // ratio, 1)
        self.squeeze = nn.Conv2d(channels, inner, 1, bias=bias)
        self.excite = nn.Conv2d(inner, out_channels or channels, 1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.excite(self.squeeze(x.mean(dim=(2, 3), keepdim=True)).relu()).sigmoid()
