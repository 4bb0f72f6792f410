"""IR-Net (Qin et al. 2020): balanced, standardised weights scaled by a power of two, and an estimator that sharpens.

The estimator (EDE) is :func:`rebnn_mm.functional.sign_tanh`; :class:`rebnn_mm.engine.BinaryHook` sharpens it.
"""

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import centre_channels, channel_dims, channel_mean_abs, per_channel, sign_tanh
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, SharpeningQuantizer, SignWeight, Values


def libra(weight: Tensor) -> Tensor:
    r"""Balance and standardise each channel.

    .. math:: v_{ij} = \frac{w_{ij} - \bar w_i}{\sigma_i}, \quad
        \sigma_i = \sqrt{\frac{1}{M - 1} \sum_j (w_{ij} - \bar w_i)^2}

    Mean and deviation take part in the gradient. They are computed in single precision at least.

    Args:
        weight: latent weight, shape (C_out, ...), M values per channel. A constant channel gives 0.

    Source: Qin et al. 2020 (IR-Net), Libra Parameter Binarization.

    Example:
        >>> libra(torch.tensor([[1., 2., 3.], [5., 5., 5.]]))
        tensor([[-1.,  0.,  1.],
                [ 0.,  0.,  0.]])
    """
    centred = centre_channels(weight.to(torch.promote_types(weight.dtype, torch.float32)))
    squares = centred.square().sum(dim=channel_dims(weight), keepdim=True) / max(weight[0].numel() - 1, 1)
    return (centred * squares.clamp(min=torch.finfo(centred.dtype).tiny).rsqrt()).to(weight.dtype)


def power_of_two(values: Tensor) -> Tensor:
    r"""The power of two nearest to each channel's mean magnitude, by its exponent; no gradient.

    .. math:: 2^{s_i}, \quad s_i = round(\log_2 \overline{|v_i|})

    So a multiplication becomes a shift. Of standardised Gaussian weights it is 1.

    Returns:
        Tensor: shape (C_out,); 1 for a channel of zeros.

    Source: Qin et al. 2020 (IR-Net), the bit-shift scale.

    Example:
        >>> power_of_two(torch.tensor([[3., -3.], [0.2, 0.3], [0., 0.]]))
        tensor([4.0000, 0.2500, 1.0000])
    """
    mean = channel_mean_abs(values.detach())
    return torch.where(mean > 0, mean.log2().round().exp2(), 1.0)


@MODELS.register_module()
class IRNetWeight(SharpeningQuantizer, SignWeight):
    r"""Sign of balanced, standardised weights times a power of two.

    .. math::
        \hat w = 2^{s} \, sign(v), \quad v = \frac{w - \bar w}{\sigma}, \quad s = round(\log_2 \overline{|v|})

    :func:`libra` gives v, :func:`power_of_two` the scale, :func:`rebnn_mm.functional.sign_tanh` the sign's gradient at
    v.

    Args:
        t: first and last value of the estimator's sharpness.

    Raises:
        ValueError: ``t`` is not a rising pair of positive numbers.

    Source: Qin et al. 2020 (IR-Net).

    Example:
        >>> IRNetWeight((1, 4))(torch.tensor([[0., 1., 2., 9.]]))
        tensor([[-1., -1., -1.,  1.]])
    """

    def latent(self, weight: Tensor) -> Tensor:
        return centre_channels(weight)

    def forward(self, weight: Tensor) -> Tensor:
        v = libra(weight)
        return sign_tanh(v, self.sharpness) * per_channel(power_of_two(v), weight)

    def scale(self, weight: Tensor) -> Tensor:
        return power_of_two(libra(weight.detach()))

    def extra_repr(self) -> str:
        return f't={self.t_range}'


@MODELS.register_module()
class IRNetSign(SharpeningQuantizer, ActivationQuantizer):
    """Sign with the error decay estimator, :func:`rebnn_mm.functional.sign_tanh`.

    Args:
        t: first and last value of the estimator's sharpness.

    Raises:
        ValueError: ``t`` is not a rising pair of positive numbers.

    Source: Qin et al. 2020 (IR-Net).

    Example:
        >>> IRNetSign(3)(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_tanh(x, self.sharpness)


@MODELS.register_module()
class IRNetConv2d(BinaryConv2d, nn.Conv2d):
    """IR-Net's convolution: ``conv_cfg=dict(type='IRNetConv2d')``."""

    method_weight = 'IRNetWeight'
    method_activation = 'IRNetSign'


@MODELS.register_module()
class IRNetLinear(BinaryLinear, nn.Linear, like=IRNetConv2d):
    """IR-Net's linear layer, with the quantizers of :class:`IRNetConv2d`."""
