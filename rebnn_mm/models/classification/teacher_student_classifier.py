"""A classifier that learns from another one."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmpretrain.models import ImageClassifier
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from mmpretrain.structures import DataSample
from torch import Tensor

from rebnn_mm.registry import MODELS

from ..losses import DetectorOutput, MapLoss
from ..teacher import ConfiguredTeacher, add_terms, as_maps, note_calls


@MODELS.register_module()
class TeacherStudentClassifier(ConfiguredTeacher, ImageClassifier):
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
        losses: configs of :class:`rebnn_mm.models.losses.MapLoss`, which compare what modules of both give and whose
            terms are added.
        **kwargs: further arguments of ``ImageClassifier``.

    Raises:
        ValueError: the teacher has no weights, other classes or another normalisation of its images, or a loss
            compares what one of the two does not have; at the start of training also: its checkpoint does not exist
            or does not fill it.

    Example:
        >>> def classifier(width):
        ...     return dict(
        ...         backbone=dict(type='BinaryResNet', depth=18, base_channels=width, out_indices=(3,)),
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

    Source: Liu et al. 2020 (ReActNet), Eq. 6; the paper's two-stage setting. With maps: Martinez et al. 2020
    (Real-to-Binary).
    """

    def __init__(
        self,
        *args: Any,
        teacher: str | Mapping[str, Any],
        teacher_checkpoint: str | None = None,
        teacher_loss: Mapping[str, Any] = dict(type='DistributionLoss'),
        label_weight: float = 0.0,
        losses: Sequence[Mapping[str, Any]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        own = self.data_preprocessor
        # Without a mean there, images come normalised from elsewhere.
        images = {name: getattr(own, name) for name in ('mean', 'std', 'to_rgb')} if hasattr(own, 'mean') else {}
        self.build_teacher(teacher, teacher_checkpoint, MMPRETRAIN_MODELS, images)
        if self.teacher is not None:
            # Those of timm and Hugging Face have no head of their own.
            heads = (getattr(model, 'head', None) for model in (self, self.teacher))
            self.check_same_classes(*(getattr(head, 'num_classes', None) for head in heads))
        self.teacher_loss = MMPRETRAIN_MODELS.build(teacher_loss)
        self.label_weight = label_weight
        built: Any = self.build_losses(losses, MapLoss)
        for loss in built if self.teacher is not None else ():
            self.check_modules(type(loss).__name__, loss.compared)
        self.map_losses = built

    def loss(self, inputs: Tensor, data_samples: list[DataSample] | None = None) -> dict[str, Tensor]:
        """The losses of a batch.

        Returns:
            dict[str, Tensor]: ``teacher_loss``, what the head gives for the labels, as ``label_loss`` and so on, and
            the terms of ``losses``.
        """
        self.prepare_teacher()
        map_losses: Any = self.map_losses
        names = [name for loss in map_losses for name in loss.compared]
        with note_calls(self, names) as ours:
            features = self.extract_feat(inputs)
            scores, labelled = self._scores_and_losses(features, data_samples)
        with note_calls(self.teacher, names) as theirs:
            losses = {'teacher_loss': self.teacher_loss(scores, self.teacher_scores(inputs))}
        for name, value in labelled.items():
            losses[f'label_{name}'] = value * self.label_weight if 'loss' in name else value
        if names:
            self.check_called(names, ours.keys() & theirs.keys())
            student, teacher = ({name: as_maps(made) for name, made in calls.items()} for calls in (ours, theirs))
            self.check_history(student)
            for loss in map_losses:
                add_terms(losses, loss(DetectorOutput(student), DetectorOutput(teacher)))
        return losses

    def _scores_and_losses(self, features: Any, data_samples: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Call the head once: its scores, and its losses of the labels if they count."""
        if not self.label_weight:
            return self.head(features), {}
        with note_calls(self, ['head']) as calls:
            losses = self.head.loss(features, data_samples)
        return calls['head'][-1].result, losses

    @torch.no_grad()
    def teacher_scores(self, inputs: Tensor) -> Tensor:
        """Compute the teacher's scores of images (N, C, H, W) before the softmax, (N, classes)."""
        return self.teacher.eval()(inputs, mode='tensor')

    def teacher_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A checkpoint's state dict; that of a ResNet of torchvision gets mmpretrain's names."""
        state = super().teacher_state(state)
        if 'fc.weight' not in state:
            return state
        return {f'head.{key}' if key.startswith('fc.') else f'backbone.{key}': value for key, value in state.items()}
