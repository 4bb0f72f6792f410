"""A trained text classifier with what its config says about tokens and classes."""

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config
from torch import nn

from .text import Text, input_names, longest_text


class TextSource(NamedTuple):
    """What the export of a text classifier starts from.

    Attributes:
        model: the trained model, on the CPU.
        config: file name of the config.
        tokenizer: the object ``rebnn.tokenizer`` of docs/format.md.
        classes: class names; empty for a regression, and if nobody knows them.
        texts: given sentences, as the network takes them.
    """

    model: nn.Module
    config: str
    tokenizer: dict[str, Any]
    classes: list[str]
    texts: list[Text]


def text_source(model: Any, config: str, cfg: Config, classes: Sequence[str], sentences: Sequence[str]) -> TextSource:
    """Read from a config how texts become tokens.

    Args:
        model: the trained classifier.
        config: file name of the config.
        cfg: its content.
        classes: class names.
        sentences: what to verify on.

    Raises:
        FileNotFoundError: the tokenizer is not where the config says.
    """
    from rebnn_mm.datasets.transforms.tokenize_text import load_tokenizer

    step = next((step for step in _steps(cfg) if str(step.get('type')).rpartition('.')[2] == 'TokenizeText'), {})
    loaded = load_tokenizer(str(step.get('tokenizer') or model.source))
    longest = min(int(step.get('max_length') or longest_text(model)), longest_text(model))
    text = plain_tokenizer(loaded.backend_tokenizer)
    return TextSource(
        model=model,
        config=config,
        tokenizer={
            'max_length': longest,
            'pad_id': int(loaded.pad_token_id or 0),
            'sha256': hashlib.sha256(text.encode()).hexdigest(),
            'json': base64.b64encode(zlib.compress(text.encode(), 9)).decode(),
        },
        classes=list(classes) if model.num_labels > 1 else [],
        texts=[_tokens(loaded, sentence, longest, input_names(model)) for sentence in sentences],
    )


def plain_tokenizer(tokenizer: Any) -> str:
    """A tokenizer of Hugging Face's tokenizers as JSON, without padding and truncation."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    return copy.to_str()


def _steps(cfg: Config) -> Iterator[Mapping[str, Any]]:
    dataset = (cfg.get('test_dataloader') or {}).get('dataset') or {}
    while 'pipeline' not in dataset and ('dataset' in dataset or dataset.get('datasets')):
        dataset = dataset['dataset'] if 'dataset' in dataset else dataset['datasets'][0]
    yield from dataset.get('pipeline') or ()


def _tokens(tokenizer: Any, sentence: str, longest: int, names: Sequence[str]) -> Text:
    first, _, second = sentence.partition('\t')
    encoded = tokenizer(first, second or None, truncation='longest_first', max_length=longest)
    return Text({name: np.array([encoded[name]], np.int64) for name in names})
