"""Replaces the linear layers and the word embedding of an encoder by binary ones."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ...layers import BinaryEmbedding, BinaryLayer, BinaryLinear
from ...layers.naming import name_matches
from ...methods import BinaryPair
from ...registry import registered_class
from ...utils.options import check_options


def binarize(
    model: nn.Module,
    linear: Mapping[str, Any] | None = None,
    word_embedding: Mapping[str, Any] | None = None,
    keep_real: Sequence[str] = (),
    overrides: Mapping[str, Mapping[str, Any]] = {},
    split: bool = False,
) -> nn.Module:
    """Replace, in place, every ``nn.Linear`` and the word embedding of an encoder with a classifier.

    Names of parameters and their values stay as they are, so checkpoints of the real-valued model load. Scaling
    factors start from the weights as they are now. What stays real: the output layer (the last linear layer, which
    gives the logits), position and token-type embeddings, norms, biases, and what ``keep_real`` names.

    Args:
        model: an encoder with a classifier, real-valued.
        linear: config of a binary linear layer, to which ``in_features``, ``out_features`` and ``bias`` are added;
            None leaves them.
        word_embedding: config of a :class:`rebnn_mm.layers.BinaryEmbedding`, to which ``num_embeddings``,
            ``embedding_dim`` and ``padding_idx`` are added; None leaves it.
        keep_real: names of layers that stay real, each one or more components of the dotted name, ``*`` allowed:
            ``['pooler', 'layer.0.*.query']``.
        overrides: further options of ``linear`` for the layers that a name of the same kind picks; of several, the
            longer name wins: ``{'intermediate.dense': dict(activation=dict(type='BinaryRSign', shift='zero'))}``.
        split: whether every binary layer becomes the sum of two (:class:`rebnn_mm.methods.BinaryPair`), which begin
            where ternary layers with the model's weights end; for weights that were trained so (BinaryBERT).

    Returns:
        nn.Module: the model.

    Raises:
        ValueError: a name fits no layer, a config names no such layer, a weight is shared between layers or cannot be
            split, or the model is binary already.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> _ = binarize(model, linear=dict(type='BinaryLinear', activation=dict(type='BinarySign')))
        >>> for name, layer in model.named_children():
        ...     print(name, layer)
        0 BinaryLinear(
          in_features=8, out_features=8, bias=True, W1A1
          (weight_quantizer): BinaryMeanScaleWeight()
          (activation_quantizer): BinarySign(8)
        )
        1 Tanh()
        2 BinaryLinear(
          in_features=8, out_features=2, bias=True, real: output layer
          (weight_quantizer): None
          (activation_quantizer): None
        )
    """
    if isinstance(keep_real, str):
        raise ValueError(f'binarize: keep_real={keep_real!r} must be a list of names, [{keep_real!r}]')
    if overrides and linear is None:
        raise ValueError('binarize: overrides are further options of linear, which is None')
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ValueError(f'binarize: {type(model).__name__} has no linear layer.')
    if any(isinstance(module, BinaryLayer) for module in model.modules()):
        raise ValueError(f'binarize: {type(model).__name__} has binary layers already; start from the real model.')
    words = _word_embedding_name(model) if word_embedding is not None else None
    _check_names('keep_real', keep_real, [*linears, *([words] if words else [])])
    _check_names('overrides', overrides, linears)
    if linear is not None:
        for name in linears:
            old = model.get_submodule(name)
            assert isinstance(old, nn.Linear)
            options = dict(linear)
            for pattern in sorted(overrides, key=lambda pattern: (len(pattern), pattern)):
                if name_matches(name, [pattern]):
                    options.update(overrides[pattern])
            sizes = dict(in_features=old.in_features, out_features=old.out_features, bias=old.bias is not None)
            new = _built('linear', options, sizes, BinaryLinear, keep_real)
            _replace(model, name, new)
            if name == linears[-1]:
                new.stay_real('output layer')
    if word_embedding is not None and words is not None:
        old_words = model.get_submodule(words)
        assert isinstance(old_words, nn.Embedding)
        table: dict[str, Any] = dict(
            num_embeddings=old_words.num_embeddings,
            embedding_dim=old_words.embedding_dim,
            padding_idx=old_words.padding_idx,
        )
        _replace(model, words, _built('word_embedding', word_embedding, table, BinaryEmbedding, keep_real))
    if split:
        _split(model)
    return model


def _split(model: nn.Module) -> None:
    for name, layer in list(model.named_modules()):
        if isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None:
            pair = BinaryPair.split(layer)
            model.set_submodule(name, pair)
            pair.first.take_name(f'{name}.first')
            pair.second.take_name(f'{name}.second')


def _built(
    key: str,
    options: Mapping[str, Any],
    sizes: Mapping[str, Any],
    base: type[BinaryLayer],
    keep_real: Sequence[str],
) -> BinaryLayer:
    cls = registered_class(options.get('type'), base, f'binarize: {key}={options.get("type")!r} is no such layer.')
    options = {key: value for key, value in options.items() if key != 'type'}
    check_options(f'binarize: {key} of type {cls.__name__}', options, cls, base)
    # A Linear's own default names shortcuts of image networks, of which there are none here.
    return cls(**sizes, **{'keep_real': tuple(keep_real), **options})


def _replace(model: nn.Module, name: str, new: BinaryLayer) -> None:
    old = model.get_submodule(name)
    assert isinstance(old.weight, torch.Tensor)
    shared = [
        other
        for other, module in model.named_modules()
        if module is not old and any(value is old.weight for value in module.parameters(recurse=False))
    ]
    if shared:
        raise ValueError(
            f'binarize: {name!r} shares its weight with {shared[0]!r}, and a binary layer would not. Leave both out '
            'of the conversion, or untie them before.'
        )
    new.to(device=old.weight.device, dtype=old.weight.dtype)
    # Through the state dict, so that the quantizer starts from the values as it does with a checkpoint.
    new.load_state_dict(old.state_dict(), strict=False)
    for key, parameter in old.named_parameters():
        new.get_parameter(key).requires_grad_(parameter.requires_grad)
    new.train(old.training)
    model.set_submodule(name, new)
    new.take_name(name)


def _word_embedding_name(model: nn.Module) -> str:
    find = getattr(model, 'get_input_embeddings', None)
    if find is None:
        raise ValueError(
            f'binarize: {type(model).__name__} has no get_input_embeddings(), so its word embedding is not known; use '
            'word_embedding=None.'
        )
    wanted = find()
    return next(name for name, module in model.named_modules() if module is wanted)


def _check_names(key: str, patterns: Sequence[str] | Mapping[str, Any], names: Sequence[str]) -> None:
    for pattern in patterns:
        if any(name_matches(name, [pattern]) for name in names):
            continue
        parts = sorted({part for name in names for part in name.split('.')} | set(names))
        close = difflib.get_close_matches(pattern, parts, n=1)
        hint = f' Did you mean {close[0]!r}?' if close else ''
        raise ValueError(
            f'binarize: {key} names {pattern!r}, which fits no layer of the model.{hint} Layers: '
            f'{", ".join(names[:3])}, ..., {names[-1]}'
        )
