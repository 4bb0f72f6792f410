"""A classifier that learns from another one."""

from collections.abc import Mapping
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hub import get_config
from mmengine.runner import CheckpointLoader
from mmpretrain.models import ImageClassifier
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from rebnn_mm.registry import MODELS
from rebnn_mm.utils.checkpoint_check import match_keys, missing_checkpoint
from rebnn_mm.utils.config_file import missing_config

from ..fixed_teacher import FixedTeacher


@MODELS.register_module()
class TeacherStudentClassifier(FixedTeacher, ImageClassifier):
    """mmpretrain's ``ImageClassifier`` whose loss compares its scores with those of a fixed teacher.

    The model *is* the student: its parameters, its state dict, its predictions. A checkpoint loads into a plain
    ``ImageClassifier`` and the other way round, and optimizer, EMA, DDP and the number of parameters do not know of
    the teacher. The teacher sees the same preprocessed images, stays in eval mode without gradients, and follows the
    student to its device and precision. Its weights are read when training starts, so testing does not need them.

    Args:
        *args: arguments of ``ImageClassifier``, which make the student.
        teacher: a config file of a classifier, the name of one in a library (``'mmpretrain::resnet/...py'``), or the
            dict of a model.
        teacher_checkpoint: its weights: a file, a URL, or ``'torchvision://resnet34'``. May be left out where the
            dict of the teacher has an ``init_cfg``.
        teacher_loss: the loss, called with both scores (N, C).
        label_weight: factor of the head's own loss on the labels, which is added; 0 leaves the labels unused.
        **kwargs: further arguments of ``ImageClassifier``.

    Raises:
        ValueError: the teacher has no weights, other classes or another normalisation of its images; at the start of
            training also: its checkpoint does not exist or does not fill it.

    Example:
        >>> def classifier(width):
        ...     return dict(
        ...         backbone=dict(type='ReBNNResNet', depth=18, base_channels=width, out_indices=(3,)),
        ...         neck=dict(type='GlobalAveragePooling'),
        ...         head=dict(type='LinearClsHead', num_classes=10, in_channels=8 * width),
        ...     )
        >>> random = dict(type='Kaiming', layer='Conv2d')
        >>> model = TeacherStudentClassifier(
        ...     **classifier(8), teacher=dict(type='ImageClassifier', **classifier(16), init_cfg=random)
        ... )
        >>> model(torch.randn(2, 3, 32, 32), mode='loss').keys()
        dict_keys(['teacher_loss'])
        >>> [key for key in model.state_dict() if 'teacher' in key]
        []

    Source: Liu et al. 2020 (ReActNet), Eq. 6; the paper's two-stage setting.
    """

    def __init__(
        self,
        *args: Any,
        teacher: str | Mapping[str, Any],
        teacher_checkpoint: str | None = None,
        teacher_loss: Mapping[str, Any] = dict(type='DistributionLoss'),
        label_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        config, preprocessing = _teacher_config(teacher)
        if teacher_checkpoint is None and not config.get('init_cfg'):
            raise ValueError(
                'TeacherStudentClassifier: the teacher has no weights, and a random one teaches nothing. Give '
                'teacher_checkpoint, or an init_cfg in the dict of the teacher.'
            )
        self._check_same_images(preprocessing)
        self.hold_teacher(MMPRETRAIN_MODELS.build(config))
        self._check_same_classes()
        self.teacher_checkpoint = teacher_checkpoint
        self.teacher_ready = False
        self.teacher_loss = MMPRETRAIN_MODELS.build(teacher_loss)
        self.label_weight = label_weight

    def init_weights(self) -> None:
        """Initialise the student and read the teacher's weights; the runner does it at the start of training."""
        super().init_weights()
        self.prepare_teacher()

    def prepare_teacher(self) -> None:
        """Read the teacher's weights, once.

        Raises:
            ValueError: the checkpoint does not exist, or leaves parameters of the teacher unfilled.
        """
        if self.teacher_ready:
            return
        if self.teacher_checkpoint is None:
            self.teacher.init_weights()
        else:
            _fill(self.teacher, self.teacher_checkpoint)
        self.teacher_ready = True

    def loss(self, inputs: Tensor, data_samples: list[DataSample] | None = None) -> dict[str, Tensor]:
        """The losses of a batch.

        Args:
            inputs: images, (N, C, H, W).
            data_samples: their labels; needed only with ``label_weight``.

        Returns:
            dict[str, Tensor]: ``teacher_loss``, and what the head gives for the labels, as ``label_loss`` and so on.
        """
        self.prepare_teacher()
        features = self.extract_feat(inputs)
        losses = {'teacher_loss': self.teacher_loss(self.head(features), self.teacher_scores(inputs))}
        if self.label_weight:
            for name, value in self.head.loss(features, data_samples).items():
                losses[f'label_{name}'] = value * self.label_weight if 'loss' in name else value
        return losses

    @torch.no_grad()
    def teacher_scores(self, inputs: Tensor) -> Tensor:
        """What the teacher says about images (N, C, H, W): scores before the softmax, (N, classes)."""
        return self.teacher.eval()(inputs, mode='tensor')

    def _check_same_images(self, preprocessing: Mapping[str, Any]) -> None:
        if not hasattr(self.data_preprocessor, 'mean'):
            return  # images come normalised from elsewhere
        for name in ('mean', 'std', 'to_rgb'):
            if preprocessing.get(name) is None:
                continue
            pair = getattr(self.data_preprocessor, name), preprocessing[name]
            ours, theirs = (torch.as_tensor(x).float().flatten().tolist() for x in pair)
            if ours != theirs:
                raise ValueError(
                    f'TeacherStudentClassifier: the teacher was trained with {name}={theirs} in its '
                    f'data_preprocessor, but sees the images of the student, whose {name} is {ours}. Give the student '
                    'the preprocessing of the teacher.'
                )

    def _check_same_classes(self) -> None:
        ours, theirs = (getattr(model.head, 'num_classes', None) for model in (self, self.teacher))
        if ours is not None and theirs is not None and ours != theirs:
            raise ValueError(
                f'TeacherStudentClassifier: the student has {ours} classes, the teacher {theirs}. Use a teacher that '
                'was trained on the same classes, or set num_classes of the head.'
            )


def _teacher_config(teacher: str | Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The dict of the teacher's model and the preprocessing its config asks for."""
    if isinstance(teacher, Mapping):
        return dict(teacher), teacher.get('data_preprocessor') or {}
    if '::' in teacher:
        config = get_config(teacher)
    else:
        problem = missing_config(teacher)
        if problem:
            raise ValueError(f'TeacherStudentClassifier: teacher={teacher!r}: {problem}')
        config = Config.fromfile(teacher)
    model = dict(config.model)
    return model, model.get('data_preprocessor') or config.get('data_preprocessor') or {}


def _fill(teacher: nn.Module, checkpoint: str) -> None:
    problem = missing_checkpoint(checkpoint)
    if problem:
        raise ValueError(f'TeacherStudentClassifier: {problem} Give the weights of the teacher as teacher_checkpoint.')
    loaded = CheckpointLoader.load_checkpoint(checkpoint, map_location='cpu')
    state = _named_as_in_mmpretrain(loaded.get('state_dict', loaded))
    match = match_keys(teacher, state)
    wrong = [*match.missing, *match.reshaped]
    if wrong:
        raise ValueError(
            f'TeacherStudentClassifier: {checkpoint} fills {len(match.matched)} of the '
            f'{len(match.matched) + len(wrong)} parameters of the teacher; not {", ".join(wrong[:3])}'
            f'{" and others" if len(wrong) > 3 else ""}. Give the checkpoint that belongs to the config of the '
            'teacher.'
        )
    teacher.load_state_dict(state, strict=False)


def _named_as_in_mmpretrain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same state dict; the one of a ResNet of torchvision with mmpretrain's names."""
    state = {key.removeprefix('module.'): value for key, value in state.items()}
    if 'fc.weight' not in state:
        return state
    return {f'head.{key}' if key.startswith('fc.') else f'backbone.{key}': value for key, value in state.items()}
