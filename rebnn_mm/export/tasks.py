"""Outputs of a model's file: scores, boxes, logits of a text, or the outputs of the head."""

import inspect
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from rebnn_mm.deploy.text_classifier import INPUTS

from ..errors import RebnnError
from .detection.traced_parts import ImageStage, raw_graph, two_stage
from .detection.whole_graph import detector_graph, explain_unsupported
from .examples import Example, Image, Text
from .trace import trace, trace_images

TEXT = 'text-classification'

CLASSIFIED = ('classification', TEXT)
"""Tasks whose first output has one score for each class."""


class Task(NamedTuple):
    """Kind of output of a file."""

    name: str  # ``'classification'``, ``'detection'``, ``'text-classification'`` or ``'raw'``
    because: str = ''  # why it is ``'raw'``; empty otherwise


def task_of(model: nn.Module) -> Task:
    """The task of a model: its type decides."""
    if is_text_classifier(model):
        return Task(TEXT)
    no_classifier = explain_unsupported_classifier(model)
    if not no_classifier:
        return Task('classification')
    no_detector = explain_unsupported(model)
    return Task('raw', f'{no_classifier}; {no_detector}') if no_detector else Task('detection')


def graph_of(model: nn.Module, task: Task, image: Tensor | None = None) -> onnx.ModelProto:
    """The graph of a model with the inputs and outputs of its task (docs/format.md).

    ``image`` is one that the model takes; of a detector and of texts none is needed.
    """
    if task.name == TEXT:
        return text_graph(model)
    if task.name == 'detection':
        return detector_graph(model)
    assert image is not None
    if task.name == 'classification':
        return classifier_graph(model, image.expand(2, -1, -1, -1).clone())
    return raw_graph(model, image)


@torch.no_grad()
def torch_outputs(model: Any, task: Task, example: Example, regions: np.ndarray | None = None) -> list[np.ndarray]:
    """Run PyTorch on an example in eval mode; outputs in the order of the file's."""
    if isinstance(example, Text):
        return [model({name: torch.from_numpy(values) for name, values in example.inputs.items()}).numpy()]
    image = torch.from_numpy(example.values)
    if task.name == 'classification':
        outputs: Any = ClassifierScores(model)(image)
    elif task.name == 'detection':
        sample = _data_sample(example)
        if regions is not None:
            from mmengine.structures import InstanceData

            sample.proposals = InstanceData(bboxes=torch.from_numpy(regions))
        (result,) = model.predict(image, [sample], rescale=False)
        found = result.pred_instances
        outputs = [found.bboxes, found.scores, found.labels]
    else:
        outputs = (ImageStage(model) if two_stage(model) else model)(image)
    return [value.numpy() for value in _pytree.tree_leaves(outputs)]


@torch.no_grad()
def torch_regions(model: Any, image: Image) -> np.ndarray:
    """Corners (R, 4) of the regions that the first stage of a detector proposes in PyTorch, best first."""
    features = model.extract_feat(torch.from_numpy(image.values))
    (proposed,) = model.rpn_head.predict(features, [_data_sample(image)], rescale=False)
    corners: np.ndarray = proposed.bboxes.numpy()
    return corners


def _data_sample(image: Image) -> Any:
    from mmdet.structures import DetDataSample

    size = image.valid_size
    return DetDataSample(metainfo=dict(img_shape=size, ori_shape=size, scale_factor=(1.0, 1.0)))


class ClassifierScores(nn.Module):
    """The probabilities that a classifier predicts.

    The parts keep the names that they have in the classifier. A teacher, as
    ``rebnn_mm.TeacherStudentClassifier`` has one, is left out.

    Shapes: (N, C, H, W) to (N, classes).
    """

    def __init__(self, model: Any) -> None:
        from mmpretrain.models import MultiLabelClsHead

        super().__init__()
        self.backbone = model.backbone
        self.neck = model.neck if model.with_neck else nn.Identity()
        self.head = model.head
        softmax = partial(torch.softmax, dim=1)
        self.squash: Callable[[Tensor], Tensor] = (
            torch.sigmoid if isinstance(model.head, MultiLabelClsHead) else softmax
        )

    def forward(self, image: Tensor) -> Tensor:
        """Class probabilities of a batch of images."""
        return self.squash(self.head(self.neck(self.backbone(image))))


