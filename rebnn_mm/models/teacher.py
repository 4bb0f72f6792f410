"""Holds a teacher, which is not part of its student, and notes what modules of both give."""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import ConfigDict
from mmengine.hub import get_config
from mmengine.registry import MODELS, Registry
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from rebnn_mm.errors import RebnnError
from rebnn_mm.registry import list_classes
from rebnn_mm.utils.checkpoint import QUANTIZER, check_checkpoint_file, check_state, match_keys, of_longer_stacks
from rebnn_mm.utils.config_file import get_config_dir, read_config

PARTS = ('backbone', 'neck', 'head', 'rpn_head', 'bbox_head', 'roi_head')
"""Attributes in which classifiers and detectors keep their parts."""


class Call(NamedTuple):
    """Arguments by position and result of a call of a module or a method."""

    arguments: tuple[Any, ...]
    result: Any


class Calls(dict[str, list[Call]]):
    """The calls of modules and methods by their dotted names, in order.

    Where some were made with gradients, those without are left out: samplers such as OHEM's try a head before it is
    trained.
    """

    def __init__(self) -> None:
        super().__init__()
        self._learning: set[str] = set()

    def note(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Add a call."""
        learns = torch.is_grad_enabled()
        if name in self._learning and not learns:
            return
        if learns and name not in self._learning:
            self._learning.add(name)
            self.pop(name, None)
        self.setdefault(name, []).append(Call(arguments, result))


@contextmanager
def note_calls(model: nn.Module, names: Iterable[str]) -> Iterator[Calls]:
    """Note the calls of modules and methods of a model, by their dotted names.

    Hooks would be overlooked by a module that is compiled, and called again where a block is computed again.
    """
    calls = Calls()
    replaced: list[tuple[dict[str, Any], str, Any]] = []

    def noting(name: str, call: Any) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            calls.note(name, args, result)
            return result

        return noted

    try:
        for name in dict.fromkeys(names):
            path, _, last = name.rpartition('.')
            owner = model.get_submodule(path)
            found: Any = getattr(owner, last)
            if isinstance(found, nn.Module):
                # What calling a module calls, if set: torch puts the compiled form there.
                owner, last, found = found, '_compiled_call_impl', found._compiled_call_impl or found._call_impl
            replaced.append((owner.__dict__, last, owner.__dict__.get(last)))
            owner.__dict__[last] = noting(name, found)
        yield calls
    finally:
        for attributes, last, before in reversed(replaced):
            attributes.pop(last)
            if before is not None:
                attributes[last] = before


def as_maps(calls: Iterable[Call]) -> tuple[Tensor, ...]:
    """Outputs of a module's calls, one map or several in each, as a tuple."""
    return tuple(
        each for call in calls for each in ((call.result,) if isinstance(call.result, Tensor) else tuple(call.result))
    )


def add_terms(losses: dict[str, Any], terms: Mapping[str, Any]) -> None:
    """Put the terms of a loss among others; those of one name are added."""
    for name, value in terms.items():
        losses[name] = losses[name] + value if name in losses else value


class FixedTeacher:
    """Mixin, named before ``nn.Module``, of a model that learns from another one.

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

    def build_losses(self, losses: Sequence[Mapping[str, Any]], kind: type[nn.Module]) -> nn.ModuleList:
        """Build the losses of this class that a config lists."""
        if not isinstance(losses, Sequence) or not all(isinstance(loss, Mapping) for loss in losses):
            raise self.teacher_error('losses is to be a list of losses, each a dict: losses=[dict(type=...), ...].')
        built = nn.ModuleList(MODELS.build(dict(loss)) for loss in losses)
        for loss in built:
            if not isinstance(loss, kind):
                known = ', '.join(list_classes(kind))
                raise self.teacher_error(
                    f'{type(loss).__name__} in losses is no {kind.__name__}. Use some of: {known}.'
                )
        return built

    def teacher_error(self, problem: str) -> RebnnError:
        """An error that begins with the name of the class."""
        return RebnnError(problem, type(self).__name__)


class _Held:
    """Keeps a model where torch does not register it, and where copies of the holder find the same one."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __deepcopy__(self, memo: dict[int, Any]) -> '_Held':
        return self


class ConfiguredTeacher(FixedTeacher):
    """:class:`FixedTeacher` of an OpenMMLab model, built from a config and filled when training starts.

    Until then the teacher has no weights, so testing does not need them; nor its config file, without which there is
    no teacher, and training stops.
    """

    teacher_checkpoint: str | None = None
    start_from_teacher = False
    teacher_ready = False
    _without_teacher: str | None = None

    def build_teacher(
        self, teacher: str | Mapping[str, Any], checkpoint: str | None, registry: Registry, images: Mapping[str, Any]
    ) -> None:
        """Build the teacher and hold it.

        ``images`` are options of the student's ``data_preprocessor`` that both have to agree on, with their values;
        None for one that it does without.
        """
        if isinstance(teacher, str) and '::' not in teacher and not _config_path(teacher).is_file():
            self._without_teacher = f'teacher={teacher!r}: no config file at {teacher}.'
            return
        config, preprocessing = self._teacher_config(teacher)
        if checkpoint is None and not config.get('init_cfg'):
            raise self.teacher_error(
                'the teacher has no weights, and a random one is useless. Give teacher_checkpoint, or an '
                'init_cfg in the dict of the teacher.'
            )
        self._check_same_images(images, preprocessing)
        self.hold_teacher(registry.build(config))
        self.teacher_checkpoint = checkpoint

    def init_weights(self) -> None:
        """Initialise the student and read the teacher's weights; the runner does it at the start of training."""
        initialised: bool = self.is_init  # type: ignore[attr-defined]
        super().init_weights()  # type: ignore[misc]
        self.prepare_teacher()
        if self.start_from_teacher and not initialised:
            self._take_weights_of_teacher()

    def prepare_teacher(self) -> None:
        """Read the teacher's weights, once."""
        if self.teacher_ready:
            return
        if self._without_teacher:
            raise self.teacher_error(self._without_teacher)
        if self.teacher_checkpoint is None:
            self.teacher.init_weights()
        else:
            self._fill_teacher(self.teacher_checkpoint)
        self.teacher_ready = True

    def teacher_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A checkpoint's state dict with the names that the teacher has."""
        return {key.removeprefix('module.'): value for key, value in state.items()}

    def check_same_classes(self, ours: object, theirs: object) -> None:
        """Refuse a teacher of other classes."""
        if isinstance(ours, int) and isinstance(theirs, int) and ours != theirs:
            raise self.teacher_error(
                f'the student has {ours} classes, the teacher {theirs}. Use a teacher that was trained on the same '
                'classes, or set num_classes of the head.'
            )

    def check_modules(self, loss: str, names: Iterable[str]) -> None:
        """Refuse a comparison of modules that one of the two does not have."""
        models: dict[str, Any] = dict(student=self, teacher=self.teacher)
        for who, model in models.items():
            for name in names:
                try:
                    model.get_submodule(name)
                except AttributeError:
                    parts = ', '.join(part for part in PARTS if getattr(model, part, None) is not None)
                    raise self.teacher_error(
                        f'{loss} compares {name!r}, which the {who} does not have. Its parts: {parts}.'
                    ) from None

    def check_called(self, names: Iterable[str], called: Collection[str], who: str = 'training') -> None:
        """Refuse a comparison of what a forward pass in training, or of the teacher, does not reach."""
        for name in sorted(set(names) - set(called)):
            raise self.teacher_error(
                f'{who} does not call {name}, so nothing of it can be compared. Name another module in losses; a '
                'part that is compiled has to be compared as a whole.'
            )

    def check_history(self, maps: Mapping[str, tuple[Tensor, ...]]) -> None:
        """Refuse maps that cannot learn."""
        student: Any = self
        for name, found in maps.items():
            around = student.get_submodule(name.rpartition('.')[0])
            learns = torch.is_grad_enabled() and any(p.requires_grad for p in around.parameters())
            if learns and not any(getattr(x, 'requires_grad', True) for x in found):
                own = list(student.get_submodule(name).parameters())
                if own and not any(p.requires_grad for p in own):
                    raise self.teacher_error(
                        f'{name} is compared with the teacher, and is frozen, so that it can learn nothing. Set '
                        'frozen_stages=-1, or take it out of modules.'
                    )
                raise self.teacher_error(
                    f'the output of {name} has no gradient, so comparing it changes nothing. Compare the block that '
                    'it is in.'
                )

    def _teacher_config(self, teacher: str | Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """The dict of the teacher's model and the preprocessing its config asks for."""
        if isinstance(teacher, Mapping):
            # Detectors write into the configs of their heads.
            return ConfigDict(copy.deepcopy(dict(teacher))), teacher.get('data_preprocessor') or {}
        if not isinstance(teacher, str):
            raise self.teacher_error(f'teacher={teacher!r} is neither a config file nor the dict of a model.')
        if '::' in teacher:
            try:
                config = get_config(teacher)
            except (AssertionError, FileNotFoundError, ValueError, ImportError) as error:
                raise self.teacher_error(f'teacher={teacher!r} is not a config of a library: {error}.') from error
        else:
            try:
                config = read_config(_config_path(teacher))
            except ValueError as error:
                raise self.teacher_error(f'teacher={teacher!r}: {error}') from error
        model = config.get('model')
        if not model:
            raise self.teacher_error(f'teacher={teacher!r} has no model; name the config of a network.')
        return model, model.get('data_preprocessor') or config.get('data_preprocessor') or {}

    def _check_same_images(self, images: Mapping[str, Any], preprocessing: Mapping[str, Any]) -> None:
        if preprocessing:
            # mmdet turns the channels for either option.
            turned = any(preprocessing.get(name) for name in ('bgr_to_rgb', 'rgb_to_bgr'))
            preprocessing = {**preprocessing, 'bgr_to_rgb': turned}
        # A teacher whose dict says nothing of its images is given those of the student.
        for name, value in images.items() if preprocessing else ():
            # A switch that is left out is off.
            pair = value, preprocessing.get(name, False if isinstance(value, bool) else None)
            ours, theirs = (None if x is None else torch.as_tensor(x).float().flatten().tolist() for x in pair)
            if ours != theirs:
                raise self.teacher_error(
                    f'the teacher was trained with {name}={theirs} in its data_preprocessor, but sees the images of '
                    f'the student, whose {name} is {ours}. Give the student the preprocessing of the teacher.'
                )

    def _fill_teacher(self, checkpoint: str) -> None:
        try:
            check_checkpoint_file(checkpoint)
            loaded = CheckpointLoader.load_checkpoint(checkpoint, map_location='cpu', logger='silent')
            state = self.teacher_state(loaded.get('state_dict', loaded))
            check_state(self.teacher, state, checkpoint)
        except RebnnError as error:
            raise self.teacher_error(f'the teacher cannot be filled from teacher_checkpoint: {error}') from None
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
        deeper = of_longer_stacks(student, match.unexpected)
        if deeper:
            raise self.teacher_error(
                f'start_from_teacher: the teacher is deeper than the student, which has no {_first(deeper)}. Take a '
                'teacher of the same blocks and widths with conv_cfg=None, or start_from_teacher=False.'
            )
        student.load_state_dict(state, strict=False)


def _config_path(teacher: str) -> Path:
    path = Path(teacher)
    if not path.is_file() and path.parts[:1] == ('configs',):
        shipped = get_config_dir().joinpath(*path.parts[1:])
        return shipped if shipped.is_file() else path
    return path


def _first(names: list[str]) -> str:
    return f'{", ".join(names[:3])}{" and others" if len(names) > 3 else ""}'
