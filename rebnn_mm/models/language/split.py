"""Splits a ternary text classifier into a binary one with two of each layer."""

from collections.abc import Mapping
from typing import Any

from ...errors import RebnnError
from ...layers import BinaryLayer
from ...methods import BinaryPair, TWNWeight
from .pretrained import load_pretrained
from .text_classifier import TextClassifier


def split_pretrained(directory: str) -> TextClassifier:
    """The binary classifier that begins where a ternary one ends (ternary weight splitting).

    Every layer with ternary weights becomes a :class:`rebnn_mm.methods.BinaryPair`; both classifiers compute the same,
    but for the rounding of sums.

    Args:
        directory: what :func:`save_pretrained` has written of a classifier whose weights are all
            :class:`rebnn_mm.methods.TWNWeight`.
    """
    ternary = load_pretrained(directory)
    layers = {
        name: layer
        for name, layer in ternary.encoder.named_modules()
        if isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None
    }
    for name, layer in layers.items():
        if not isinstance(layer.weight_quantizer, TWNWeight):
            kind = type(layer.weight_quantizer).__name__
            raise RebnnError(
                f'{directory}: layer {name!r} has {kind}, not TWNWeight; only ternary weights can be split. Train the '
                'first stage with weight=dict(type="TWNWeight").'
            )
    if not layers:
        raise RebnnError(f'{directory}: no layer has ternary weights, so there is nothing to split.')
    conversion: dict[str, Any] = _binary(ternary.conversion)
    conversion['binarize']['split'] = True
    model = TextClassifier(directory, num_labels=ternary.num_labels, **conversion)
    for name, layer in layers.items():
        pair = model.encoder.get_submodule(name)
        assert isinstance(pair, BinaryPair)
        if layer.activation_quantizer is not None:
            for half in (pair.first, pair.second):
                assert half.activation_quantizer is not None
                half.activation_quantizer.load_state_dict(layer.activation_quantizer.state_dict())
    return model.eval()


def _binary(value: Any) -> Any:
    """Settings with the binary quantizer in place of every ternary one."""
    if isinstance(value, Mapping):
        ternary = value.get('type') == 'TWNWeight'
        # The clip is an option of the ternary gradient.
        return {key: _binary(item) for key, item in value.items() if not (ternary and key == 'clip')}
    if isinstance(value, list | tuple):
        return [_binary(item) for item in value]
    return 'BWNWeight' if value == 'TWNWeight' else value
