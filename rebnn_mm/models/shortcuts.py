"""Shortcuts of residual blocks: what goes around the convolutions where these change shapes."""

from collections.abc import Callable
from typing import Any

from mmcv.cnn import build_norm_layer
from torch import Tensor, nn
from torch.nn import functional

Config = dict[str, Any]


class PaddedShortcut(nn.Module):
    """Takes every second row and column and adds channels of zeros, as many before as after.

    Args:
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: 2 for every second position, 1 for all.

    Source: He et al. 2016, section 4.2 (option A).

    Example:
        >>> import torch
        >>> PaddedShortcut(1, 3, 2)(torch.arange(9.).view(1, 1, 3, 3)).flatten(2)
        tensor([[[0., 0., 0., 0.],
                 [0., 2., 6., 8.],
                 [0., 0., 0., 0.]]])
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        added = out_channels - in_channels
        self.padding = (0, 0, 0, 0, added // 2, added - added // 2)

    def forward(self, x: Tensor) -> Tensor:
        """The smaller, wider map."""
        return functional.pad(x[:, :, :: self.stride, :: self.stride], self.padding)


def shortcut_pool(stride: int) -> nn.Module:
    """Build the pooling to the size after a 3x3 convolution with padding 1; the identity for a stride of 1.

    Example:
        >>> shortcut_pool(2), shortcut_pool(1)
        (AvgPool2d(kernel_size=2, stride=2, padding=0), Identity())
    """
    # A window cut by the border averages only what is inside.
    return nn.Identity() if stride == 1 else nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False)


def pooled_shortcut(in_channels: int, out_channels: int, stride: int, norm_cfg: Config) -> tuple[nn.Module, nn.Module]:
    """Pooling and projection of a shortcut, each the identity where it is not needed.

    The pooling has no parameters and stays outside the projection, so that this is named as in torchvision.

    Args:
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: average pooling of that size and stride.
        norm_cfg: the norm after the full-precision 1x1 convolution.

    Source: Liu et al. 2018, Bi-Real Net, section 3.1.

    Example:
        >>> pooled_shortcut(8, 8, 1, dict(type='BN'))
        (Identity(), Identity())
        >>> pool, projection = pooled_shortcut(8, 16, 2, dict(type='BN'))
        >>> projection[0]
        Conv2d(8, 16, kernel_size=(1, 1), stride=(1, 1), bias=False)
    """
    projection: nn.Module = nn.Identity()
    if stride != 1 or in_channels != out_channels:
        projection = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), build_norm_layer(norm_cfg, out_channels)[1]
        )
    return shortcut_pool(stride), projection


def padded_shortcut(in_channels: int, out_channels: int, stride: int, norm_cfg: Config) -> tuple[nn.Module, nn.Module]:
    """No pooling, and :class:`PaddedShortcut` as projection where shapes change; the arguments of the pooled one.

    Example:
        >>> padded_shortcut(8, 16, 2, dict(type='BN'))
        (Identity(), PaddedShortcut())
    """
    changes = stride != 1 or in_channels != out_channels
    return nn.Identity(), PaddedShortcut(in_channels, out_channels, stride) if changes else nn.Identity()


def pooled_padded_shortcut(
    in_channels: int, out_channels: int, stride: int, norm_cfg: Config
) -> tuple[nn.Module, nn.Module]:
    """Average pooling and channels of zeros, without parameters; the arguments of the pooled one.

    Source: Xu et al. 2021 (ReCU), released ResNet-20.

    Example:
        >>> pooled_padded_shortcut(8, 16, 2, dict(type='BN'))
        (AvgPool2d(kernel_size=2, stride=2, padding=0), PaddedShortcut())
    """
    projection = nn.Identity() if in_channels == out_channels else PaddedShortcut(in_channels, out_channels, 1)
    return shortcut_pool(stride), projection


def strided_shortcut(
    in_channels: int, out_channels: int, stride: int, norm_cfg: Config
) -> tuple[nn.Module, nn.Module]:
    """No pooling, and a real 1x1 convolution with the stride and a norm as projection; arguments of the pooled one.

    Source: He et al. 2016, section 3.3 (option B); the released networks of IR-Net, RBNN and ReCU for ImageNet.

    Example:
        >>> strided_shortcut(8, 16, 2, dict(type='BN'))[1][0]
        Conv2d(8, 16, kernel_size=(1, 1), stride=(2, 2), bias=False)
    """
    if stride == 1 and in_channels == out_channels:
        return nn.Identity(), nn.Identity()
    conv = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
    return nn.Identity(), nn.Sequential(conv, build_norm_layer(norm_cfg, out_channels)[1])


SHORTCUTS: dict[str, Callable[[int, int, int, Config], tuple[nn.Module, nn.Module]]] = {
    'pooled': pooled_shortcut,
    'padded': padded_shortcut,
    'pooled_padded': pooled_padded_shortcut,
    'strided': strided_shortcut,
}
"""Makers of pooling and projection of a shortcut, by the names that a block's ``downsample`` takes."""