def explain_unsupported_classifier(model: nn.Module) -> str:
    """Say why a model's prediction is not what :class:`ClassifierScores` gives; empty if it is."""
    if find_spec('mmpretrain') is None:
        return 'mmpretrain is not installed'
    from mmpretrain.models import ClsHead, ImageClassifier, MultiLabelClsHead

    if not isinstance(model, ImageClassifier):
        return 'it is not an image classifier of mmpretrain'
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

    A model in which paddings depend on one another, as EfficientNet's, gets a graph for the size of the example.
    """
    return trace_images(ClassifierScores(model), example, ['scores'], any_size=not nests_padding(model))


def nests_padding(model: nn.Module) -> bool:
    """Whether more than one layer that halves a map pads it by what its size needs.

    Each such size is a formula of the one before it, which torch.export does not simplify within minutes.
    """
    if find_spec('mmcv') is None:
        return False
    from mmcv.cnn.bricks import Conv2dAdaptivePadding

    kinds = (layer for layer in model.modules() if isinstance(layer, Conv2dAdaptivePadding))
    return sum(max(layer.stride) > 1 for layer in kinds) > 1


class TextLogits(nn.Module):
    """The logits of a :class:`rebnn_mm.models.language.TextClassifier`, with tokens as arguments.

    A teacher is left out. The padding mask is handed over in the form in which attention takes it, so that no code of
    transformers that makes masks is part of the graph.

    Shapes: int64 (N, L) each to (N, classes).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Logits of a batch of texts."""
        types = {} if token_type_ids is None else {'token_type_ids': token_type_ids}
        mask = attention_mask.ne(0)[:, None, None, :]
        return self.encoder(input_ids=input_ids, attention_mask=mask, **types).logits


def is_text_classifier(model: nn.Module) -> bool:
    """Whether a model is a :class:`rebnn_mm.models.language.TextClassifier`."""
    from rebnn_mm.models.language.text_classifier import TextClassifier

    return isinstance(model, TextClassifier)


def input_names(model: Any) -> list[str]:
    """Names of the inputs that a text classifier takes."""
    encoder = model.encoder
    types = 'token_type_ids' in inspect.signature(encoder.forward).parameters
    return list(INPUTS) if types and getattr(encoder.config, 'type_vocab_size', 0) > 1 else list(INPUTS[:2])


def longest_text(model: Any) -> int:
    """How many tokens a text may have.

    RoBERTa's positions begin after the number of its padding token.
    """
    config = model.encoder.config
    positions = int(getattr(config, 'max_position_embeddings', 512))
    offset = config.pad_token_id + 1 if config.model_type in ('roberta', 'xlm-roberta', 'camembert') else 0
    return positions - offset


def random_texts(model: Any, lengths: tuple[int, ...] = (64, 17, 5)) -> list[Text]:
    """Two batches of random tokens, always the same ones, the shorter texts filled with padding."""
    config = model.encoder.config
    longest = min(max(lengths), longest_text(model))
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(2):
        mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
        ids = np.where(mask, rng.integers(0, config.vocab_size, mask.shape), config.pad_token_id or 0)
        types = mask * (np.arange(longest) >= longest // 2)
        inputs = {'input_ids': ids, 'attention_mask': mask, 'token_type_ids': types}
        texts.append(Text({name: inputs[name] for name in input_names(model)}))
    return texts


def text_graph(model: Any) -> onnx.ModelProto:
    """The graph of a text classifier: tokens to ``logits``, of any number of texts and any length."""
    kinds = {*(getattr(model.encoder.config, 'layer_types', None) or ())} - {'full_attention'}
    if kinds:
        raise RebnnError(
            f'{type(model.encoder).__name__} has layers of {min(kinds)}, where a token sees its neighbours only; the '
            'packed format has attention to the whole text. Export an encoder such as BERT, RoBERTa, DistilBERT or '
            'ELECTRA.'
        )
    names = input_names(model)
    length = min(8, longest_text(model))
    example = {name: torch.ones(2, length, dtype=torch.int64) for name in names}
    return trace(TextLogits(model), example, ['logits'], {name: [0, 1] for name in names})
