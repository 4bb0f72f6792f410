"""RSign: the sign around a learnable threshold per channel."""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import sign_approx
from .base import ActivationQuantizer


@MODELS.register_module()
class BinaryRSign(ActivationQuantizer):
    r"""Sign of the shifted input, with one learnable shift per channel.

    .. math::
        b = sign(x + \beta_c)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \max(2 - 2|x + \beta_c|, 0),
        \quad
        \frac{\partial L}{\partial \beta_c} = \sum \frac{\partial L}{\partial x}

    A layer behind a ReLU sees no negative value, so a sign without a shift is +1 everywhere and nothing is learned.
    ``init='mean'`` therefore starts the shift at minus the mean of each channel over one batch of data:
    :class:`rebnn_mm.engine.ReBNNHook` shows the layer that batch before training,
    :func:`rebnn_mm.layers.calibrate_shifts` does it without mmengine. A shift from a checkpoint is kept.

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        init: ``'zero'`` (ReActNet's own start, for inputs that are centred) or ``'mean'``.

    Raises:
        ValueError: ``init`` is neither.

    Source: Liu et al. 2020 (ReActNet), Eq. 3.

    Example:
        >>> rsign = BinaryRSign(2, init='mean')
        >>> after_relu = torch.tensor([[0., 3.], [4., 5.]])
        >>> rsign(after_relu)
        tensor([[1., 1.],
                [1., 1.]], grad_fn=<_SignApproxBackward>)
        >>> rsign.calibrate(after_relu)
        >>> rsign(after_relu)
        tensor([[-1., -1.],
                [ 1.,  1.]], grad_fn=<_SignApproxBackward>)
    """

    param_roles: ClassVar[dict[str, str]] = {'shift': 'shift'}

    def __init__(self, channels: int, channel_dim: int = 1, init: str = 'zero') -> None:
        super().__init__(channels, channel_dim)
        if init not in ('zero', 'mean'):
            raise ValueError(f"BinaryRSign: init={init!r} is unknown; use 'zero' or 'mean'")
        self.init = init
        self.shift = nn.Parameter(torch.zeros(channels))
        self.needs_calibration = init == 'mean'

    def forward(self, x: Tensor) -> Tensor:
        """Binarise x of shape (N, C, ...) or, with channel_dim -1, (..., C)."""
        return sign_approx(x + self._along_channels(x))

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        """Set the shift to minus the mean of each channel of x."""
        dims = [dim for dim in range(x.dim()) if dim != self.channel_dim % x.dim()]
        self.shift.copy_(-x.float().mean(dim=dims))
        self.needs_calibration = False

    def _along_channels(self, x: Tensor) -> Tensor:
        after = x.dim() - 1 - self.channel_dim % x.dim()
        return self.shift.view(-1, *[1] * after)

    def extra_repr(self) -> str:
        """Channels and start, as printed by ``print(model)``."""
        return f'{self.channels}, init={self.init!r}'
