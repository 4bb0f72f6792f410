"""How a packed text classifier's texts become tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any

from .errors import ModelFileError, parse_json

MAX_BYTES = 64 << 20
"""No tokenizer is larger; a few bytes of zlib can claim to be any number."""

MOST_TOKENS = 1 << 20
MOST_IDS = (1 << 31) - 1

PARTS = {
    'normalizer': {
        *('BertNormalizer', 'Lowercase', 'NFC', 'NFD', 'NFKC', 'NFKD', 'Strip', 'StripAccents'),
        'Sequence',
    },
    'pre_tokenizer': {
        *('BertPreTokenizer', 'ByteLevel', 'Digits', 'Metaspace', 'Punctuation', 'Whitespace', 'WhitespaceSplit'),
        'Sequence',
    },
    'model': {'BPE', 'Unigram', 'WordLevel', 'WordPiece'},
    'post_processor': {'BertProcessing', 'ByteLevel', 'RobertaProcessing', 'Sequence', 'TemplateProcessing'},
}
"""Kinds of parts that a tokenizer may have: those of BERT and its like. ``Replace`` and ``Prepend`` in a row make a
text longer by any factor, and run out of memory where nothing can be caught."""

MOST_PARTS = 8
"""In a sequence."""


@dataclass(frozen=True)
class Tokenizer:
    """The object ``rebnn.tokenizer`` of docs/format.md."""

    max_length: int  # longest text in tokens, special ones included
    pad_id: int  # what fills up the shorter texts of a batch
    json: str  # a tokenizer.json of Hugging Face's tokenizers; empty if the file holds none

    @classmethod
    def parse(cls, text: str) -> Tokenizer:
        """Check the entry of a model's metadata."""
        values = parse_json(text, dict, 'rebnn.tokenizer')
        for key, fallback, least, most in (('max_length', 0, 1, MOST_TOKENS), ('pad_id', 0, 0, MOST_IDS)):
            value = values.get(key, fallback)
            if type(value) is not int or not least <= value <= most:
                raise ModelFileError(f'rebnn.tokenizer: {key} must be a whole number from {least} to {most}')
        return cls(values['max_length'], values.get('pad_id', 0), _unpack_json(values))


def _unpack_json(values: dict[str, Any]) -> str:
    packed = values.get('json')
    if packed is None:
        return ''
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(packed, validate=True), MAX_BYTES)
        if not inflate.eof:
            raise ModelFileError(f'rebnn.tokenizer: json is cut, or longer than {MAX_BYTES >> 20} MiB')
        if hashlib.sha256(data).hexdigest() != values.get('sha256'):
            raise ModelFileError('rebnn.tokenizer: json is damaged: its SHA-256 is not that of the metadata')
        return _check_parts(data.decode())
    except (TypeError, ValueError, binascii.Error, zlib.error) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f'rebnn.tokenizer: json is not zlib in base64 ({error})') from None


def _check_parts(text: str) -> str:
    """Check the parts of a ``tokenizer.json``, and leave out its decoder, which nothing here calls."""
    values = parse_json(text, dict, 'rebnn.tokenizer: json')
    for place, known in PARTS.items():
        part = values.get(place)
        parts = [] if part is None and place != 'model' else [part]
        if isinstance(part, dict) and part.get('type') == 'Sequence':
            # by the name of the kind: normalizers, pretokenizers, processors
            inner = [value for key, value in part.items() if key != 'type']
            parts = inner[0] if len(inner) == 1 and isinstance(inner[0], list) else [None]
            if len(parts) > MOST_PARTS or any(
                isinstance(one, dict) and one.get('type') == 'Sequence' for one in parts
            ):
                raise ModelFileError(f'rebnn.tokenizer: its {place} has too many parts, or parts with parts')
        for one in parts:
            kind = one.get('type') if isinstance(one, dict) else None
            if kind not in known:
                raise ModelFileError(
                    f'rebnn.tokenizer: its {place} is of the kind {str(kind)[:60]!r}, which is not run'
                )
    return json.dumps({**values, 'decoder': None})
