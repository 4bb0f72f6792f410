"""A text classifier that learns from another one."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.structures import BaseDataElement
from torch import Tensor

from rebnn_mm.registry import MODELS

from ..losses.encoder_losses import EncoderComparisonLoss, EncoderOutput
from ..teacher import FixedTeacher, add_terms
from .pretrained import load_pretrained
from .stored_weights import SETTINGS
from .text_classifier import TextClassifier, read_config


@MODELS.register_module(name=['TeacherStudentTextClassifier', 'TaughtTextClassifier'])
class TeacherStudentTextClassifier(FixedTeacher, TextClassifier):
    """A :class:`TextClassifier` that is compared with a fixed teacher, layer by layer.

    The model *is* the student (:class:`rebnn_mm.models.teacher.FixedTeacher`): its checkpoint loads into a plain
    ``TextClassifier``. The teacher reads the same tokens. It is loaded when training starts, so testing does not need
    it.

    Args:
        *args: arguments of ``TextClassifier``, which make the student.
        teacher: a fine-tuned classifier of the same task: a local directory or a name on the hub. What
            ``save_pretrained`` has written keeps its binary layers.
        losses: configs of :class:`rebnn_mm.models.losses.EncoderComparisonLoss`, whose terms are added.
        label_weight: factor of the cross entropy with the labels, which is added as ``loss_label``; 0 leaves the
            labels unused. A regression never uses them, as in BiBERT.
        **kwargs: further arguments of ``TextClassifier``.

    Raises:
        ValueError: there is nothing to learn from; at the start of training also: the teacher does not exist, or has
            other labels or another vocabulary.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        >>> folder = tempfile.mkdtemp()
        >>> BertForSequenceClassification(BertConfig(vocab_size=100, **sizes)).save_pretrained(folder)
        >>> model = TeacherStudentTextClassifier(
        ...     folder,
        ...     binarize=dict(linear=dict(type='ReBNNLinear', center='row', activation='BinarySign')),
        ...     attention=dict(type='BinaryAttention'),
        ...     teacher=folder,
        ...     losses=[dict(type='PredictionLoss'), dict(type='DirectionMatchingLoss')],
        ...     label_weight=0.5,
        ... )
        >>> inputs = dict(input_ids=torch.tensor([[2, 10, 11, 3]]), attention_mask=torch.ones(1, 4, dtype=torch.long))
        >>> sample = BaseDataElement(gt_label=torch.tensor(1))
        >>> list(model.eval()(inputs, [sample], mode='loss'))
        ['loss_pred', 'loss_q', 'loss_k', 'loss_v', 'loss_label']

    Source: Qin et al. 2022 (BiBERT); Zhang et al. 2020 (TernaryBERT).
    """

    def __init__(
        self, *args: Any, teacher: str, losses: Sequence[Mapping[str, Any]], label_weight: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not losses:
            raise self.teacher_error(
                'losses is empty, so nothing is learned from the teacher. Name a loss, or use '
                "type='rebnn_mm.TextClassifier'."
            )
        self.teacher_source = teacher
        self.losses = self.build_losses(losses, EncoderComparisonLoss)
        self.label_weight = label_weight

    def init_weights(self) -> None:
        """Load the teacher; the runner calls it at the start of training."""
        super().init_weights()
        self.prepare_teacher()

    def prepare_teacher(self) -> TextClassifier:
        """The teacher, loaded by the first call."""
        if self.teacher is None:
            config = read_config(self.teacher_source)
            self._check_same_task(config)
            if getattr(config, SETTINGS, None) is None:
                teacher = TextClassifier(self.teacher_source, num_labels=self.num_labels)
            else:
                teacher = load_pretrained(self.teacher_source)
            self.hold_teacher(teacher)
        return self.teacher

    def loss(self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement]) -> dict[str, Tensor]:
        """The terms of all losses by name; terms of the same name are added."""
        teacher = self.teacher_output(inputs)
        student = self.encode(inputs)
        terms: dict[str, Tensor] = {}
        for loss in self.losses:
            add_terms(terms, loss(student, teacher))
        if self.label_weight and self.num_labels > 1:
            terms['loss_label'] = self.label_weight * self.label_loss(student.logits, data_samples)
        return terms

    @torch.no_grad()
    def teacher_output(self, inputs: Mapping[str, Tensor]) -> EncoderOutput:
        """Run the teacher on a batch."""
        return self.prepare_teacher().eval().encode(inputs)

    def _check_same_task(self, config: Any) -> None:
        where = f'teacher={self.teacher_source!r}'
        if config.num_labels != self.num_labels:
            raise self.teacher_error(
                f'{where} gives {config.num_labels} labels, the student {self.num_labels}. Use a teacher that was '
                'fine-tuned for the same task.'
            )
        ours = self.encoder.config.vocab_size
        if config.vocab_size != ours:
            raise self.teacher_error(
                f'{where} has a vocabulary of {config.vocab_size} tokens, the student one of {ours}; both read the '
                'same tokens. Start the student from the teacher, or from an encoder with its tokenizer.'
            )
