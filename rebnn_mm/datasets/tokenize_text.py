"""From sentences to token numbers."""

from typing import Any

import torch
from mmengine.registry import TRANSFORMS
from mmengine.structures import BaseDataElement

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.text_classifier import INPUTS


@TRANSFORMS.register_module()
class TokenizeText:
    """Tokenises a sentence or a pair with the tokenizer that is next to an encoder.

    The tokenizer is loaded when the first item comes, so every worker of a data loader has its own, and a config can
    be built where there is none. Where a pair is too long, the longer sentence loses its last token first
    (``longest_first``), as BERT's and BiBERT's code has it.

    Args:
        tokenizer: local directory or hub name. Needs transformers.
        max_length: tokens, special ones included.
        pad: whether to fill up to ``max_length``; else :func:`rebnn_mm.datasets.glue_collate` pads a batch to its
            longest item. BiBERT pads all, which counts in its unmasked distillation losses.

    Takes ``text``, ``text_pair`` (if any), ``gt_label``, ``split`` and ``sample_idx``. Gives:

    - ``inputs``: dict of int64 tensors of shape [N], those of ``input_ids``, ``attention_mask`` and
      ``token_type_ids`` that the tokenizer makes;
    - ``padding``: the value that fills each of them, and the side;
    - ``data_samples``: a BaseDataElement with ``gt_label`` (a number, as the data set gives it) and the
      metainfo ``sample_idx`` and ``split``.

    Raises:
        FileNotFoundError: no tokenizer there.

    Example:
        >>> TokenizeText('nowhere/bert', max_length=64)
        TokenizeText(tokenizer='nowhere/bert', max_length=64, pad=False)
    """

    def __init__(self, tokenizer: str, max_length: int, pad: bool = False) -> None:
        self.tokenizer, self.max_length, self.pad = str(tokenizer), max_length, pad
        self._loaded: Any = None

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        if self._loaded is None:
            self._loaded = load_tokenizer(self.tokenizer)
        encoded = self._loaded(
            item['text'],
            item.get('text_pair'),
            truncation='longest_first',
            max_length=self.max_length,
            padding='max_length' if self.pad else False,
        )
        sample = BaseDataElement(metainfo=dict(sample_idx=item['sample_idx'], split=item.get('split', '')))
        # A number and no tensor: it stays on the host, where the model looks at it without waiting for the device.
        sample.gt_label = item['gt_label']
        return dict(
            inputs={name: torch.tensor(encoded[name]) for name in INPUTS if name in encoded},
            padding=dict(
                input_ids=self._loaded.pad_token_id,
                attention_mask=0,
                token_type_ids=self._loaded.pad_token_type_id,
                side=self._loaded.padding_side,
            ),
            data_samples=sample,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, '_loaded': None}

    def __repr__(self) -> str:
        return f'TokenizeText(tokenizer={self.tokenizer!r}, max_length={self.max_length}, pad={self.pad})'


def load_tokenizer(name: str) -> Any:
    """A fast tokenizer from a local directory or the hub."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, use_fast=True)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f'TokenizeText: no tokenizer at {name} ({first_sentence(error)}). Put an encoder with its '
            'tokenizer files there, or set tokenizer to the directory or hub name of one.'
        ) from None
