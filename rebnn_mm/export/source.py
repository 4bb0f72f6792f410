"""A trained model with what its config and its checkpoint say about images or texts, and about classes."""

import base64
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mmengine import list_from_file
from mmengine.config import Config
from mmengine.registry import DATASETS, MODELS
from mmengine.runner import load_checkpoint
from torch import nn

from rebnn_mm.deploy.image import read_image
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.command_line import check_sections, import_scope
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.data_files import check_data, type_name

from ..errors import RebnnError
from .calibration import CalibrationImages, dataset_images, image_files, spread, training_images
from .detection.traced_parts import image_channels
from .examples import Example, Image, Text, prepare_example
from .preprocess import CIFAR_SIZE, is_cifar, read_preprocessing, test_dataset, test_pipeline
from .tasks import input_names, is_text_classifier, longest_text, task_of

SIZE = (224, 224)
"""Height and width of an example image where neither pipeline nor data set gives one."""

OWN_IMAGES = 10
"""So many images of the data set a file is compared on if none are given."""


class Source(NamedTuple):
    """Everything that an export starts from."""

    model: nn.Module  # the trained model, on the CPU
    config: str = ''  # file name of the config
    classes: Sequence[str] = ()  # class names; empty if nobody knows them, and for a regression
    examples: Sequence[Example] = ()  # images or sentences to compare on, as the network takes them; none for noise
    origin: str = ''  # what the images among them are, in words; empty where they are given
    # of a model that takes images, the object ``rebnn.preprocess`` of docs/format.md
    preprocess: dict[str, Any] | None = None
    notes: Sequence[str] = ()  # what that object cannot say, one sentence each
    size: tuple[int, int] = SIZE  # height and width of an image that the model takes
    # of a model that takes texts, the object ``rebnn.tokenizer``; None for images
    tokenizer: dict[str, Any] | None = None
    calibration: Sequence[Example] = ()  # images that tell the ranges of int8 layers
    # gives the scores of a packed file, by its bytes; None if they are not asked for
    score: Callable[[bytes], Mapping[str, float]] | None = None


def load_source(
    config: str,
    checkpoint: str,
    *,
    options: dict[str, Any] | None = None,
    images: Sequence[str] = (),
    texts: Sequence[str] = (),
    calibration: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
) -> Source:
    """Build the model of a config, fill it from a checkpoint, and read how its images or texts are prepared.

    Without ``images`` some of the config's data set are compared, where it is there. A tab parts the two sentences of
    a pair in ``texts``. An empty ``calibration`` stands for the training set, None for no calibration.
    """
    cfg = read_config(config, options)
    check_sections(cfg, ['model'])
    check_checkpoint_file(checkpoint)
    import_scope(cfg)
    with user_errors(cfg):
        model = MODELS.build(cfg.model)
        check_checkpoint(model, checkpoint)
    loaded = load_checkpoint(model, checkpoint, map_location='cpu', logger='silent')
    classes = class_names(cfg, loaded)
    if is_text_classifier(model):
        if images:
            raise RebnnError('the model takes texts, not images: use --text in place of --image.')
        if size is not None:
            raise RebnnError('the model takes texts, which have no size: leave --shape out.')
        return text_source(model.eval(), Path(config).name, cfg, classes, texts)
    if texts:
        raise RebnnError('the model takes images, not texts: use --image in place of --text.')
    steps, notes = read_preprocessing(cfg)
    channels = image_channels(model.eval())
    if channels != 3:
        what = f'{Path(config).name} takes images of channels: {channels}, and only those of 3 are prepared here'
        if images or calibration is not None:
            raise RebnnError(f'{what}: leave {"--image" if images else "--int8"} out.')
        notes.append(f'{what}: run the file in ONNX Runtime itself.')
    task = task_of(model).name
    if task == 'classification' and 'resize' not in steps and 'crop' not in steps:
        if size is None:
            notes.append('It says no size: the file takes images only with --size, or export it with --shape.')
        else:
            steps['resize'] = {'mode': 'exact', 'size': [size[1], size[0]]}
    ranging: Sequence[Any] = ()
    if calibration is not None:
        ranging = image_files(calibration) if calibration else training_images(cfg)
    size = size or image_size(cfg, steps)
    examples, origin = [prepare_example(steps, read_image(path)) for path in images], ''
    if not images and channels == 3:
        examples, origin = read_own_images(cfg, steps, None if task == 'detection' else size)
    return Source(
        model=model.eval(),
        config=Path(config).name,
        classes=classes,
        examples=examples,
        origin=origin,
        preprocess=steps,
        notes=notes,
        size=size,
        calibration=CalibrationImages(steps, ranging),
    )


