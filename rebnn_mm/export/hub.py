"""Checkpoints of image models on the Hugging Face hub: weights, and what of the config makes the network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from torch import nn

from rebnn_mm.deploy.hub import card_text, check_card
from rebnn_mm.deploy.whole_file import whole_file

from ..errors import RebnnError
from .preprocess import test_dataset
from .source import load_source

TUPLE = 'tuple'
SCOPES = ('mmengine', 'mmcv', 'mmdet', 'mmpretrain', 'rebnn_mm')
PARTS = ('default_scope', 'model', 'test_dataloader')
"""Parts of a config that are shared; of the data only how a test image is prepared."""

STARTS = ('init_cfg', 'pretrained')
"""Options of a part that say where its first weights come from."""

STUDENTS = {'TeacherStudentDetector': None, 'TeacherStudentClassifier': 'ImageClassifier'}
"""Models that learn from another one, and what each is without it; None for what ``student`` says."""

TEACHING = (
    'student', 'teacher', 'teacher_checkpoint', 'teacher_loss', 'label_weight', 'losses', 'start_from_teacher',
)  # fmt: skip
"""Further options of those."""

FETCHING = ('trust_remote_code', 'teacher_ckpt', 'tokenizer_path', 'prototype', 'vision_encoder_weight')
"""Options by which classes of mmdet and mmpretrain read code or pickles while they are built."""


def to_json(value: Any) -> Any:
    """A part of a config in the types of JSON, of which tuples are none.

    Example:
        >>> to_json({'scale': (4, 8)})
        {'scale': {'tuple': [4, 8]}}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return {TUPLE: [to_json(item) for item in value]}
    return [to_json(item) for item in value] if isinstance(value, list) else value


def from_json(value: Any) -> Any:
    """Invert :func:`to_json`.

    Example:
        >>> from_json({'scale': {'tuple': [4, 8]}})
        {'scale': (4, 8)}
    """
    if isinstance(value, Mapping):
        if set(value) == {TUPLE}:
            return tuple(from_json(item) for item in value[TUPLE])
        return {key: from_json(item) for key, item in value.items()}
    return [from_json(item) for item in value] if isinstance(value, list) else value


class HubModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name='rebnn_mm',
    coders={Config: (lambda cfg: to_json(cfg.to_dict()), lambda value: Config(from_json(value)))},
):
    """A trained detector or classifier with ``save_pretrained``, ``push_to_hub`` and ``from_pretrained``.

    The folder has ``config.json``, ``model.safetensors`` and ``README.md``, and reading it runs no code of whoever
    wrote it: a config names registered classes only.

    Args:
        network: config with a ``model``, of which :func:`keep_parts` is kept.
        classes: names, by label.
        about: what the card says, by the keys of the zoo's cards (docs/zoo.md).

    Raises:
        ValueError: the config names a class by its module, or a file, an address or code that a class would read.

    Example:
        >>> from mmengine.config import Config
        >>> model = HubModel(Config(dict(model=dict(type='BinaryVGGSmall'))))
        >>> type(model.model).__name__
        'BinaryVGGSmall'
    """

    def __init__(self, network: Config, classes: Sequence[str] = (), about: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        network = keep_parts(network)
        for key, value in _entries(network.to_dict()):
            if key in ('type', 'real') and not _is_registered(value):
                raise RebnnError(
                    f'the config names {value!r}, which is not a registered class; such a model is not built.'
                )
        for key, value in _entries(network.model.to_dict()):
            if key in FETCHING or (isinstance(value, str) and re.search(r'[/\\:(]', value)):
                raise RebnnError(
                    f'the config has {key}={value!r}: a model that reads anything else while it is built is not built.'
                )
        self.cfg, self.classes, self.about = network, list(classes), dict(about or {})
        init_default_scope(network.get('default_scope') or 'mmengine')
        self.model = MODELS.build(network.model)

    @classmethod
    def from_checkpoint(cls, config: str, checkpoint: str, about: Mapping[str, Any] | None = None) -> 'HubModel':
        """The model of a config and its checkpoint.

        Raises:
            ValueError: a file does not exist or does not fit, or the model takes texts; one sentence says which.
        """
        check_card(about or {})
        source = load_source(config, checkpoint)
        if source.tokenizer is not None:
            raise RebnnError('the model takes texts: rebnn_mm.models.language.save_pretrained writes it.')
        made = cls(
            keep_parts(Config.fromfile(config)), list(source.classes), {'config': Path(config).name, **(about or {})}
        )
        made.model.load_state_dict(source.model.state_dict())
        return made.eval()

    @classmethod
    def _from_pretrained(cls, *, strict: bool = True, **options: Any) -> Any:
        return super()._from_pretrained(strict=strict, **options)

    def forward(self, *args: Any, **options: Any) -> Any:
        """Run the model."""
        return self.model(*args, **options)

    def write_checkpoint(self, path: str | Path) -> None:
        """Write a checkpoint for the tools: ``rebnn detect`` reads its config from it, ``load_from`` its weights."""
        meta = dict(dataset_meta=dict(classes=self.classes), cfg=self.cfg.pretty_text)
        with whole_file(path) as part:
            torch.save(dict(meta=meta, state_dict=self.model.state_dict()), part)

    def generate_model_card(self, *args: Any, **about: Any) -> ModelCard:
        """The card, with what :func:`save_pretrained` gets as ``model_card_kwargs`` in place of ``about``."""
        card = {**self.about, **about}
        check_card(card)
        detects = self.cfg.get('default_scope') == 'mmdet'
        use = ['```python', 'from rebnn_mm.export.hub import HubModel', '']
        use += ["HubModel.from_pretrained('OWNER/NAME').write_checkpoint('model.pth')", '```']
        use += ['', '```shell', 'rebnn detect photo.jpg model.pth', '```'] if detects else []
        intro = 'A checkpoint of a network with one bit for a weight and an input, to train on, score or pack.'
        tags = ['pytorch', *(self._hub_mixin_info.model_card_data.tags or [])]
        return ModelCard(card_text(intro, use, 'detection' if detects else 'classification', self.classes, card, tags))


def keep_parts(cfg: Config) -> Config:
    """Keep the parts of a config that say what a network is and how it is fed: no paths, no schedule, no teacher.

    Example:
        >>> keep_parts(Config(dict(model=dict(type='A', init_cfg=dict(type='Pretrained')), work_dir='/me')))
        Config (path: None): {'model': {'type': 'A'}}
    """
    parts = {key: cfg[key] for key in PARTS[:2] if cfg.get(key) is not None}
    if 'model' in parts:
        parts['model'] = _drop_teacher(parts['model'])
    data = test_dataset(cfg)
    kept_data = {key: data[key] for key in ('type', 'metainfo', 'pipeline') if key in data}
    return Config({**parts, **({PARTS[2]: dict(dataset=kept_data)} if kept_data else {})})


def _drop_teacher(value: Any) -> Any:
    """Copy a part of a config without teachers and first weights."""
    if isinstance(value, Mapping):
        value = {key: item for key, item in value.items() if key not in STARTS}
        for key in ('type', 'real'):
            name = str(value.get(key)).rpartition('.')[2]
            if name in STUDENTS:
                own = STUDENTS[name] or value['student']
                value = {name: item for name, item in value.items() if name not in TEACHING} | {key: own}
        return {key: _drop_teacher(item) for key, item in value.items()}
    return type(value)(map(_drop_teacher, value)) if isinstance(value, list | tuple) else value


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key in a config with its value; what is in a list has the list's key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            inner = item if isinstance(item, list | tuple) else [item]
            yield from ((key, part) for part in inner)
            yield from (entry for part in inner for entry in _entries(part))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _entries(item)


def _is_registered(kind: Any) -> bool:
    scope, _, name = str(kind).rpartition('.')
    return isinstance(kind, str) and re.fullmatch(r'\w+', name) is not None and scope in ('', *SCOPES)
