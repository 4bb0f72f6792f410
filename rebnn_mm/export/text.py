"""A text classifier as one module: from tokens to logits."""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from .trace import trace

INPUTS = ('input_ids', 'attention_mask', 'token_type_ids')


class Text(NamedTuple):
    """Texts as the network takes them.

    Attributes:
        inputs: int64 (N, L) each: ``input_ids``, ``attention_mask`` and, where the encoder has them,
            ``token_type_ids``.
    """

    inputs: Mapping[str, np.ndarray]


class TextLogits(nn.Module):
    """The logits of a :class:`rebnn_mm.models.language.TextClassifier`, with tokens as arguments.

    A teacher is left out. The padding mask is handed over in the form in which attention takes it, so that no code of
    transformers that makes masks is part of the graph.

    Args:
        model: the classifier; the parts keep their names.

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
    """Whether a model is a :class:`rebnn_mm.models.language.TextClassifier`.

    Example:
        >>> is_text_classifier(nn.Linear(2, 2))
        False
    """
    from rebnn_mm.models.language.text_classifier import TextClassifier

    return isinstance(model, TextClassifier)


def unsupported_encoder(model: Any) -> str:
    """Why the encoder of a text classifier cannot be exported; empty if it can."""
    config = model.encoder.config
    kinds = {kind for kind in getattr(config, 'layer_types', None) or () if kind != 'full_attention'}
    if kinds:
        return (
            f'{type(model.encoder).__name__} has layers of {min(kinds)}, where a token sees its neighbours only; the '
            'packed format has attention to the whole text. Export an encoder such as BERT, RoBERTa, DistilBERT or '
            'ELECTRA.'
        )
    return ''


def input_names(model: Any) -> list[str]:
    """Names of the inputs that a text classifier takes."""
    encoder = model.encoder
    types = 'token_type_ids' in inspect.signature(encoder.forward).parameters
    return list(INPUTS) if types and getattr(encoder.config, 'type_vocab_size', 0) > 1 else list(INPUTS[:2])


def longest_text(model: Any) -> int:
    """How many tokens a text may have.

    RoBERTa's positions begin behind the number of its padding token.
    """
    config = model.encoder.config
    positions = int(getattr(config, 'max_position_embeddings', 512))
    offset = config.pad_token_id + 1 if config.model_type in ('roberta', 'xlm-roberta', 'camembert') else 0
    return positions - offset


def random_texts(model: Any, lengths: tuple[int, ...] = (64, 17, 5), count: int = 2) -> list[Text]:
    """Batches of random tokens, always the same ones, the shorter texts filled with padding."""
    config = model.encoder.config
    longest = min(max(lengths), longest_text(model))
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(count):
        mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
        ids = np.where(mask, rng.integers(0, config.vocab_size, mask.shape), config.pad_token_id or 0)
        types = mask * (np.arange(longest) >= longest // 2)
        inputs = {'input_ids': ids, 'attention_mask': mask, 'token_type_ids': types}
        texts.append(Text({name: inputs[name] for name in input_names(model)}))
    return texts


def text_graph(model: Any) -> onnx.ModelProto:
    """The graph of a text classifier: tokens to ``logits``, of any number of texts and any length.

    Args:
        model: in eval mode, as a rule packed by :func:`rebnn_mm.export.pack`.

    Raises:
        ValueError: the encoder is not supported or cannot be traced; the message says why.
    """
    problem = unsupported_encoder(model)
    if problem:
        raise ValueError(problem)
    names = input_names(model)
    length = min(8, longest_text(model))
    example = {name: torch.ones(2, length, dtype=torch.int64) for name in names}
    return trace(TextLogits(model), example, ['logits'], {name: [0, 1] for name in names})


@torch.no_grad()
def text_logits(model: Any, text: Text) -> np.ndarray:
    """What PyTorch gives, by the classifier's own forward pass."""
    return model({name: torch.from_numpy(values) for name, values in text.inputs.items()}).numpy()
