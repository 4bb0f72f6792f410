"""Read and write the weights of a binary encoder in the layout of Hugging Face's hub."""

import json
import os
from typing import TYPE_CHECKING

from mmengine.logging import print_log
from torch import Tensor

from ...errors import RebnnError
from .attention import require_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SETTINGS = 'rebnn'
"""The entry of ``config.json`` that says what is binary."""


def load_quantizer_state(model: 'PreTrainedModel', directory: str) -> None:
    """Fill a converted model from a directory of ``save_pretrained``, where names and shapes agree.

    So a model that starts from another binary one takes over scaling factors and shifts that both have. A directory
    without binary layers is left alone.
    """
    if getattr(model.config, SETTINGS, None) is None:
        return
    found, wanted = read_weights(directory), model.state_dict()
    fitting = {key: value for key, value in found.items() if key in wanted and value.shape == wanted[key].shape}
    model.load_state_dict(fitting, strict=False)
    print_log(f'{directory}: {len(fitting)} of {len(wanted)} tensors taken over.', logger='current')


def read_weights(directory: str) -> dict[str, Tensor]:
    """All tensors of a directory's safetensors files."""
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
