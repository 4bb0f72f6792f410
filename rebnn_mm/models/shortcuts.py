"""Shortcuts of residual blocks: what goes around the convolutions where these change shapes."""

from collections.abc import Callable
from typing import Any

from mmcv.cnn import build_norm_layer
from torch import Tensor, nn
from torch.nn import functional

Config = dict[str, Any]


class PaddedShortcut(nn.Module):
    """Takes every second row and column and adds channels of zeros, as many before as after.

    Source: He et al. 2016, section 4.2 (option A).
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
    """Build the pooling to the size after a 3x3 convolution with padding 1; the identity for a stride of 1."""
    # A window cut by the border averages only what is inside.
    return nn.Identity() if stride == 1 else nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False)


def pooled_shortcut(in_channels: int, out_channels: int, stride: int, norm_cfg: Config) -> tuple[nn.Module, nn.Module]:
    """Pooling and projection of a shortcut, each the identity where it is not needed.

    The pooling has no parameters and stays outside the projection, so that this is named as in torchvision.

    Source: Liu et al. 2018, Bi-Real Net, section 3.1.
    """
    projection: nn.Module = nn.Identity()
    if stride != 1 or in_channels != out_channels:
        projection = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), build_norm_layer(norm_cfg, out_channels)[1]
        )
    return shortcut_pool(stride), projection


def padded_shortcut(in_channels: int, out_channels: int, stride: int, norm_cfg: Config) -> tuple[nn.Module, nn.Module]:
    """No pooling, and :class:`PaddedShortcut` as projection where shapes change; the arguments of the pooled one."""
    changes = stride != 1 or in_channels != out_channels
    return nn.Identity(), PaddedShortcut(in_channels, out_channels, stride) if changes else nn.Identity()


def pooled_padded_shortcut(
    in_channels: int, out_channels: int, stride: int, norm_cfg: Config
) -> tuple[nn.Module, nn.Module]:
    """Average pooling and channels of zeros, without parameters; the arguments of the pooled one.

    Source: Xu et al. 2021 (ReCU), released ResNet-20.
    """
    projection = nn.Identity() if in_channels == out_channels else PaddedShortcut(in_channels, out_channels, 1)
    return shortcut_pool(stride), projection


def strided_shortcut(
    in_channels: int, out_channels: int, stride: int, norm_cfg: Config
) -> tuple[nn.Module, nn.Module]:
    """No pooling, and a real 1x1 convolution with the stride and a norm as projection; arguments of the pooled one.

    Source: He et al. 2016, section 3.3 (option B); the released networks of IR-Net, RBNN and ReCU for ImageNet.
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
