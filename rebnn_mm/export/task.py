"""What a model's file gives: scores, boxes, or what the head gives."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from .detection.raw import raw_graph
from .detection.stages import ImageStage, two_stage, unsupported


class Task(NamedTuple):
    """What a file gives.

    Attributes:
        name: ``'classification'``, ``'detection'``, ``'text-classification'`` or ``'raw'``.
        because: why it is ``'raw'``; empty otherwise.
    """

    name: str
    because: str = ''


def task_of(model: nn.Module) -> Task:
    """The task of a model that takes images: its type decides.

    Example:
        >>> task_of(nn.Conv2d(3, 8, 1))
        Task(name='raw', because='it is no image classifier of mmpretrain; it is no detector of mmdet')
    """
    reasons = []
    if find_spec('mmpretrain') is None:
        reasons.append('mmpretrain is not installed')
    else:
        from .classification import unsupported_classifier

        reasons.append(unsupported_classifier(model))
        if not reasons[0]:
            return Task('classification')
    reasons.append(unsupported(model))
    return Task('raw', '; '.join(reasons)) if reasons[-1] else Task('detection')


def graph_of(model: nn.Module, task: Task, example: Tensor) -> onnx.ModelProto:
    """The graph of a model with the inputs and outputs of its task (docs/format.md).

    Args:
        model: in eval mode, as a rule packed by :func:`rebnn_mm.export.pack`.
        task: from :func:`task_of`.
        example: an image of a size that the model takes, (1, C, H, W); used for classifiers.

    Raises:
        ValueError: the model cannot be traced; the message says why.
    """
    if task.name == 'classification':
        from .classification import classifier_graph

        return classifier_graph(model, example.expand(2, -1, -1, -1).clone())
    if task.name == 'detection':
        from .detection.detector import detector_graph

        return detector_graph(model)
    return raw_graph(model)[0]


@torch.no_grad()
def torch_outputs(model: Any, task: Task, image: Tensor, valid_size: tuple[int, int]) -> list[np.ndarray]:
    """What PyTorch gives for the image in eval mode, in the order of the file's outputs.

    Args:
        model: the trained model on the CPU, in eval mode.
        task: from :func:`task_of`.
        image: (1, C, H, W), normalised and padded.
        valid_size: height and width without the padding.
    """
    if task.name == 'classification':
        from .classification import ClassifierScores

        outputs: Any = ClassifierScores(model)(image)
    elif task.name == 'detection':
        from mmdet.structures import DetDataSample

        sizes = dict(img_shape=valid_size, ori_shape=valid_size, scale_factor=(1.0, 1.0))
        (result,) = model.predict(image, [DetDataSample(metainfo=sizes)], rescale=False)
        found = result.pred_instances
        outputs = [found.bboxes, found.scores, found.labels]
    else:
        outputs = (ImageStage(model) if two_stage(model) else model)(image)
    return [value.numpy() for value in _pytree.tree_leaves(outputs)]
