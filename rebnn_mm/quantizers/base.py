"""What a binary layer asks of the quantizers it is handed."""

from typing import Any, ClassVar

from torch import Tensor, nn


class WeightQuantizer(nn.Module):
    r"""Turns a latent weight into the weight that the layer computes with.

    A method adds one subclass in a file of its own, registers it in mmengine's root ``MODELS`` and implements
    :meth:`codes`; where the gradient or the training-time value differs from ``scale * codes``, also :meth:`forward`.
    Learnable state is a Parameter made in ``__init__`` (one made later never reaches the optimizer); running state is
    a buffer. The forward pass changes neither.

    Args:
        weight_shape: shape of the latent weight, (C_out, ...).
    """

    bits: ClassVar[int] = 1
    """Bits per weight, read by the layer table and the size report."""

    param_roles: ClassVar[dict[str, str]] = {}
    """Role of each parameter (``'scale'`` or ``'shift'``), read by the optimizer constructor."""

    def __init__(self, weight_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight_shape = tuple(weight_shape)

    def forward(self, weight: Tensor) -> Tensor:
        """The quantized weight in training, differentiable, of the latent weight's shape."""
        codes, scale = self.codes(weight)
        return codes if scale is None else codes * scale.view(-1, *[1] * (weight.dim() - 1))

    def codes(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """The quantized weight as integers and one factor per output channel.

        In evaluation the layer convolves with the integers and multiplies the result, so every sum is exact and a
        bit-packed runtime can give the same answer to the last bit.

        Returns:
            tuple[Tensor, Tensor | None]: integers (as floating point; -1 and +1 for one bit) of the weight's shape,
            and the factor, shape (C_out,), or None for 1.
        """
        raise NotImplementedError(f'{type(self).__name__} has to implement codes(weight) -> (integers, factor)')

    def init_from_weight(self, weight: Tensor) -> None:
        """Start what depends on the latent weight's values; called when those have come from elsewhere."""

    def weight_loaded(self, weight: Tensor, state_loaded: bool) -> None:
        """Called by the layer after a checkpoint filled its weight.

        Args:
            weight: the latent weight as loaded.
            state_loaded: whether the checkpoint holds this quantizer's own state.
        """
        if not state_loaded:
            self.init_from_weight(weight)


class ActivationQuantizer(nn.Module):
    """Turns a layer's input into the values it computes with.

    Args:
        channels: number of input channels.
        channel_dim: dimension that holds them: -3 for a convolution, with or without a batch; -1 for a linear layer.
    """

    bits: ClassVar[int] = 1
    """Bits per value, read by the layer table and the size report."""

    param_roles: ClassVar[dict[str, str]] = {}
    """Role of each parameter (``'scale'`` or ``'shift'``), read by the optimizer constructor."""

    needs_calibration: bool = False
    """Whether :meth:`calibrate` should still see one batch of data before training starts."""

    def __init__(self, channels: int, channel_dim: int = 1) -> None:
        super().__init__()
        self.channels = channels
        self.channel_dim = channel_dim

    def calibrate(self, x: Tensor) -> None:
        """Start what depends on the data from one batch of this layer's input."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if any(key.startswith(prefix) for key in state_dict):
            self.needs_calibration = False
