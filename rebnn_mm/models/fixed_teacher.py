"""Holds a model that teaches another one and is no part of it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.hub import get_config
from mmengine.registry import Registry
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from rebnn_mm.utils.checkpoint_check import QUANTIZER, match_keys, missing_checkpoint, other_quantizers
from rebnn_mm.utils.config_file import get_config_dir, missing_config


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


class ConfiguredTeacher(FixedTeacher):
    """:class:`FixedTeacher` of an OpenMMLab model, built from a config and filled when training starts.

    Until then the teacher has no weights, so testing does not need them.
    """

    teacher_checkpoint: str | None = None
    start_from_teacher = False
    teacher_ready = False

    def build_teacher(
        self, teacher: str | Mapping[str, Any], checkpoint: str | None, registry: Registry, images: Mapping[str, Any]
    ) -> None:
        """Build the teacher and hold it.

        Args:
            teacher: a config file, the name of one in a library, or the dict of a model. A file ``configs/...`` that
                is not here is the one that comes with the package.
            checkpoint: its weights; may be None where the dict has an ``init_cfg``.
            registry: what builds it.
            images: options of the student's ``data_preprocessor`` that both have to agree on, with their values.

        Raises:
            ValueError: there is no such config, the teacher has no weights, or its images are normalised otherwise.
        """
        config, preprocessing = self._teacher_config(teacher)
        if checkpoint is None and not config.get('init_cfg'):
            raise self.teacher_error(
                'the teacher has no weights, and a random one teaches nothing. Give teacher_checkpoint, or an '
                'init_cfg in the dict of the teacher.'
            )
        self._check_same_images(images, preprocessing)
        self.hold_teacher(registry.build(config))
        self.teacher_checkpoint = checkpoint

    def init_weights(self) -> None:
        """Initialise the student and read the teacher's weights; the runner does it at the start of training."""
        super().init_weights()  # type: ignore[misc]
        self.prepare_teacher()
        if self.start_from_teacher:
            self._take_weights_of_teacher()

    def prepare_teacher(self) -> None:
        """Read the teacher's weights, once.

        Raises:
            ValueError: the checkpoint does not exist, leaves parameters of the teacher unfilled, or has binary layers
                where the teacher has real ones.
        """
        if self.teacher_ready:
            return
        if self.teacher_checkpoint is None:
            self.teacher.init_weights()
        else:
            self._fill_teacher(self.teacher_checkpoint)
        self.teacher_ready = True

    def teacher_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A checkpoint's state dict with the names that the teacher has."""
        return {key.removeprefix('module.'): value for key, value in state.items()}

    def teacher_error(self, problem: str) -> ValueError:
        """An error that begins with the name of the class."""
        return ValueError(f'{type(self).__name__}: {problem}')

    def check_same_classes(self, ours: object, theirs: object) -> None:
        """Refuse a teacher of other classes.

        Args:
            ours: the student's number of classes; anything else is not compared.
            theirs: the teacher's.

        Raises:
            ValueError: the numbers differ.
        """
        if isinstance(ours, int) and isinstance(theirs, int) and ours != theirs:
            raise self.teacher_error(
                f'the student has {ours} classes, the teacher {theirs}. Use a teacher that was trained on the same '
                'classes, or set num_classes of the head.'
            )

    def _teacher_config(self, teacher: str | Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """The dict of the teacher's model and the preprocessing its config asks for."""
        if isinstance(teacher, Mapping):
            # Detectors write into the configs of their heads.
            return ConfigDict(copy.deepcopy(dict(teacher))), teacher.get('data_preprocessor') or {}
        if '::' in teacher:
            config = get_config(teacher)
        else:
            path = Path(teacher)
            if not path.is_file() and path.parts[:1] == ('configs',):
                shipped = get_config_dir().joinpath(*path.parts[1:])
                path = shipped if shipped.is_file() else path
            problem = missing_config(path)
            if problem:
                raise self.teacher_error(f'teacher={teacher!r}: {problem}')
            config = Config.fromfile(path)
        model = config.model
        return model, model.get('data_preprocessor') or config.get('data_preprocessor') or {}

    def _check_same_images(self, images: Mapping[str, Any], preprocessing: Mapping[str, Any]) -> None:
        for name, value in images.items():
            if preprocessing.get(name) is None:
                continue
            pair = value, preprocessing[name]
            ours, theirs = (torch.as_tensor(x).float().flatten().tolist() for x in pair)
            if ours != theirs:
                raise self.teacher_error(
                    f'the teacher was trained with {name}={theirs} in its data_preprocessor, but sees the images of '
                    f'the student, whose {name} is {ours}. Give the student the preprocessing of the teacher.'
                )

    def _fill_teacher(self, checkpoint: str) -> None:
        problem = missing_checkpoint(checkpoint)
        if problem:
            raise self.teacher_error(f'{problem} Give the weights of the teacher as teacher_checkpoint.')
        loaded = CheckpointLoader.load_checkpoint(checkpoint, map_location='cpu')
        state = self.teacher_state(loaded.get('state_dict', loaded))
        match = match_keys(self.teacher, state)
        wrong = [*match.missing, *match.reshaped]
        if wrong:
            raise self.teacher_error(
                f'{checkpoint} fills {len(match.matched)} of the {len(match.matched) + len(wrong)} parameters of the '
                f'teacher; not {_first(wrong)}. Give the checkpoint that belongs to the config of the teacher.'
            )
        problem = other_quantizers(match, checkpoint)
        if problem:
            raise self.teacher_error(f'the teacher cannot be {problem}')
        self.teacher.load_state_dict(state, strict=False)

    def _take_weights_of_teacher(self) -> None:
        """Start the student from the teacher; quantizers that only the student has start from the weights."""
        student: Any = self
        state = self.teacher.state_dict()
        match = match_keys(student, state)
        wrong = [*(key for key in match.missing if not QUANTIZER.match(key)), *match.reshaped]
        if wrong:
            raise self.teacher_error(
                f'start_from_teacher: the teacher fills {len(match.matched)} parameters of the student, not '
                f'{_first(wrong)}. Take a teacher of the same blocks and widths with conv_cfg=None, or '
                'start_from_teacher=False.'
            )
        student.load_state_dict(state, strict=False)


def _first(names: list[str]) -> str:
    return f'{", ".join(names[:3])}{" and others" if len(names) > 3 else ""}'
