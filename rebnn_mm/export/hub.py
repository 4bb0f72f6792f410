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

from .source import load_source

TUPLE = 'tuple'
SCOPES = ('mmengine', 'mmcv', 'mmdet', 'mmpretrain', 'rebnn_mm')
PARTS = ('default_scope', 'model', 'test_dataloader')
"""What of a config goes along; of the data only how a test image is prepared."""


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
    """What :func:`to_json` was given.

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
        network: config with a ``model``; only :data:`PARTS` are kept.
        classes: names, by label.
        about: what the card says, by the keys of the zoo's cards (docs/zoo.md).

    Raises:
        ValueError: the config names a class by its module.

    Example:
        >>> from mmengine.config import Config
        >>> model = HubModel(Config(dict(model=dict(type='BinaryVGGSmall'))))
        >>> type(model.model).__name__
        'BinaryVGGSmall'
    """

    def __init__(self, network: Config, classes: Sequence[str] = (), about: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        strange = next((kind for kind in _types(network.to_dict()) if not _registered(kind)), None)
        if strange is not None:
            raise ValueError(f'the config names {strange!r}, which is no registered class; such a model is not built.')
        self.cfg, self.classes, self.about = network, list(classes), dict(about or {})
        init_default_scope(network.get('default_scope') or 'mmengine')
        self.model = MODELS.build(network.model)

    @classmethod
    def from_checkpoint(cls, config: str, checkpoint: str, about: Mapping[str, Any] | None = None) -> 'HubModel':
        """The model of a config and its checkpoint.

        Args:
            config: a config file of mmdet or mmpretrain.
            checkpoint: its weights.
            about: as for the class.

        Raises:
            ValueError: a file does not exist or does not fit, or the model takes texts; one sentence says which.
        """
        check_card(about or {})
        source = load_source(config, checkpoint)
        if source.tokenizer is not None:
            raise ValueError('the model takes texts: rebnn_mm.models.language.save_pretrained writes it.')
        made = cls(kept(Config.fromfile(config)), list(source.classes), {'config': Path(config).name, **(about or {})})
        made.model.load_state_dict(source.model.state_dict())
        return made.eval()

    @classmethod
    def _from_pretrained(cls, *, strict: bool = True, **options: Any) -> Any:
        return super()._from_pretrained(strict=strict, **options)

    def forward(self, *args: Any, **options: Any) -> Any:
        """What the model gives."""
        return self.model(*args, **options)

    def write_checkpoint(self, path: str | Path) -> None:
        """Write a checkpoint for the tools: ``rebnn detect`` reads its config from it, ``load_from`` its weights."""
        meta = dict(dataset_meta=dict(classes=self.classes), cfg=self.cfg.pretty_text)
        torch.save(dict(meta=meta, state_dict=self.model.state_dict()), path)

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


def kept(cfg: Config) -> Config:
    """The parts of a config that say what a network is and how it is fed: no paths, no schedule."""
    parts = {key: cfg[key] for key in PARTS[:2] if cfg.get(key) is not None}
    data = (cfg.get('test_dataloader') or {}).get('dataset') or {}
    while 'pipeline' not in data and 'dataset' in data:
        data = data['dataset']
    kept_data = {key: data[key] for key in ('type', 'metainfo', 'pipeline') if key in data}
    return Config({**parts, **({PARTS[2]: dict(dataset=kept_data)} if kept_data else {})})


def _types(value: Any) -> Iterator[Any]:
    """Every ``type`` in a config, and whatever else is built by it."""
    if isinstance(value, Mapping):
        yield from (value[key] for key in ('type', 'real') if key in value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _types(item)


def _registered(kind: Any) -> bool:
    scope, _, name = str(kind).rpartition('.')
    return isinstance(kind, str) and re.fullmatch(r'\w+', name) is not None and scope in ('', *SCOPES)
