"""A classifier of texts around any Hugging Face encoder."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement
from torch import Tensor
from torch.nn import functional

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.registry import MODELS

from ...errors import RebnnError, did_you_mean
from ...utils.options import check_options
from ..losses.comparison import at_least_float32
from ..losses.encoder_losses import EncoderOutput
from .attention import install_attention, record_attention, require_transformers
from .convert import binarize as binarize_layers
from .stored_weights import load_quantizer_state

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@MODELS.register_module()
class TextClassifier(BaseModel):
    """An encoder of Hugging Face's transformers with its classifier, made binary, as a model of mmengine.

    The model of transformers is the attribute ``encoder``, unmodified but for the layers that are replaced, so names
    in the state dict are ``encoder.bert.encoder.layer.0...``.

    Args:
        encoder: a local directory with ``config.json`` and weights, or the name of a model on the hub.
        num_labels: number of classes; 1 is a regression.
        pretrained: whether the weights are loaded; False builds the architecture with random ones.
        encoder_options: entries of the encoder's config to change: ``dict(hidden_act='relu', num_hidden_layers=6)``.
        binarize: arguments of :func:`rebnn_mm.models.language.binarize`; None leaves the layers real.
        attention: config of an :class:`rebnn_mm.layers.EncoderAttention`; None is the encoder's own.
        data_preprocessor: as in ``BaseModel``.

    Raises:
        ImportError: transformers is missing or older than 5.0.
        ValueError: there is no such encoder, its classifier has another number of labels, or an option is unknown.

    Example:
        >>> from tempfile import mkdtemp
        >>> from transformers import BertConfig
        >>> folder = mkdtemp()  # of a small BERT without weights; a real one is 'bert-base-uncased'
        >>> sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        >>> BertConfig(vocab_size=100, **sizes).save_pretrained(folder)
        >>> model = TextClassifier(
        ...     folder,
        ...     pretrained=False,
        ...     binarize=dict(
        ...         linear=dict(type='ReBNNLinear', center='row', activation=dict(type='BinarySign', shift=None)),
        ...         word_embedding=dict(type='BinaryEmbedding'),
        ...     ),
        ...     attention=dict(type='BinaryAttention'),
        ... )
        >>> ids = torch.tensor([[2, 10, 11, 3]])
        >>> model(dict(input_ids=ids, attention_mask=torch.ones_like(ids))).shape
        torch.Size([1, 2])
    """

    encoder: 'PreTrainedModel'

    def __init__(
        self,
        encoder: str,
        num_labels: int = 2,
        pretrained: bool = True,
        encoder_options: Mapping[str, Any] = {},
        binarize: Mapping[str, Any] | None = None,
        attention: Mapping[str, Any] | None = None,
        data_preprocessor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data_preprocessor=data_preprocessor)
        if num_labels < 1 or 'num_labels' in encoder_options:
            raise RebnnError(
                f'{type(self).__name__}: num_labels={encoder_options.get("num_labels", num_labels)!r} must be the '
                'number of classes, or 1 for a regression, and be next to encoder_options, not in it'
            )
        self.source = encoder
        self.num_labels = num_labels
        self.conversion = dict(binarize=binarize, attention=attention)
        model = load_encoder(encoder, num_labels, pretrained, encoder_options)
        install_attention(model, attention)
        if binarize is not None:
            check_options('binarize', binarize, partial(binarize_layers, model))
            binarize_layers(model, **binarize)
        if pretrained:
            load_quantizer_state(model, encoder)
        # transformers gives it in eval mode, mmengine expects a new model in training mode.
        self.encoder = model.train()

    def init_weights(self) -> None:
        """Do nothing: the weights are those that the encoder came with.

        The runner calls it before training, and mmengine would go on to call the method of that name which the model
        of transformers has; that one fills replaced layers with random values.
        """

    def forward(
        self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement] | None = None, mode: str = 'tensor'
    ) -> Tensor | dict[str, Tensor] | list[BaseDataElement]:
        """Classify a batch of B texts of up to N tokens.

        Args:
            inputs: what a tokenizer gives: ``input_ids``, ``attention_mask`` and, for some encoders,
                ``token_type_ids``, each (B, N).
            data_samples: one for each text, with ``gt_label``: a whole number, or a real one for a regression.
            mode: ``'tensor'`` for logits (B, num_labels); ``'loss'`` for a dict of losses; ``'predict'`` for the
                samples with ``pred_score``, their logits (num_labels,).
        """
        if mode == 'tensor':
            return self.logits(inputs)
        if data_samples is None:
            raise RebnnError(f'{type(self).__name__}: mode={mode!r} needs data_samples')
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'predict':
            return self.predict(inputs, data_samples)
        raise RebnnError(f"{type(self).__name__}: mode={mode!r} is unknown; use 'tensor', 'loss' or 'predict'")

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Scores before the softmax, or the prediction of a regression, (B, num_labels)."""
        return self.encoder(**inputs).logits

    def encode(self, inputs: Mapping[str, Tensor]) -> EncoderOutput:
        """Logits, hidden states and what every attention saw."""
        with record_attention() as records:
            out = self.encoder(**inputs, output_hidden_states=True)
        return EncoderOutput(out.logits, out.hidden_states, records, inputs['attention_mask'].bool())

    def loss(self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement]) -> dict[str, Tensor]:
        """Cross-entropy with the labels, or the mean squared error of a regression."""
        return dict(loss=self.label_loss(self.logits(inputs), data_samples))

    def label_loss(self, logits: Tensor, data_samples: Sequence[BaseDataElement]) -> Tensor:
        """The loss of logits that were computed before."""
        labels = torch.stack([torch.as_tensor(sample.gt_label) for sample in data_samples])
        # Those on an accelerator are left to cross_entropy, which stops there, too: to look would wait for it.
        largest = int(labels.max()) if labels.is_cpu else 0
        logits, labels = at_least_float32(logits), labels.to(logits.device, non_blocking=True)
        if self.num_labels == 1:
            return functional.mse_loss(logits.flatten(), labels.flatten().to(logits.dtype))
        if labels.is_floating_point() or largest >= self.num_labels:
            what = 'real numbers' if labels.is_floating_point() else f'up to {largest}'
            raise RebnnError(
                f'{type(self).__name__}: num_labels={self.num_labels}, but labels are {what}. Set num_labels to the '
                'number of classes of the data set, or to 1 for a regression.'
            )
        return functional.cross_entropy(logits, labels.flatten())

    @torch.no_grad()
    def predict(self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement]) -> list[BaseDataElement]:
        """The samples, each with ``pred_score``: its logits, (num_labels,)."""
        for sample, scores in zip(data_samples, self.logits(inputs), strict=True):
            sample.set_data(dict(pred_score=scores))
        return list(data_samples)


