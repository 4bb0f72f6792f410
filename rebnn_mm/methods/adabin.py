"""AdaBin (Tu et al. 2022): two values that adapt to what is binarized, per channel of weights and per layer of inputs.

Its layer is ``dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')``, its block style
``'adabin'``.
"""

import math
from typing import ClassVar

import numpy as np
import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import channel_dims, sign, sign_approx, sign_identity, sign_tanh
from ..quantizers import ActivationQuantizer, SharpeningQuantizer, Values, WeightQuantizer


@MODELS.register_module()
class AdaBinWeight(WeightQuantizer):
    r"""Two values per channel that match the mean and the standard deviation of the latent weight.

    .. math::
        \hat w = \alpha \, sign(v) + \beta, \quad v = \frac{w - \beta}{\alpha},
        \quad \beta = \bar w, \quad \alpha = \sqrt{\overline{(w - \bar w)^2}}
        \qquad
        \frac{\partial sign(v)}{\partial v} = 1

    Mean and deviation take part in the gradient. The estimator is 1; the released code's default,
    :math:`1 - \tanh^2(v / 10)`, is within one percent of that for v up to one (:class:`AdaBinEDEWeight` has it).

    Source: Tu et al. 2022 (AdaBin), section 3.2.

    Example:
        >>> AdaBinWeight((1, 4))(torch.tensor([[0., 1., 3., 4.]]))
        tensor([[0.4189, 0.4189, 3.5811, 3.5811]])
    """

    values = Values('two')

    def sign(self, v: Tensor) -> Tensor:
        return sign_identity(v)

    def forward(self, weight: Tensor) -> Tensor:
        scale, centre = self._moments(weight)
        return self.sign((weight - centre) / scale) * scale + centre

    def two_values(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale, centre = self._moments(weight)
        return sign((weight - centre) / scale), scale.flatten(), centre.flatten()

    def _moments(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        # The square of a small deviation is not a number of half precision.
        exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
        centre = exact.mean(dim=channel_dims(weight), keepdim=True)
        variance = (exact - centre).square().mean(dim=channel_dims(weight), keepdim=True)
        # The root of a constant filter's variance, 0, has no gradient.
        scale = variance.clamp(min=torch.finfo(exact.dtype).tiny).sqrt()
        return scale.to(weight.dtype).clamp(min=torch.finfo(weight.dtype).tiny), centre.to(weight.dtype)


@MODELS.register_module()
class AdaBinEDEWeight(SharpeningQuantizer, AdaBinWeight):
    r"""AdaBin's weight with the estimator of its released code, which is IR-Net's.

    .. math::
        \frac{\partial sign(v)}{\partial v} = k t \, (1 - \tanh^2(t v)), \quad k = \max(1 / t, 1)

    :class:`rebnn_mm.engine.BinaryHook` sharpens it, as the released ImageNet code and its option ``--progressive`` do.

    Args:
        t: first and last value of the sharpness; ``(0.1, 0.1)`` is the released code's default for CIFAR-10.

    Raises:
        ValueError: ``t`` is not a rising pair of positive numbers.

    Source: Tu et al. 2022 (AdaBin), released code; the estimator is that of Qin et al. 2020 (IR-Net).

    Example:
        >>> AdaBinEDEWeight((1, 4))(torch.tensor([[0., 1., 3., 4.]]))
        tensor([[0.4189, 0.4189, 3.5811, 3.5811]])
    """

    def sign(self, v: Tensor) -> Tensor:
        return sign_tanh(v, self.sharpness)

    def extra_repr(self) -> str:
        return f't={self.t_range}'


@MODELS.register_module()
class AdaBinActivation(ActivationQuantizer):
    r"""Two learnable values per layer.

    .. math::
        \hat x = \alpha b + \beta, \quad b = sign(u), \quad u = \frac{x - \beta}{\alpha}
        \qquad
        \frac{\partial b}{\partial u} = \max(2 - 2|u|, 0)

    Args:
        shift: see :class:`ActivationQuantizer`; beta is the method's own.
        variant: ``'official'`` gives :math:`\alpha (b + \beta)`, which the released code and weights have.

    Attributes:
        alpha (Parameter): half the distance of the two values, scalar, from 1.
        beta (Parameter): their centre, scalar, from 0.

    Raises:
        ValueError: an unknown variant.

    Source: Tu et al. 2022 (AdaBin), section 3.3.

    Example:
        >>> quantizer = AdaBinActivation(2)
        >>> quantizer.alpha.data, quantizer.beta.data = torch.tensor(0.5), torch.tensor(2.)
        >>> quantizer(torch.tensor([[1., 3.]]))
        tensor([[1.5000, 2.5000]], grad_fn=<AddBackward0>)
    """

    values = Values('two')
    param_roles: ClassVar[dict[str, str]] = {'shift': 'shift', 'alpha': 'scale', 'beta': 'shift'}

    def __init__(
        self, channels: int, channel_dim: int = 1, shift: str | None = None, *, variant: str = 'paper'
    ) -> None:
        super().__init__(channels, channel_dim, shift)
        if variant not in ('paper', 'official'):
            raise RebnnError(f"AdaBinActivation: variant={variant!r} is unknown; use 'paper' or 'official'")
        self.variant = variant
        self.alpha = nn.Parameter(torch.tensor(1.0))
        self.beta = nn.Parameter(torch.tensor(0.0))

    def quantize(self, x: Tensor) -> Tensor:
        b = sign_approx((x - self.beta) / self.alpha)
        return self.alpha * b + self.beta if self.variant == 'paper' else self.alpha * (b + self.beta)

    def two_values(self) -> tuple[float, float, float]:
        """Minus the centre, the magnitude of alpha, and the centre as the variant scales it.

        A negative alpha turns the sign and its factor; of the input that is the centre itself it turns the sign only,
        so the threshold is then the next number above.
        """
        alpha, beta = float(self.alpha.detach().float()), float(self.beta.detach().float())
        threshold = float(np.nextafter(np.float32(beta), np.float32(math.inf))) if alpha < 0 else beta
        # In float32, as the forward pass multiplies them.
        centre = beta if self.variant == 'paper' else float(np.float32(alpha) * np.float32(beta))
        return -threshold, abs(alpha), centre
