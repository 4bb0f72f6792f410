"""A classifier of mmpretrain as one module: from the image to class probabilities."""

from collections.abc import Callable
from typing import Any

import onnx
import torch
from mmpretrain.models import ClsHead, ImageClassifier, MultiLabelClsHead
from torch import Tensor, nn

from .trace import trace


class ClassifierScores(nn.Module):
    """The probabilities that a classifier predicts.

    The parts keep the names that they have in the classifier. A teacher, as
    ``rebnn_mm.TeacherStudentClassifier`` has one, is left out.

    Args:
        model: a classifier for which :func:`unsupported_classifier` has nothing to say.

    Shapes: (N, C, H, W) to (N, classes).

    Example:
        >>> from mmpretrain.models import ImageClassifier
        >>> head = dict(type='LinearClsHead', num_classes=4, in_channels=512)
        >>> backbone = dict(type='ReBNNResNet', depth=18, out_indices=(3,))
        >>> model = ImageClassifier(backbone=backbone, neck=dict(type='GlobalAveragePooling'), head=head).eval()
        >>> scores = ClassifierScores(model)(torch.zeros(2, 3, 32, 32))
        >>> scores.shape, bool(torch.allclose(scores.sum(1), torch.ones(2)))
        (torch.Size([2, 4]), True)
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.neck = model.neck if model.with_neck else nn.Identity()
        self.head = model.head
        self.squash: Callable[[Tensor], Tensor] = (
            torch.sigmoid if isinstance(model.head, MultiLabelClsHead) else _softmax
        )

    def forward(self, image: Tensor) -> Tensor:
        """Class probabilities of a batch of images."""
        return self.squash(self.head(self.neck(self.backbone(image))))


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=1)


def unsupported_classifier(model: nn.Module) -> str:
    """Why a model's prediction is not what :class:`ClassifierScores` gives; empty if it is.

    Example:
        >>> unsupported_classifier(nn.Conv2d(3, 8, 1))
        'it is no image classifier of mmpretrain'
    """
    if not isinstance(model, ImageClassifier):
        return 'it is no image classifier of mmpretrain'
    for method in ('extract_feat', 'predict'):
        if getattr(type(model), method) is not getattr(ImageClassifier, method):
            return f'{type(model).__name__} has a way of its own to {method.replace("_", " ")}'
    head: Any = model.head if model.with_head else None
    for base in (ClsHead, MultiLabelClsHead):
        names = ('predict', '_get_predictions')
        if isinstance(head, base) and all(getattr(type(head), name) is getattr(base, name) for name in names):
            return ''
    return f'its head {type(head).__name__} predicts in a way of its own'


def classifier_graph(model: nn.Module, example: Tensor) -> onnx.ModelProto:
    """The graph of a classifier: ``image`` to ``scores``, of any number of images and of any size the model takes.

    Args:
        model: a classifier in eval mode, as a rule packed by :func:`rebnn_mm.export.pack`.
        example: at least two images, (N, C, H, W).

    Raises:
        ValueError: the model is not supported or cannot be traced; the message says why.
    """
    reason = unsupported_classifier(model)
    if reason:
        raise ValueError(f'{type(model).__name__} cannot be exported with scores as outputs: {reason}.')
    return trace(ClassifierScores(model), {'image': example}, ['scores'], {'image': [0, 2, 3]})
