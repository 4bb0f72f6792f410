"""How a packed text classifier's texts become tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from .errors import ModelFileError
from .json_value import parse_json

MAX_BYTES = 64 << 20
"""No tokenizer is larger; a few bytes of zlib can claim to be any number."""


@dataclass(frozen=True)
class Tokenizer:
    """The object ``rebnn.tokenizer`` of docs/format.md.

    Attributes:
        max_length: longest text in tokens, special ones included.
        pad_id: what fills up the shorter texts of a batch.
        json: a ``tokenizer.json`` of Hugging Face's tokenizers; empty if the file holds none.

    Example:
        >>> Tokenizer.parse('{"max_length": 64}')
        Tokenizer(max_length=64, pad_id=0, json='')
    """

    max_length: int
    pad_id: int
    json: str

    @classmethod
    def parse(cls, text: str) -> Tokenizer:
        """Check the entry of a model's metadata.

        Raises:
            ModelFileError: a key is missing or has a value that the format does not allow.
        """
        values = parse_json(text, dict, 'rebnn.tokenizer')
        for key, fallback, least in (('max_length', 0, 1), ('pad_id', 0, 0)):
            value = values.get(key, fallback)
            if type(value) is not int or value < least:
                raise ModelFileError(f'rebnn.tokenizer: {key} must be a whole number from {least} on')
        return cls(values['max_length'], values.get('pad_id', 0), _unpacked(values))


def _unpacked(values: dict[str, Any]) -> str:
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
        return data.decode()
    except (TypeError, ValueError, binascii.Error, zlib.error) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f'rebnn.tokenizer: json is no zlib in base64 ({error})') from None