def read_own_images(cfg: Config, steps: dict[str, Any], size: tuple[int, int] | None) -> tuple[list[Image], str]:
    """Read some images of a config's data set as the network takes them: of the test set, if it is there."""
    for split in ('test', 'val', 'train'):
        loader = cfg.get(f'{split}_dataloader')
        if not loader:
            continue
        try:
            check_data(cfg, [split])
            files = spread(dataset_images(loader['dataset'], OWN_IMAGES), OWN_IMAGES)
            images = list(CalibrationImages(steps, files))
        except Exception:  # of the data set's class; without its images the comparison is one on noise, which is said
            continue
        images = [image for image in images if size in (None, image.values.shape[2:])]
        if images:
            return images, f'images of the {split} set'
    return [], ''


def text_source(model: Any, config: str, cfg: Config, classes: Sequence[str], sentences: Sequence[str]) -> Source:
    """Read from a config how texts become tokens."""
    from tokenizers import Tokenizer

    from rebnn_mm.datasets.tokenize_text import load_tokenizer

    step = next((step for step in test_pipeline(cfg) if type_name(step) == 'TokenizeText'), {})
    loaded = load_tokenizer(str(step.get('tokenizer') or model.source))
    longest = min(int(step.get('max_length') or longest_text(model)), longest_text(model))
    plain = Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    plain.no_padding()
    plain.no_truncation()
    text = plain.to_str()
    return Source(
        model=model,
        config=config,
        classes=list(classes) if model.num_labels > 1 else [],
        tokenizer={
            'max_length': longest,
            'pad_id': int(loaded.pad_token_id or 0),
            'sha256': hashlib.sha256(text.encode()).hexdigest(),
            'json': base64.b64encode(zlib.compress(text.encode(), 9)).decode(),
        },
        examples=[_tokens(loaded, sentence, longest, input_names(model)) for sentence in sentences],
    )


def image_size(cfg: Config, steps: dict[str, Any]) -> tuple[int, int]:
    """Height and width of an image as the network sees it in testing."""
    size = steps.get('crop')
    if size is None and steps.get('resize', {}).get('mode') == 'exact':
        size = steps['resize']['size']
    if size is not None:
        return size[1], size[0]
    return CIFAR_SIZE if is_cifar(cfg) else SIZE


def class_names(cfg: Config, checkpoint: Mapping[str, Any]) -> list[str]:
    """Names of the classes: the checkpoint's, else those in the config's test data set, else the data set's own."""
    meta, dataset = (checkpoint.get('meta') or {}).get('dataset_meta') or {}, test_dataset(cfg)
    given = meta.get('classes') or meta.get('CLASSES') or (dataset.get('metainfo') or {}).get('classes')
    given = given or dataset.get('classes')
    if isinstance(given, str):
        given = list_from_file(path) if os.path.isfile(path := os.path.expanduser(given)) else [given]
    if given:
        return [str(name) for name in given]
    kind = dataset.get('type')
    with DATASETS.switch_scope_and_registry(cfg.get('default_scope')) as registry:
        found = registry.get(kind) if isinstance(kind, str) else kind
    return [str(name) for name in getattr(found, 'METAINFO', {}).get('classes', ())]


def _tokens(tokenizer: Any, sentence: str, longest: int, names: Sequence[str]) -> Text:
    first, _, second = sentence.partition('\t')
    encoded = tokenizer(first, second or None, truncation='longest_first', max_length=longest)
    return Text({name: np.array([encoded[name]], np.int64) for name in names})
