"""SiMaN (Lin et al. 2022): the larger half of each filter's magnitudes is +1, the smaller half -1.

:class:`rebnn_mm.engine.BinaryHook` clamps the latent weights between two percentiles of their magnitudes, which move
apart during training. The method's recipes have no weight decay on latent weights.
"""

from typing import ClassVar

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import centre_channels, channel_dims, per_channel, sign, sign_approx, standardise
from ..layers import BinaryConv2d, BinaryLinear
from ..quantizers import ActivationQuantizer, LearnedScaleWeight, Values

EPS = 1e-5


def above_median(weight: Tensor) -> Tensor:
    r"""How far each magnitude of a centred channel is above their median.

    .. math:: |u_{ij}| - \mathrm{median}_j |u_{ij}|, \quad u = w - \bar w

    Half of its signs are +1, which is when they carry the most information; of an odd number the one in the middle is
    +1, too.

    Source: Lin et al. 2022 (SiMaN), closed form of the binarization.

    Example:
        >>> above_median(torch.tensor([[-6., -1., 2., 5.]]))
        tensor([[ 2.5000, -2.5000, -1.5000,  1.5000]])
    """
    size = centre_channels(weight).abs()
    flat = size.flatten(1)
    # Of torch.median, CUDA has no deterministic form, and it gives the lower of two in the middle.
    upper_half = flat.topk(flat.shape[1] // 2 + 1, sorted=False).values
    median = upper_half.topk(2 - flat.shape[1] % 2, largest=False).values.mean(dim=1)
    return size - per_channel(median, size)


def clamp_magnitudes(weight: Tensor, percent: Tensor) -> Tensor:
    r"""Centre each channel and clamp magnitudes between two percentiles of the layer, keeping signs.

    .. math::
        sign(u) \, clamp(|u|, P_\delta, P_{100 - \delta}), \quad u = w - \bar w

    ``percent``: delta, scalar tensor from 0 to 50. Between two magnitudes a percentile is interpolated.

    Source: Lin et al. 2022 (SiMaN), released code.

    Example:
        >>> clamp_magnitudes(torch.tensor([[-4., -2., 1., 5.]]), torch.tensor(50 / 3))
        tensor([[-4.0000, -2.0000,  1.5000,  4.5000]])
    """
    centred = centre_channels(weight)
    size = centred.abs()
    ordered = size.flatten().sort().values
    place = percent.to(ordered) / 100 * (ordered.numel() - 1)
    places = torch.stack([place, ordered.numel() - 1 - place])
    below = places.floor()
    low, high = torch.lerp(
        ordered.take(below.long()), ordered.take(places.ceil().long()), (places - below).to(ordered)
    ).unbind()
    return size.clamp_(low, high) * sign(centred)


@MODELS.register_module()
class SiMaNWeight(LearnedScaleWeight):
    r"""+1 for the larger half of each filter's magnitudes, -1 for the smaller, times a learnable scale.

    .. math::
        \hat w = \alpha \circ sign(|u| - \mathrm{median} |u|), \quad u = w - \bar w
        \qquad
        \frac{\partial L}{\partial v} = sign(v) \, \alpha \circ \frac{\partial L}{\partial \hat w}, \quad
        v = \frac{u}{\sqrt{var(w) + 10^{-5}}}

    The estimator is the identity into :math:`|v|`; that, the deviation and the mean have their true gradients. The
    paper has the values 0 and 1 for -1 and +1; its released code computes with these.

    Args:
        percent: first value of the percentile below which, and as far from the other end above which, magnitudes are
            clamped after every step (:func:`clamp_magnitudes`); it falls evenly to 0 during training.

    Attributes:
        alpha (Parameter): scaling factor, shape (C_out,); starts at the mean of \|w\| of each channel.
        percent (buffer): scalar, where the schedule stands.

    Raises:
        ValueError: ``percent`` is not from 0 to below 50.

    Source: Lin et al. 2022 (SiMaN).

    Example:
        >>> quantizer = SiMaNWeight((1, 4))
        >>> quantizer(torch.tensor([[-6., -1., 2., 5.]])).detach()
        tensor([[ 1., -1., -1.,  1.]])
    """

    hook: ClassVar[str] = 'BinaryHook'

    def __init__(self, weight_shape: tuple[int, ...], percent: float = 15.0) -> None:
        super().__init__(weight_shape)
        if not 0 <= percent < 50:
            raise RebnnError(f'SiMaNWeight: percent={percent!r} must be a number from 0 to below 50')
        self.first_percent = percent
        self.register_buffer('percent', torch.tensor(float(percent)))
        self.percent: Tensor

    def latent(self, weight: Tensor) -> Tensor:
        return above_median(weight)

    def forward(self, weight: Tensor) -> Tensor:
        size = standardise(weight, channel_dims(weight), EPS).abs()
        codes = sign(self.latent(weight.detach())) + (size - size.detach())
        return codes.to(weight.dtype) * per_channel(self.alpha, weight)

    def set_progress(self, done: float) -> None:
        self.percent.fill_(self.first_percent * (1 - done))

    def constrain(self, weight: Tensor) -> None:
        weight.copy_(clamp_magnitudes(weight, self.percent))

    def extra_repr(self) -> str:
        return f'percent={self.first_percent}'


@MODELS.register_module()
class SiMaNSign(ActivationQuantizer):
    r"""Sign of each sample's values after they are centred and brought to standard deviation 1.

    .. math::
        b = sign(u), \quad u = \frac{x - mean(x)}{\sqrt{var(x) + 10^{-5}}}
        \qquad
        \frac{\partial L}{\partial u} = \frac{\partial L}{\partial b} \max(2 - 2|u|, 0)

    Mean and variance are those of one sample, over channels and positions (before a linear layer: of one vector, over
    its features), in training and in evaluation, and take part in the gradient. Since the input is centred, no shift
    is needed after a ReLU.

    Source: Lin et al. 2022 (SiMaN), released code.

    Example:
        >>> SiMaNSign(2)(torch.tensor([[0., 3.], [5., 4.]]))
        tensor([[-1.,  1.],
                [ 1., -1.]])
    """

    stock_shift: ClassVar[str | None] = None
    values = Values('signs', sign_of='centred')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_approx(standardise(x, self.sample_dims(x), EPS)).to(x.dtype)


@MODELS.register_module()
class SiMaNConv2d(BinaryConv2d, nn.Conv2d):
    """SiMaN's convolution: ``conv_cfg=dict(type='SiMaNConv2d')``."""

    method_weight = 'SiMaNWeight'
    method_activation = 'SiMaNSign'


@MODELS.register_module()
class SiMaNLinear(BinaryLinear, nn.Linear, like=SiMaNConv2d):
    """SiMaN's linear layer, with the quantizers of :class:`SiMaNConv2d`."""
