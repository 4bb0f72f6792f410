"""Shapes: one value per output channel, or per tensor, for a weight of any rank; values centred or standardised."""

import torch
from torch import Tensor


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """View one value per output channel, (C_out,), so that it broadcasts over a weight, (C_out, ...).

    Example:
        >>> per_channel(torch.ones(4), torch.zeros(4, 2, 3, 3)).shape
        torch.Size([4, 1, 1, 1])
    """
    return values.view(-1, *[1] * (like.dim() - 1))


def channel_dims(weight: Tensor, per: str = 'channel') -> tuple[int, ...]:
    """The dimensions that belong to one output channel: all but the first; all of them with ``per='tensor'``.

    Example:
        >>> channel_dims(torch.zeros(4, 2, 3, 3)), channel_dims(torch.zeros(4, 3), 'tensor')
        ((1, 2, 3), (0, 1))
    """
    return tuple(range(0 if per == 'tensor' else 1, weight.dim()))


def channel_mean_abs(weight: Tensor) -> Tensor:
    r"""Channel-wise absolute mean (CAM), the closed-form scaling factor.

    .. math::
        \alpha_i = \frac{1}{M} \sum_j |w_{ij}|

    Shapes: (C_out, ...), M values per channel, to (C_out,).

    Source: Rastegari et al. 2016; the ReBNN paper below its Eq. 4.

    Example:
        >>> channel_mean_abs(torch.tensor([[1., -3.], [0., 0.5]]))
        tensor([2.0000, 0.2500])
    """
    return weight.abs().mean(dim=channel_dims(weight))


def centre_channels(weight: Tensor, through: bool = True) -> Tensor:
    r"""Take the mean of each output channel off a weight; the gradient's mean is then taken off, too.

    .. math::
        \bar w_{ij} = w_{ij} - \frac{1}{M} \sum_k w_{ik}
        \qquad
        \frac{\partial L}{\partial w_{ij}} =
            \frac{\partial L}{\partial \bar w_{ij}} - \frac{1}{M} \sum_k \frac{\partial L}{\partial \bar w_{ik}}

    Half of the signs of a centred channel are positive, give or take, which is when they carry the most information.

    Args:
        weight: shape (C_out, ...), M values per channel.
        through: False hands the gradient on as it is, for whoever takes its mean off later.

    Source: Qin et al. 2022 (BiBERT), weights of its linear layers.

    Example:
        >>> centre_channels(torch.tensor([[1., 3.], [0., 0.]]))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    mean = (weight if through else weight.detach()).mean(dim=channel_dims(weight), keepdim=True)
    return weight - mean


def standardise(x: Tensor, dims: tuple[int, ...], eps: float = 1e-8) -> Tensor:
    r"""Mean 0 and standard deviation 1 over some dimensions.

    .. math:: v = \frac{x - mean(x)}{\sqrt{var(x) + \epsilon}}

    Mean and variance (of the population) take part in the gradient. Half precision gives single precision.

    ``dims``: what one mean is taken over: all dimensions of a filter, or of a sample. ``eps``: keeps constant values
    finite; they become 0.

    Example:
        >>> standardise(torch.tensor([[1., 3.], [5., 5.]]), (1,))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt()
