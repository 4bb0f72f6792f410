"""The quantizers that belong to no single method: plain signs, a step, the plain scaled sign, and rounded weights."""

from mmengine.registry import MODELS
from torch import Tensor

from ..errors import RebnnError
from ..functional import channel_mean_abs, sign_approx, sign_ste, step_ste, straight_through
from .base import ActivationQuantizer, SignWeight, Values, WeightQuantizer


@MODELS.register_module()
class BinarySign(ActivationQuantizer):
    """Sign with the clipped straight-through estimator, :func:`rebnn_mm.functional.sign_ste`.

    Example:
        >>> import torch
        >>> BinarySign(3)(torch.tensor([[-0.2, 0.0, 1.5]]))
        tensor([[-1.,  1.,  1.]])
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_ste(x)


@MODELS.register_module()
class BinaryWideSign(ActivationQuantizer):
    """Sign whose gradient passes within a width of choice, :func:`rebnn_mm.functional.sign_ste`.

    Args:
        width: largest magnitude of an input that gets a gradient.

    Raises:
        ValueError: the width is not above 0.

    Example:
        >>> import torch
        >>> x = torch.tensor([[-0.25, 1.2, 1.5]], requires_grad=True)
        >>> BinaryWideSign(3, width=1.25)(x).sum().backward()
        >>> x.grad
        tensor([[1., 1., 0.]])
    """

    values = Values('signs')

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = None, *, width: float = 1.25) -> None:
        super().__init__(channels, channel_dim, shift)
        if width <= 0:
            raise RebnnError(f'BinaryWideSign: width={width} must be above 0')
        self.width = width

    def quantize(self, x: Tensor) -> Tensor:
        return sign_ste(x, self.width)


@MODELS.register_module()
class BinaryApproxSign(ActivationQuantizer):
    """Sign with Bi-Real Net's piecewise quadratic estimator, :func:`rebnn_mm.functional.sign_approx`.

    Example:
        >>> import torch
        >>> x = torch.tensor([[-0.25, 0.0, 1.5]], requires_grad=True)
        >>> BinaryApproxSign(3)(x).sum().backward()
        >>> x.grad
        tensor([[1.5000, 2.0000, 0.0000]])
    """

    values = Values('signs')

    def quantize(self, x: Tensor) -> Tensor:
        return sign_approx(x)


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
        shift: start of the shift: ``'zero'`` (ReActNet's own, for inputs that are centred) or ``'mean'``, see
            :class:`rebnn_mm.quantizers.ActivationQuantizer`.

    Raises:
        ValueError: ``shift`` is none of these.

    Source: Liu et al. 2020 (ReActNet), Eq. 3.

    Example:
        >>> import torch
        >>> rsign = BinaryRSign(2, shift='mean')
        >>> after_relu = torch.tensor([[0., 3.], [4., 5.]])
        >>> rsign.calibrate(after_relu)
        >>> rsign(after_relu)
        tensor([[-1., -1.],
                [ 1.,  1.]], grad_fn=<_SmoothSignBackward>)
    """

    def __init__(self, channels: int, channel_dim: int = 1, shift: str | None = 'zero') -> None:
        super().__init__(channels, channel_dim, shift or 'zero')


@MODELS.register_module()
class BinaryStep(ActivationQuantizer):
    r"""1 where the input is at least 0, else 0, :func:`rebnn_mm.functional.step_ste`.

    After a softmax, which is positive, it is 1 everywhere: what a fully binarized BinaryBERT has.

    Source: DoReFa-Net's range at one bit with threshold 0; named as a baseline by Qin et al. 2022 (BiBERT).

    Example:
        >>> import torch
        >>> BinaryStep(3)(torch.tensor([[-0.5, 0.0, 0.2]]))
        tensor([[0., 1., 1.]])
    """

    values = Values('two')

    def quantize(self, x: Tensor) -> Tensor:
        return step_ste(x)

    def two_values(self) -> tuple[float, float, float]:
        return 0.0, 0.5, 0.5


@MODELS.register_module()
class BinaryMeanScaleWeight(SignWeight):
    r"""Sign scaled by the channel-wise mean of the latent weight's magnitude, with straight-through gradient.

    .. math::
        \hat w = \alpha \circ sign(w), \quad \alpha_i = \frac{1}{M} \sum_j |w_{ij}| \text{ (constant in the backward)}
        \qquad
        \frac{\partial L}{\partial w_{ij}} = \alpha_i \frac{\partial L}{\partial \hat w_{ij}} 1_{|w_{ij}| \le 1}

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.5, -1.5]], requires_grad=True)
        >>> w_hat = BinaryMeanScaleWeight((1, 2))(w)
        >>> w_hat.sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 1., -1.]]), tensor([[1., 0.]]))
    """

    channels_alone = True

    def signs(self, latent: Tensor) -> Tensor:
        return sign_ste(latent)

    def scale(self, weight: Tensor) -> Tensor:
        return channel_mean_abs(weight.detach())


class RoundedWeight(WeightQuantizer):
    r"""Base of weights that are integers times one scale, of the tensor or of each channel, whose gradient passes.

    .. math::
        \hat w = s \, n
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    A method implements :meth:`levels`.

    Args:
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.

    Raises:
        ValueError: ``per`` is neither.
    """

    values = Values('integers')

    def __init__(self, weight_shape: tuple[int, ...], per: str = 'tensor') -> None:
        super().__init__(weight_shape)
        if per not in ('tensor', 'channel'):
            raise RebnnError(f"{type(self).__name__}: per={per!r} is unknown; use 'tensor' or 'channel'")
        self.per = per
        self.channels_alone = per == 'channel'
        self.factors = 1 if per == 'tensor' else weight_shape[0]

    def levels(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The integers n, and s with ones in the dimensions that it covers."""
        raise NotImplementedError(f'{type(self).__name__} has to implement levels(weight) -> (integers, scale)')

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Integers, and their scale for every channel."""
        codes, scale = self.levels(weight.detach())
        return codes, scale.flatten().expand(weight.shape[0])

    def forward(self, weight: Tensor) -> Tensor:
        return straight_through(weight, super().forward(weight))

    def extra_repr(self) -> str:
        return f'per={self.per!r}'
