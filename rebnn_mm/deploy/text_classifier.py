"""Packed classifiers of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnxruntime

from .classifier import Label, rank_labels
from .errors import TextError, first_sentence
from .metadata import Metadata
from .model import LoadedModel
from .tokenizer import Tokenizer

INPUTS = ('input_ids', 'attention_mask', 'token_type_ids')

Text = str | tuple[str, str]
"""A text, or a pair of them."""


class TextClassifier(LoadedModel):
    """Gives the likeliest classes of a text, or the number that a regression gives.

    Token numbers are enough to run it. To make them from text it needs the tokenizer that the file holds, and the
    package ``tokenizers``.

    Example::

        model = load('sst2.onnx')
        model('a gorgeous, witty, seductive movie')         # [Label(number=1, name='1', score=0.97), ...]
        model.logits({'input_ids': np.array([[101, 1037, 9882, 102]])})     # array of shape (1, 2)
    """

    outputs = ('logits',)

    def __init__(self, name: str, metadata: Metadata, session: onnxruntime.InferenceSession) -> None:
        names = {entry.name for entry in session.get_inputs()}
        self.inputs = INPUTS if 'token_type_ids' in names else INPUTS[:2]
        self.input_types = dict.fromkeys(INPUTS, 'tensor(int64)')
        super().__init__(name, metadata, session)

    @property
    def tokenizer(self) -> Tokenizer:
        """How a text becomes tokens."""
        assert self.metadata.tokenizer is not None
        return self.metadata.tokenizer

    def __call__(self, text: Text, top: int = 5) -> list[Label]:
        """The ``top`` classes of the highest probability, the highest first; of equal ones that with the lower number.

        A regression gives one label, whose score is the number.

        Args:
            text: one text, or two of which the model says something together.
            top: how many; all if there are fewer.

        Raises:
            DeployError: the text cannot be made into tokens, or the file is not as it should be.
        """
        return rank_labels(self, self.scores(self.tokens([text]))[0], top)

    def tokens(self, texts: Sequence[Text]) -> dict[str, np.ndarray]:
        """The graph's inputs for some texts, filled up to the longest of them."""
        for text in texts:
            self._check_text(text)
        tokenizer = self._loaded_tokenizer
        try:
            encoded = tokenizer.encode_batch(list(texts))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the package is not an Exception
            raise self.wrong(f'its tokenizer stops at the text ({first_sentence(error)})') from None
        parts = {'input_ids': 'ids', 'attention_mask': 'attention_mask', 'token_type_ids': 'type_ids'}
        return {
            name: np.array([getattr(one, parts[name]) for one in encoded], np.int64).reshape(len(encoded), -1)
            for name in self.inputs
        }

    def _check_text(self, text: Any) -> None:
        parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
        if not all(isinstance(part, str) for part in parts):
            what = f'a {type(text).__name__}' + (f' of {len(text)}' if isinstance(text, list | tuple) else '')
            raise TextError(
                f'{self.name}: it takes one text, or a pair as a tuple of two, not {what}; for several texts give '
                'tokens(texts) to scores()'
            )
        try:
            ''.join(parts).encode()
        except UnicodeEncodeError as error:
            raise TextError(f'{self.name}: character {error.start + 1} of the text is not Unicode') from None

    def scores(self, tokens: Mapping[str, np.ndarray]) -> np.ndarray:
        """The probability of every class, float32 [texts, classes]; of a regression its number, [texts, 1]."""
        logits = self.logits(tokens)
        if logits.shape[1] == 1:
            return logits
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def logits(self, tokens: Mapping[str, np.ndarray]) -> np.ndarray:
        """Scores before the softmax, float32 [texts, classes].

        Args:
            tokens: integers [texts, length]: ``input_ids``; ``attention_mask``, 0 for padding, without which there is
                none; and ``token_type_ids``, without which all are 0.

        Raises:
            TextError: an array has another shape, no whole numbers, or more tokens than the model takes.
            ModelFileError: ONNX Runtime cannot run the graph on these tokens.
        """
        feed = self._check_tokens(tokens)
        try:
            (logits,) = self.session.run(list(self.outputs), feed)
        except Exception as error:  # its classes have no common base below Exception
            texts, length = feed['input_ids'].shape
            raise self.wrong(
                f'ONNX Runtime stops at {texts} texts of {length} tokens ({first_sentence(error)})'
            ) from None
        return self.check_numbers(logits, len(feed['input_ids']))

    def _check_tokens(self, tokens: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        unknown = sorted(set(tokens) - set(INPUTS))
        if unknown or 'input_ids' not in tokens:
            problem = f'{unknown[0]!r} is none of them' if unknown else 'input_ids are missing'
            raise TextError(f'{self.name}: tokens are {", ".join(self.inputs)}; {problem}')
        ids = np.asarray(tokens['input_ids'])
        defaults = {'attention_mask': np.ones_like, 'token_type_ids': np.zeros_like}
        feed = {}
        for name in self.inputs:
            values = np.asarray(tokens[name] if name in tokens else defaults[name](ids))
            if values.ndim != 2 or values.shape != ids.shape or 0 in values.shape:
                raise TextError(f'{self.name}: {name} must be [texts, length], and is {list(values.shape)}')
            if not np.issubdtype(values.dtype, np.integer):
                raise TextError(f'{self.name}: {name} must be whole numbers, and is {values.dtype}')
            feed[name] = values.astype(np.int64)
        if ids.shape[1] > self.tokenizer.max_length:
            raise TextError(
                f'{self.name}: {ids.shape[1]} tokens are more than the {self.tokenizer.max_length} that it takes; '
                'shorten the text'
            )
        return feed

    @cached_property
    def _loaded_tokenizer(self) -> Any:
        if not self.tokenizer.json:
            raise TextError(f'{self.name} holds no tokenizer; give token numbers to logits() or scores() instead')
        try:
            import tokenizers
        except ImportError:
            raise TextError(
                f'{self.name}: to read texts it needs the package tokenizers (pip install tokenizers); token numbers '
                'go into logits() or scores() without it'
            ) from None
        try:
            loaded = tokenizers.Tokenizer.from_str(self.tokenizer.json)
            loaded.enable_truncation(self.tokenizer.max_length, strategy='longest_first')
            loaded.enable_padding(pad_id=self.tokenizer.pad_id)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the package is not an Exception
            raise self.wrong(f'its tokenizer cannot be read ({first_sentence(error)})') from None
        return loaded
