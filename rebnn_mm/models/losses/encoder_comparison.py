"""What the losses that compare two encoders have in common."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ..language.encoder_output import EncoderOutput

_T = TypeVar('_T')


class EncoderComparisonLoss(nn.Module):
    """Base of the losses between a student and a teacher encoder.

    A subclass implements :meth:`forward`, which takes the ``EncoderOutput`` of both for the same batch and returns
    its terms by name. The teacher's tensors have no gradient.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out, so that a batch gives the same loss however far it is
            padded. False computes what code does that pads every text to one length and does not mask.
    """

    def __init__(self, weight: float = 1.0, mask_padding: bool = True) -> None:
        super().__init__()
        self.weight = weight
        self.mask_padding = mask_padding

    def forward(self, student: 'EncoderOutput', teacher: 'EncoderOutput') -> dict[str, Tensor]:
        """The weighted terms, each a scalar whose name begins with ``loss_``."""
        raise NotImplementedError(f'{type(self).__name__} has to implement forward(student, teacher)')

    def layer_pairs(self, student: Sequence[_T], teacher: Sequence[_T], what: str) -> list[tuple[_T, _T]]:
        """Layers of both, side by side.

        Raises:
            ValueError: one has more layers than the other.
        """
        if len(student) != len(teacher):
            raise ValueError(
                f'{type(self).__name__}: the student has {len(student)} {what}, the teacher {len(teacher)}. Take a '
                'teacher of the same depth, or leave this loss out.'
            )
        return list(zip(student, teacher, strict=True))

    def check_shapes(self, student: Tensor, teacher: Tensor, what: str) -> None:
        """Refuse tensors that cannot be compared.

        Raises:
            ValueError: their shapes differ.
        """
        if student.shape != teacher.shape:
            raise ValueError(
                f'{type(self).__name__}: {what} of the student have the shape {tuple(student.shape)}, those of the '
                f'teacher {tuple(teacher.shape)}. Take a teacher of the same sizes, or leave this loss out.'
            )

    def kept(self, output: 'EncoderOutput') -> Tensor:
        """Bool (B, N): tokens that count."""
        return output.mask if self.mask_padding else torch.ones_like(output.mask)

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'weight={self.weight}, mask_padding={self.mask_padding}'


def direction_distance(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Distance of two tensors, each scaled to norm one.

    .. math:: \left\| \frac{S}{\|S\|} - \frac{T}{\|T\|} \right\|

    All norms are Euclidean and over the whole tensor. Computed in float32 at least.

    Args:
        student: any shape.
        teacher: the same shape.

    Example:
        >>> direction_distance(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 9.0]))
        tensor(1.4142)
    """
    if student.element_size() < 4:
        student, teacher = student.float(), teacher.float()
    tiny = torch.finfo(student.dtype).tiny
    return (student / student.norm().clamp(min=tiny) - teacher / teacher.norm().clamp(min=tiny)).norm()
