"""RSign: the sign around a learnable threshold per channel."""

from mmengine.registry import MODELS

from .sign import BinaryApproxSign


@MODELS.register_module()
class BinaryRSign(BinaryApproxSign):
    r"""Sign of the shifted input, with one learnable shift per channel.

    .. math::
        b = sign(x + \beta_c)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \max(2 - 2|x + \beta_c|, 0),
        \quad
        \frac{\partial L}{\partial \beta_c} = \sum \frac{\partial L}{\partial x}

    Args:
        channels: number of input channels.
        channel_dim: dimension of the channels in the input.
        shift: start of the shift: ``'zero'`` (ReActNet's own, for inputs that are centred) or ``'mean'``, see
            :class:`rebnn_mm.quantizers.ActivationQuantizer`.

    Raises:
        ValueError: ``shift`` is none of these.

    Source: Liu et al. 2020 (ReActNet), Eq. 3.

    Example:
        >>> import torch
        >>> rsign = BinaryRSign(2, shift='mean')
        >>> after_relu = torch.tensor([[0., 3.], [4., 5.]])
        >>> rsign(after_relu)
        tensor([[1., 1.],
                [1., 1.]], grad_fn=<_SignApproxBackward>)
        >>> rsign.calibrate(after_relu)
        >>> rsign(after_relu)
        tensor([[-1., -1.],
                [ 1.,  1.]], grad_fn=<_SignApproxBackward>)
    """

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = 'zero') -> None:
        super().__init__(channels, channel_dim, shift or 'zero')
