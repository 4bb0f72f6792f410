"""RPReLU: PReLU between two learnable shifts per channel."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional


@MODELS.register_module()
class BinaryRPReLU(nn.Module):
    r"""PReLU whose input and output are shifted per channel.

    .. math:: y = PReLU_{a_c}(x + \beta_c) + \zeta_c

    Args:
        channels: number of channels C.
        slope: first value of the slope :math:`a_c` of negative inputs.

    Shapes: (N, C, ...) to the same.

    Source: Liu et al. 2020 (ReActNet), Eq. 4.

    Example:
        >>> BinaryRPReLU(2)(torch.tensor([[-4., 4.]]))
        tensor([[-1.,  4.]], grad_fn=<AddBackward0>)
    """

    param_roles: ClassVar[dict[str, str]] = {'shift_in': 'shift', 'slope': 'shift', 'shift_out': 'shift'}

    def __init__(self, channels: int, slope: float = 0.25) -> None:
        super().__init__()
        self.shift_in = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), slope))
        self.shift_out = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x of shape (N, C, ...)."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        y = functional.prelu(x + self.shift_in.view(shape), self.slope) + self.shift_out.view(shape)
        return y.to(x.dtype)  # float32 under autocast
