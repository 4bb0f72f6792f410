"""Holds a model that teaches another one and is no part of it."""

from typing import Any

from torch import nn


class FixedTeacher:
    """Mixin, named in front of ``nn.Module``, of a model that learns from another one.

    The model *is* the student: parameters, state dict, optimizer, EMA, DDP and ``train()`` do not know of the teacher,
    which has no gradients and stays in eval mode. Copies of the model, such as EMA's, share it.
    """

    _held: '_Held | None' = None

    @property
    def teacher(self) -> Any:
        """The other model, on the device and in the precision of the student; None until :meth:`hold_teacher`."""
        if self._held is None:
            return None
        model = self._held.model
        own, student = next(model.parameters()), next(self.parameters())  # type: ignore[attr-defined]
        if (own.device, own.dtype) != (student.device, student.dtype):
            model.to(device=student.device, dtype=student.dtype)
        return model

    def hold_teacher(self, teacher: nn.Module) -> None:
        """Take a model as teacher."""
        self._held = _Held(teacher.requires_grad_(False).eval())


class _Held:
    """Keeps a model where torch does not register it, and where copies of the holder find the same one."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __deepcopy__(self, memo: dict[int, Any]) -> '_Held':
        return self
