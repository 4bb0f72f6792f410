"""The shortcut around a binary convolution."""

from typing import Any

from mmcv.cnn import build_norm_layer
from torch import nn


def build_shortcut(
    in_channels: int, out_channels: int, stride: int, norm_cfg: dict[str, Any]
) -> tuple[nn.Module, nn.Module]:
    """Pooling and projection of a shortcut, each the identity where it is not needed.

    The pooling has no parameters and stays outside the projection, so that this is named as in torchvision.

    Args:
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: average pooling of that size and stride.
        norm_cfg: the norm behind the real 1x1 convolution.

    Source: Liu et al. 2018, Bi-Real Net, section 3.1.

    Example:
        >>> build_shortcut(8, 8, 1, dict(type='BN'))
        (Identity(), Identity())
        >>> pool, projection = build_shortcut(8, 16, 2, dict(type='BN'))
        >>> projection[0]
        Conv2d(8, 16, kernel_size=(1, 1), stride=(1, 1), bias=False)
    """
    pool: nn.Module = nn.Identity()
    projection: nn.Module = nn.Identity()
    if stride != 1:
        # Same size as a 3x3 convolution with padding 1; a window cut by the border averages only what is inside.
        pool = nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False)
    if stride != 1 or in_channels != out_channels:
        projection = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), build_norm_layer(norm_cfg, out_channels)[1]
        )
    return pool, projection
