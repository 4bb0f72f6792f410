"""The shortcut without parameters that CIFAR's ResNets have where channels and resolution change."""

from torch import Tensor, nn
from torch.nn import functional


class PaddedShortcut(nn.Module):
    """Takes every second row and column and adds channels of zeros, as many in front as behind.

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