def load_encoder(
    encoder: str, num_labels: int, pretrained: bool = True, options: Mapping[str, Any] = {}
) -> 'PreTrainedModel':
    """A model of transformers for the classification of sequences, in float32."""
    config = read_config(encoder, num_labels=num_labels, **options)
    from transformers import AutoModelForSequenceClassification

    if not pretrained:
        return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    try:
        return AutoModelForSequenceClassification.from_pretrained(encoder, config=config, dtype=torch.float32)
    except RuntimeError as error:
        if 'mismatch' not in str(error):
            raise
        raise RebnnError(
            f'{encoder}: its weights do not fit num_labels={num_labels} and encoder_options={dict(options)}. It was '
            'fine-tuned for another task: use its number of labels, or start from the encoder without a classifier.'
        ) from error
    except OSError as error:
        raise RebnnError(_explain_not_found(encoder, error)) from error


def read_config(encoder: str, **options: Any) -> Any:
    """The config of an encoder, with some entries changed."""
    require_transformers()
    from transformers import AutoConfig

    _check_directory(encoder)
    try:
        config, unknown = AutoConfig.from_pretrained(encoder, return_unused_kwargs=True, **options)
    except (OSError, ValueError) as error:
        raise RebnnError(_explain_not_found(encoder, error)) from error
    if unknown:
        name = min(unknown)
        what = f'{type(config).__name__} has no entry {name!r}.'
        raise RebnnError(what, 'encoder_options', did_you_mean(name, config.to_dict()))
    return config


def _check_directory(encoder: str) -> None:
    if os.path.isdir(encoder):
        if not os.path.isfile(os.path.join(encoder, 'config.json')):
            raise RebnnError(
                f'encoder={encoder!r}: there is no config.json in this directory. Give the directory that '
                'save_pretrained has written, or the name of a model on the hub.'
            )
    elif os.path.isabs(encoder) or encoder.startswith('.') or encoder.count('/') > 1:
        raise RebnnError(f'encoder={encoder!r}: there is no such directory.')


def _explain_not_found(encoder: str, error: Exception) -> str:
    return (
        f'encoder={encoder!r} is not a local directory, and could not be read from the hub. Without a network give '
        f'the path of a directory with config.json and weights. ({first_sentence(error)})'
    )
