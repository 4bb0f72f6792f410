"""Options that several quantizers share, checked in one place."""

from torch import Tensor


def check_per(owner: str, per: str) -> str:
    """What one scale of a weight covers.

    Raises:
        ValueError: neither ``'tensor'`` nor ``'channel'``.

    Example:
        >>> check_per('TWNWeight', 'tensor')
        'tensor'
    """
    if per not in ('tensor', 'channel'):
        raise ValueError(f"{owner}: per={per!r} is unknown; use 'tensor' or 'channel'")
    return per


def check_bits(owner: str, bits: int, least: int) -> int:
    """Bits of a value.

    Raises:
        ValueError: no whole number from ``least`` to 8.

    Example:
        >>> check_bits('Q8BERTWeight', 2, least=2)
        2
    """
    if not (isinstance(bits, int) and least <= bits <= 8):
        raise ValueError(
            f'{owner}: bits={bits!r} must be a whole number from {least} to 8; None as quantizer keeps it real'
        )
    return bits


def per_channel_factor(scale: Tensor, weight: Tensor) -> Tensor:
    """A scale that covers the tensor or a channel each, as one factor per channel.

    Example:
        >>> import torch
        >>> per_channel_factor(torch.tensor([[0.5]]), torch.zeros(3, 4))
        tensor([0.5000, 0.5000, 0.5000])
    """
    return scale.flatten().expand(weight.shape[0])
