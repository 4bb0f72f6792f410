"""Holds a model that teaches another one and is no part of it."""

from collections.abc import Callable
from typing import Any

from torch import nn


class FixedTeacher:
    """Mixin, named in front of ``nn.Module``, of a model that learns from another one.

    The model *is* the student: parameters, state dict, optimizer, EMA, DDP and ``train()`` do not know of the teacher,
    which has no gradients and stays in eval mode. It follows the student to its device and precision.

    Attributes:
        teacher: the other model; None until :meth:`hold_teacher`.
    """

    teacher: Any = None

    def hold_teacher(self, teacher: nn.Module) -> None:
        """Take a model as teacher."""
        # Not an attribute that torch registers.
        object.__setattr__(self, 'teacher', teacher.requires_grad_(False).eval())

    def _apply(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> nn.Module:
        if self.teacher is not None:
            self.teacher._apply(fn, *args, **kwargs)
        return super()._apply(fn, *args, **kwargs)  # type: ignore[misc]
