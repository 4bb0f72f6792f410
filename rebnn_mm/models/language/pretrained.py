"""Directories in the layout of Hugging Face's hub: written from a text classifier, and read again."""

import json
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mmengine.logging import print_log
from torch import Tensor

from rebnn_mm.deploy.errors import first_sentence

from ...errors import RebnnError
from .attention import require_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .text_classifier import TextClassifier

SETTINGS = 'rebnn'
"""The entry of ``config.json`` that says what is binary."""


def save_pretrained(model: 'TextClassifier', directory: str) -> None:
    """Write config, weights and tokenizer of a text classifier as transformers does.

    ``AutoModelForSequenceClassification.from_pretrained`` reads the directory as a real-valued model with the latent
    weights; :func:`load_pretrained` reads the binary one, with the same logits to the last bit.

    Args:
        model: the classifier. Its teacher, if it has one, is no part of it.
        directory: where to; made if it does not exist.
    """
    from transformers import AutoTokenizer

    setattr(model.encoder.config, SETTINGS, _plain(model.conversion))
    # With the names as they are: transformers 5.0 would go back to those of BERT's first release, LayerNorm.gamma.
    model.encoder.save_pretrained(directory, save_original_format=False)
    try:
        AutoTokenizer.from_pretrained(model.source).save_pretrained(directory)
    except (OSError, ValueError) as error:
        print_log(
            f'save_pretrained: {model.source} has no tokenizer, so {directory} has none either. '
            f'({first_sentence(error)})',
            logger='current',
            level=logging.WARNING,
        )


def load_pretrained(directory: str) -> 'TextClassifier':
    """The text classifier that :func:`save_pretrained` has written, in eval mode.

    Args:
        directory: a local directory, or the name of such a model on the hub.

    Raises:
        ValueError: it is no such directory, or its weights are not those of its config.
    """
    from .text_classifier import TextClassifier, read_config

    config = read_config(directory)
    settings = getattr(config, SETTINGS, None)
    if settings is None:
        raise RebnnError(
            f'{directory}: its config.json has no entry {SETTINGS!r}, so it is a plain model of transformers. Use it '
            'as encoder of a TextClassifier.'
        )
    model = TextClassifier(directory, num_labels=config.num_labels, pretrained=False, **settings)
    found, wanted = read_weights(directory), model.encoder.state_dict()
    wrong = sorted(found.keys() ^ wanted.keys()) or _reshaped(found, wanted)
    if wrong:
        raise RebnnError(
            f'{directory}: its weights are not those of its config.json: {", ".join(wrong[:3])}'
            f'{" and others" if len(wrong) > 3 else ""}. Write it again with save_pretrained.'
        )
    model.encoder.load_state_dict(found)
    return model.eval()


def load_quantizer_state(model: 'PreTrainedModel', directory: str) -> None:
    """Fill a converted model from a directory of :func:`save_pretrained`, where names and shapes agree.

    So a model that starts from another binary one takes over scaling factors and shifts that both have. A directory
    without binary layers is left alone.

    Args:
        model: the encoder, with the weights of the directory and its layers replaced.
        directory: where they came from.
    """
    if getattr(model.config, SETTINGS, None) is None:
        return
    found, wanted = read_weights(directory), model.state_dict()
    fitting = {key: value for key, value in found.items() if key in wanted and value.shape == wanted[key].shape}
    model.load_state_dict(fitting, strict=False)
    print_log(f'{directory}: {len(fitting)} of {len(wanted)} tensors taken over.', logger='current')


def read_weights(directory: str) -> dict[str, Tensor]:
    """All tensors of a directory's safetensors files.

    Raises:
        ValueError: there are none.
    """
    require_transformers()
    from safetensors.torch import load_file
    from transformers.utils import cached_file

    index = cached_file(directory, 'model.safetensors.index.json', _raise_exceptions_for_missing_entries=False)
    names = ['model.safetensors']
    if index is not None:
        with open(index) as file:
            names = sorted(set(json.load(file)['weight_map'].values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
        path = cached_file(directory, name, _raise_exceptions_for_missing_entries=False)
        if path is None or not os.path.isfile(path):
            raise RebnnError(f'{directory}: there is no {name}.')
        tensors.update(load_file(path))
    return tensors


def _reshaped(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    return [key for key, value in wanted.items() if found[key].shape != value.shape]


def _plain(value: Any) -> Any:
    """The same value in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
