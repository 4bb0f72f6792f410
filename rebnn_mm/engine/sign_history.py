"""Which signs of one layer's weights changed, and which changed back."""

import torch
from torch import Tensor

from ..functional import channel_dims
from ..layers import BinaryLayer
from ..methods import BiBERTWeight, BiDetWeight, BNNWeight, FDAWeight, ReBNNWeight, XNORWeight
from ..quantizers import BinaryMeanScaleWeight, WeightQuantizer

# Their codes are negative exactly where ``latent`` is. Comparing the weight itself with 0 takes about a tenth
# of the time of making the codes. Methods and not classes, so that a subclass with codes of its own is not taken in.
_SIGN_OF_LATENT_WEIGHT = {
    quantizer.codes
    for quantizer in (BiBERTWeight, BiDetWeight, BinaryMeanScaleWeight, BNNWeight, FDAWeight, ReBNNWeight, XNORWeight)
}

SIGN, CHANGED_IN_STEP, SIGN_AT_EPOCH, CHANGED_IN_EPOCH = 1, 2, 4, 8
"""The bits that are kept for each weight."""


class SignHistory:
    r"""Counts the flips of one layer over optimizer steps and epochs.

    :math:`b_j^t` is the sign of weight j after optimizer step t, as the layer computes with it
    (:func:`negative_weights`), :math:`c_j^e` that after the last step of epoch e.

    - A flip of step t: :math:`b_j^t \neq b_j^{t-1}`.
    - A sequential flip of step t: :math:`b_j^t \neq b_j^{t-1}` and :math:`b_j^{t-1} \neq b_j^{t-2}`, there and back.
    - A flip of epoch e and a sequential flip of epoch e: the same with c and e.

    A step counts if it moves the layer: not if the layer is frozen, not if AMP skips it; accumulated iterations are
    one step. What changes signs between two steps (RBNN turns its rotations before every epoch) counts with the
    second one.

    The memory is one byte per weight, on the weight's device. Nothing is brought from the device but by
    :meth:`take_step_counts` and :meth:`close_epoch`.

    Args:
        layer: a layer with a weight quantizer.

    Source: the ReBNN paper, Eq. 10 to 12 (its Eq. 12 prints the second condition twice).

    Example:
        >>> from rebnn_mm.methods import BNNLinear
        >>> layer = BNNLinear(3, 1)
        >>> layer.weight.data = torch.tensor([[1.0, 1.0, 1.0]])
        >>> history = SignHistory(layer)
        >>> layer.weight.data = torch.tensor([[-1.0, -1.0, 1.0]]); history.step()
        >>> layer.weight.data = torch.tensor([[-1.0, 1.0, -1.0]]); history.step()
        >>> [int(count) for count in history.take_step_counts()]  # two flips each; the second weight came back
        [4, 1]
        >>> [int(count) for count in history.close_epoch()]  # it is where the epoch began
        [2, 0]
    """

    def __init__(self, layer: BinaryLayer) -> None:
        self._layer = layer
        sign = _negative_byte(layer)
        self.state = sign | sign * SIGN_AT_EPOCH
        """Four bits per weight, uint8, of the weight's shape."""
        self.steps = 0
        self._flips = torch.zeros((), dtype=torch.int64, device=sign.device)
        self._sequential = torch.zeros_like(self._flips)

    @property
    def weights(self) -> int:
        """How many weights the layer has."""
        return self.state.numel()

    @property
    def moves(self) -> bool:
        """Whether the optimizer's step that has just been made changed the layer."""
        weight = self._layer.weight
        return weight.requires_grad and weight.grad is not None

    @torch.no_grad()
    def step(self) -> None:
        """Count what the optimizer's step changed."""
        sign = _negative_byte(self._layer)
        differing = self.state ^ sign
        changed = differing & SIGN
        self._flips += _count(changed)
        self._sequential += _count((differing >> 1).bitwise_and_(changed))
        self.state.bitwise_and_(SIGN_AT_EPOCH | CHANGED_IN_EPOCH).bitwise_or_(sign)
        self.state.add_(changed, alpha=CHANGED_IN_STEP)
        self.steps += 1

    def take_step_counts(self) -> tuple[Tensor, Tensor]:
        """Flips and sequential flips of all steps since the last call, as int64 scalars on the device."""
        counts = self._flips, self._sequential
        self._flips, self._sequential = torch.zeros_like(self._flips), torch.zeros_like(self._flips)
        return counts

    def close_epoch(self) -> tuple[Tensor, Tensor]:
        """Flips and sequential flips of the epoch that ends, as integer scalars on the device; the next one begins."""
        sign = self.state & SIGN
        changed = (self.state >> 2).bitwise_xor_(sign).bitwise_and_(1)
        before = self.state >> 3
        self.state.bitwise_and_(SIGN | CHANGED_IN_STEP).add_(sign, alpha=SIGN_AT_EPOCH)
        self.state.add_(changed, alpha=CHANGED_IN_EPOCH)
        return _count(changed), _count(before.bitwise_and_(changed))


@torch.no_grad()
def negative_weights(layer: BinaryLayer) -> Tensor:
    r"""Where the weight that the layer computes with has the lower sign.

    That is where the integers of :meth:`rebnn_mm.quantizers.WeightQuantizer.codes` are below 0; for most methods where
    the latent weight is, for ReCU and BiBERT where the centred one is, for RBNN where the rotated one is. A quantizer
    without codes (AdaBin) has two values per channel that need not lie on both sides of 0: there it is the lower of
    the two.

    Args:
        layer: a layer with a weight quantizer.

    Returns:
        Tensor: bool, of the latent weight's shape.

    Example:
        >>> from rebnn_mm.methods import ReCULinear
        >>> layer = ReCULinear(2, 1)
        >>> layer.weight.data = torch.tensor([[1.0, 3.0]])
        >>> negative_weights(layer)
        tensor([[ True, False]])
    """
    quantizer, weight = layer.weight_quantizer, layer.weight.detach()
    assert quantizer is not None
    if type(quantizer).codes in _SIGN_OF_LATENT_WEIGHT:
        return quantizer.latent(weight) < 0
    if quantizer.has_codes:
        return quantizer.codes(weight)[0] < 0
    values = _evaluated(quantizer, weight)
    dims = channel_dims(values)
    return values < (values.amax(dim=dims, keepdim=True) + values.amin(dim=dims, keepdim=True)) / 2


def _evaluated(quantizer: WeightQuantizer, weight: Tensor) -> Tensor:
    """The quantized weight in evaluation, where a method draws no noise."""
    training = quantizer.training
    quantizer.eval()
    values = quantizer(weight)
    quantizer.train(training)
    return values


def _negative_byte(layer: BinaryLayer) -> Tensor:
    return negative_weights(layer).view(torch.uint8)


def _count(ones: Tensor) -> Tensor:
    # In 32 bits this takes half the time, and no layer has so many weights.
    return ones.sum(dtype=torch.int32)
