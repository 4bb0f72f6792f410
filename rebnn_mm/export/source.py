"""A trained model with what its config and its checkpoint say about images and classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from mmengine.runner import load_checkpoint
from torch import nn

from rebnn_mm.utils.checkpoint_check import mismatched_checkpoint, missing_checkpoint
from rebnn_mm.utils.config_file import missing_config
from rebnn_mm.utils.config_mistake import explained, misspelt_key

from .exporter import prepared
from .metadata import class_names
from .preprocess import preprocessing, test_pipeline
from .text import is_text_classifier
from .text_source import TextSource, text_source
from .verify import Image

SIZE = (224, 224)
"""Height and width of an example image where neither pipeline nor data set gives one."""

ARRAY_SIZE = (32, 32)
"""The same where the data set holds its images as arrays: CIFAR's."""


class Source(NamedTuple):
    """What an export starts from.

    Attributes:
        model: the trained model, on the CPU.
        config: file name of the config.
        preprocess: the object ``rebnn.preprocess`` of docs/format.md.
        notes: what that object cannot say, one sentence each.
        classes: class names; empty if nobody knows them.
        size: height and width of an image that the model takes.
        images: given images, as the network takes them.
    """

    model: nn.Module
    config: str
    preprocess: dict[str, Any]
    notes: list[str]
    classes: list[str]
    size: tuple[int, int]
    images: list[Image]


def load_source(
    config: str,
    checkpoint: str,
    *,
    options: dict[str, Any] | None = None,
    images: Sequence[str] = (),
    texts: Sequence[str] = (),
    size: tuple[int, int] | None = None,
) -> Source | TextSource:
    """Build the model of a config, fill it from a checkpoint, and read how its images or texts are prepared.

    Args:
        config: a config file of mmdet, mmpretrain or GLUE.
        checkpoint: its weights.
        options: entries that replace those of the config.
        images: image files to verify on.
        texts: sentences to verify on, for a model that takes texts; a tab parts the two sentences of a pair.
        size: height and width of an image that the model takes; None to find it in the test pipeline.

    Raises:
        ValueError: a file does not exist or does not fit; one sentence says which.
    """
    problem = missing_config(config) or missing_checkpoint(checkpoint)
    if problem:
        raise ValueError(problem)
    cfg = Config.fromfile(config)
    problem = misspelt_key(cfg, options or {})
    if problem:
        raise ValueError(problem)
    cfg.merge_from_dict(options or {})
    init_default_scope(cfg.get('default_scope') or 'mmengine')
    with explained(cfg):
        model = MODELS.build(cfg.model)
        problem = mismatched_checkpoint(model, checkpoint)
    if problem:
        raise ValueError(problem)
    loaded = load_checkpoint(model, checkpoint, map_location='cpu')
    classes = class_names(cfg, loaded)
    if is_text_classifier(model):
        if images:
            raise ValueError('the model takes texts, no images: use --text in place of --image.')
        return text_source(model.eval(), Path(config).name, cfg, classes, texts)
    if texts:
        raise ValueError('the model takes images, no texts: use --image in place of --text.')
    steps, notes = preprocessing(cfg)
    return Source(
        model=model.eval(),
        config=Path(config).name,
        preprocess=steps,
        notes=notes,
        classes=classes,
        size=size or image_size(cfg, steps),
        images=[prepared(steps, _read(path)) for path in images],
    )


def image_size(cfg: Config, steps: dict[str, Any]) -> tuple[int, int]:
    """Height and width of an image as the network sees it in testing.

    Example:
        >>> image_size(Config(), {'resize': {'mode': 'short_edge', 'size': 256}, 'crop': [224, 192]})
        (192, 224)
    """
    size = steps.get('crop')
    if size is None and steps.get('resize', {}).get('mode') == 'exact':
        size = steps['resize']['size']
    if size is not None:
        return size[1], size[0]
    pipeline = test_pipeline(cfg)
    from_file = any(str(step['type']).rpartition('.')[2].startswith('LoadImage') for step in pipeline)
    return ARRAY_SIZE if pipeline and not from_file else SIZE


def _read(path: str) -> np.ndarray:
    import mmcv

    if not Path(path).is_file():
        raise ValueError(f'no image at {path}.')
    image = mmcv.imread(path)
    if image is None:
        raise ValueError(f'{path} cannot be read as an image.')
    return np.ascontiguousarray(image[..., ::-1])
