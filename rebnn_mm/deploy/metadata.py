"""The metadata of a packed model, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import ModelFileError, clean_text, parse_json
from .preprocess import Preprocess
from .tokenizer import Tokenizer

FORMAT = '1'
"""The version of the packed format (docs/format.md) that is read here."""

TASKS = ('classification', 'detection', 'text-classification', 'raw')
SIGN = 'negative is bit 1'
LAYOUTS = ('', 'blocked')


@dataclass(frozen=True)
class Metadata:
    """The entries of docs/format.md, section "Metadata"."""

    task: str  # 'classification', 'detection', 'text-classification' or 'raw'
    preprocess: Preprocess | None  # the steps from an image to the network's input; None for texts
    tokenizer: Tokenizer | None  # how a text becomes tokens; None for images
    classes: tuple[str, ...]  # names, by label
    outputs: tuple[str, ...]  # names of the graph's outputs (task 'raw')
    packed_sha256: Mapping[str, str]  # SHA-256 of each packed weight in hexadecimal, by name
    producer: str  # what wrote the file
    config: str  # file name of the training config
    blocked: bool = False  # whether ONNX Runtime may lay full-precision maps out in blocks, and round otherwise

    @classmethod
    def parse(cls, entries: Mapping[str, str]) -> Metadata:
        """Check the entries of a model's ``metadata_props``."""
        if 'rebnn.format' not in entries:
            raise ModelFileError(
                'it is not a packed model: its metadata has no rebnn.format (write one with rebnn export)'
            )
        if entries['rebnn.format'] != FORMAT:
            raise ModelFileError(
                f'it has format version {entries["rebnn.format"][:20]!r} and this rebnn_mm reads version {FORMAT}: '
                f'install the rebnn_mm that wrote it, or export the model again'
            )
        task = entries.get('rebnn.task')
        is_text = task == 'text-classification'
        prepared = 'rebnn.tokenizer' if is_text else 'rebnn.preprocess'
        required = ['rebnn.task', prepared, 'rebnn.sign', 'rebnn.packed_sha256']
        required += ['rebnn.outputs'] if task == 'raw' else ['rebnn.classes']
        missing = [key for key in required if key not in entries]
        if missing:
            raise ModelFileError(f'its metadata has no {missing[0]}')
        if task not in TASKS:
            raise ModelFileError(f'its rebnn.task is {str(task)[:60]!r}, not one of {", ".join(TASKS)}')
        if entries['rebnn.sign'] != SIGN:
            raise ModelFileError(f'its rebnn.sign is {entries["rebnn.sign"][:60]!r}, not {SIGN!r}')
        layout = entries.get('rebnn.real_layout', '')
        if layout not in LAYOUTS:
            raise ModelFileError(f'its rebnn.real_layout is {layout[:60]!r}, not {LAYOUTS[1]!r}')
        outputs = _texts(entries.get('rebnn.outputs', '[]'), 'rebnn.outputs')
        if task == 'raw' and not outputs:
            raise ModelFileError('rebnn.outputs must name at least one output')
        if not all(re.fullmatch(r'[\w.-]+', name) for name in outputs):
            # they become names of files in what rebnn run --out writes
            raise ModelFileError('rebnn.outputs must name outputs by letters, digits and . _ - alone')
        return cls(
            task=task,
            preprocess=None if is_text else Preprocess.parse(entries['rebnn.preprocess']),
            tokenizer=Tokenizer.parse(entries['rebnn.tokenizer']) if is_text else None,
            classes=tuple(map(clean_text, _texts(entries.get('rebnn.classes', '[]'), 'rebnn.classes'))),
            outputs=outputs,
            packed_sha256=_digests(entries['rebnn.packed_sha256']),
            producer=clean_text(entries.get('rebnn.producer', '')),
            config=clean_text(entries.get('rebnn.config', '')),
            blocked=layout == LAYOUTS[1],
        )


def _texts(text: str, key: str) -> tuple[str, ...]:
    values = parse_json(text, list, key)
    if not all(isinstance(value, str) for value in values):
        raise ModelFileError(f'{key} must be a JSON list of texts')
    return tuple(values)


def _digests(text: str) -> Mapping[str, str]:
    values = parse_json(text, dict, 'rebnn.packed_sha256')
    if not all(isinstance(value, str) and re.fullmatch('[0-9a-fA-F]{64}', value) for value in values.values()):
        raise ModelFileError('rebnn.packed_sha256 must give 64 hexadecimal digits for each packed weight')
    return values
