"""Base of losses between a student and a teacher."""

from torch import Tensor, nn

from rebnn_mm.errors import RebnnError


class ComparisonLoss(nn.Module):
    """Base of the losses between a student and a teacher, whose factor is ``weight``."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight

    def check_shapes(self, student: Tensor, teacher: Tensor, what: str) -> None:
        """Refuse tensors that cannot be compared."""
        for found in (student, teacher):
            if not isinstance(found, Tensor):
                raise RebnnError(
                    f'{type(self).__name__}: {what} are a {type(found).__name__}, not one tensor, in this head. Leave '
                    'this loss out.'
                )
        if student.shape != teacher.shape:
            raise RebnnError(
                f'{type(self).__name__}: {what} of the student have the shape {tuple(student.shape)}, those of the '
                f'teacher {tuple(teacher.shape)}. Take a teacher of the same sizes, or leave this loss out.'
            )

    def extra_repr(self) -> str:
        return f'weight={self.weight}'


def at_least_float32(x: Tensor) -> Tensor:
    """Convert values in half precision to single precision."""
    return x.float() if x.element_size() < 4 else x
