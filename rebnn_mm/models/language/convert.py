"""Replaces the linear layers and the word embedding of an encoder by binary ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ...errors import RebnnError
from ...layers import BinaryEmbedding, BinaryLayer
from ...layers.naming import name_matches
from ...methods import BinaryPair
from ..binary_plan import Example, check_layer, check_names, refuse_binary, shares_with
from ..convert import binarize as binarize_layers
from ..convert import put_in_place, take_over


def binarize(
    model: nn.Module,
    linear: Mapping[str, Any] | None = None,
    word_embedding: Mapping[str, Any] | None = None,
    keep_real: Sequence[str] = (),
    overrides: Mapping[str, Mapping[str, Any]] = {},
    split: bool = False,
    example: Example | None = None,
) -> nn.Module:
    """Replace, in place, every ``nn.Linear`` and the word embedding of an encoder with a classifier.

    Names of parameters and their values stay as they are, so checkpoints of the full-precision model load. Scaling
    factors start from the weights as they are now. Kept in full precision: the output layer, which gives the logits,
    position and token-type embeddings, norms, biases, and what ``keep_real`` names. The linear layers are replaced by
    :func:`rebnn_mm.binarize`.

    Args:
        model: an encoder with a classifier, full-precision.
        linear: config of a binary linear layer, to which ``in_features``, ``out_features`` and ``bias`` are added;
            None leaves them.
        word_embedding: config of a :class:`rebnn_mm.layers.BinaryEmbedding`, to which ``num_embeddings``,
            ``embedding_dim`` and ``padding_idx`` are added; None leaves it.
        keep_real: names of full-precision layers, each one or more components of the dotted name, ``*`` allowed:
            ``['pooler', 'layer.0.*.query']``.
        overrides: further options of ``linear`` for the layers that a name of the same kind picks; of several, the
            longer name wins: ``{'intermediate.dense': dict(activation=dict(type='BinaryRSign', shift='zero'))}``.
        split: whether every binary layer becomes the sum of two (:class:`rebnn_mm.methods.BinaryPair`), which begin
            where ternary layers with the model's weights end; for weights that were trained so (BinaryBERT).
        example: what the model is run on once; None for the ``dummy_inputs`` of transformers.

    Raises:
        ValueError: a name fits no layer, a config names no such layer, the word embedding shares its weight, a weight
            cannot be split, or the model is binary already.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> linear = dict(type='BinaryLinear', activation='BinarySign')
        >>> _ = binarize(model, linear, example=torch.tensor([[3, 1]]))
        >>> [(type(layer).__name__, getattr(layer, 'real_because', None)) for layer in model]
        [('Embedding', None), ('BinaryLinear', ''), ('Tanh', None), ('BinaryLinear', 'output layer')]
    """
    if overrides and linear is None:
        raise RebnnError('binarize: overrides are further options of linear, which is None')
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise RebnnError(f'binarize: {type(model).__name__} has no linear layer.')
    refuse_binary(model)
    words = None
    if word_embedding is not None:
        embedding = check_layer('word_embedding', word_embedding, BinaryEmbedding)
        words = _word_embedding_name(model)
    check_names('keep_real', keep_real, [*linears, *([words] if words else [])])
    if linear is not None:
        among_linears = [pattern for pattern in keep_real if any(name_matches(name, [pattern]) for name in linears)]
        binarize_layers(model, linear=linear, keep_real=among_linears, overrides=overrides, example=example)
    if word_embedding is not None and words is not None:
        old_words = model.get_submodule(words)
        assert isinstance(old_words, nn.Embedding)
        shared = shares_with(model, old_words)
        if shared:
            raise RebnnError(
                f'binarize: {words!r} shares its weight with {shared!r}, and a binary layer would not. Leave both out '
                'of the conversion, or untie them before.'
            )
        table: dict[str, Any] = dict(
            num_embeddings=old_words.num_embeddings,
            embedding_dim=old_words.embedding_dim,
            padding_idx=old_words.padding_idx,
            keep_real=tuple(keep_real),
        )
        options = {key: value for key, value in word_embedding.items() if key != 'type'}
        new_words = embedding(**{**table, **options})
        take_over(old_words, new_words)
        put_in_place(model, words, new_words)
    for name, layer in list(model.named_modules()) if split else ():
        if isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None:
            pair = BinaryPair.split(layer)
            model.set_submodule(name, pair)
            pair.first.take_name(f'{name}.first')
            pair.second.take_name(f'{name}.second')
    return model


def _word_embedding_name(model: nn.Module) -> str:
    find = getattr(model, 'get_input_embeddings', None)
    if find is None:
        raise RebnnError(
            f'binarize: {type(model).__name__} has no get_input_embeddings(), so its word embedding is not known; use '
            'word_embedding=None.'
        )
    wanted = find()
    return next(name for name, module in model.named_modules() if module is wanted)
