"""Directories in the layout of Hugging Face's hub: written from a text classifier, and read again."""

import json
import logging

from mmengine.logging import print_log

from rebnn_mm.deploy.errors import first_sentence

from ...errors import RebnnError
from .stored_weights import SETTINGS, read_weights
from .text_classifier import TextClassifier, read_config


def save_pretrained(model: TextClassifier, directory: str) -> None:
    """Write config, weights and tokenizer of a text classifier as transformers does.

    ``AutoModelForSequenceClassification.from_pretrained`` reads the directory as a full-precision model with the
    latent weights; :func:`load_pretrained` reads the binary one, with the same logits to the last bit. A teacher is
    not part of it.
    """
    from transformers import AutoTokenizer

    # As plain dicts and lists, which transformers copies and writes.
    setattr(model.encoder.config, SETTINGS, json.loads(json.dumps(model.conversion)))
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


def load_pretrained(directory: str) -> TextClassifier:
    """The text classifier that :func:`save_pretrained` has written to a directory or the hub, in eval mode.

    Raises:
        ValueError: it is not such a directory, or its weights are not those of its config.
    """
    config = read_config(directory)
    settings = getattr(config, SETTINGS, None)
    if settings is None:
        raise RebnnError(
            f'{directory}: its config.json has no entry {SETTINGS!r}, so it is a plain model of transformers. Use it '
            'as encoder of a TextClassifier.'
        )
    model = TextClassifier(directory, num_labels=config.num_labels, pretrained=False, **settings)
    found, wanted = read_weights(directory), model.encoder.state_dict()
    wrong = sorted(found.keys() ^ wanted.keys())
    wrong = wrong or [key for key, value in wanted.items() if found[key].shape != value.shape]
    if wrong:
        raise RebnnError(
            f'{directory}: its weights are not those of its config.json: {", ".join(wrong[:3])}'
            f'{" and others" if len(wrong) > 3 else ""}. Write it again with save_pretrained.'
        )
    model.encoder.load_state_dict(found)
    return model.eval()
