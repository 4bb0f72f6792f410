"""From a trained model to one whose binary layers are packed."""

from copy import deepcopy
from typing import NamedTuple, cast

import torch
from mmengine.model import BaseAveragedModel, is_model_wrapper
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel

from rebnn_mm.layers import BinaryAttention, BinaryConv2d, BinaryEmbedding, BinaryLayer, BinaryLinear, Maxout
from rebnn_mm.layers.attention import EncoderAttention

from ..errors import RebnnError
from .packed_layers import ChannelAffine, PackedAttention, PackedConv2d, PackedEmbedding, PackedLayer, PackedLinear
from .two_valued import MaxoutAsPReLU, TwoValuedConv2d, TwoValuedLinear, two_values_of


class PackedModel(NamedTuple):
    """A model with packed layers.

    Attributes:
        model: the copy, in eval mode, in float32, on the CPU.
        packed: dotted names of the layers that became bits.
        real: dotted names of binary layers that keep full precision operators, each with the reason.
    """

    model: nn.Module
    packed: list[str]
    real: dict[str, str]


def pack(model: nn.Module) -> PackedModel:
    """Copy a trained model, with bits in its binary layers and constants in its batch norms.

    Layers with one bit for weights and inputs are packed, whatever the two values of a bit are, embeddings with signs
    for their rows, and attention of signs. A layer that has only one of both stays as it is, as a real layer does. The
    copy computes in the order of docs/format.md.

    Args:
        model: any model; it is not changed.

    Raises:
        ValueError: a layer cannot be exported: it has several bits, or is an attention other than Bi-Attention; the
            message names it.

    Example:
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> net = nn.Sequential(ReBNNConv2d(3, 8, 3), ReBNNConv2d(8, 8, 3), nn.BatchNorm2d(8))
        >>> packed = pack(net)
        >>> packed.packed, packed.real
        (['1'], {'0': 'first layer (3 input channels)'})
        >>> [type(layer).__name__ for layer in packed.model]
        ['ReBNNConv2d', 'PackedConv2d', 'ChannelAffine']
    """
    for name, module in model.named_modules():
        _check_values(name, module)
        _check_attention(name, module)
    copy = deepcopy(model).cpu().float().requires_grad_(False)
    copy.eval()  # gives None where a backbone of OpenMMLab's has a train() of its own
    packed, real = [], {}
    if isinstance(copy, BinaryLayer | _BatchNorm):
        copy = nn.Sequential(copy)
    for name, module in list(copy.named_modules()):
        if isinstance(module, BinaryLayer):
            reason = _stays_real(module)
            if reason:
                real[name] = reason
                continue
            packed.append(name)
            _replace(copy, name, _pack_layer(module, name))
        elif isinstance(module, BinaryAttention):
            packed.append(name)
            _replace(copy, name, PackedAttention(module, name))
        elif isinstance(module, Maxout) and bool((module.positive > 0).all()):
            _replace(copy, name, MaxoutAsPReLU(module))
        elif _is_plain_norm(module):
            _replace(copy, name, ChannelAffine(module))
    return PackedModel(copy, packed, real)


def unwrap(model: nn.Module) -> nn.Module:
    """Copy a model out of what wraps it or its parts: DataParallel and its like, torch.compile, averaged weights."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            what = f'the part {name!r}' if name else 'the model'
            raise RebnnError(f'{what} is TorchScript, which holds no layers to pack; export what it was made from.')
    # what a module keeps of its last step hangs in a graph of gradients, which cannot be copied
    kept = [value for part in model.modules() for value in vars(part).values() if isinstance(value, torch.Tensor)]
    copy = deepcopy(_innermost(model), {id(value): value.detach() for value in kept if not value.is_leaf})
    for parent in list(copy.modules()):
        for key, child in list(parent._modules.items()):
            if child is not None:
                parent.add_module(key, _innermost(child))
    return copy


def _innermost(module: nn.Module) -> nn.Module:
    while True:
        if is_model_wrapper(module) or isinstance(module, AveragedModel | BaseAveragedModel):
            module = cast(nn.Module, module.module)
        elif hasattr(module, '_orig_mod'):  # of torch.compile
            module = cast(nn.Module, module._orig_mod)
        else:
            return module


def _is_plain_norm(module: nn.Module) -> bool:
    """Whether it is a batch norm with statistics and nothing else: a subclass may hold an activation, as timm's do."""
    plain = (_BatchNorm.forward, nn.SyncBatchNorm.forward)
    return isinstance(module, _BatchNorm) and module.running_mean is not None and type(module).forward in plain


def _check_values(name: str, layer: nn.Module) -> None:
    """Refuse a binary layer that is quantized in a way that bits cannot hold."""
    if not isinstance(layer, BinaryLayer) or two_values_of(layer) is not None:
        return
    for quantizer, what in ((layer.weight_quantizer, 'weights'), (layer.activation_quantizer, 'inputs')):
        if quantizer is None or quantizer.values.kind == 'signs':
            continue
        values = (
            f'of {quantizer.bits} bits' if quantizer.bits != 1 else 'whose two values are not known to the exporter'
        )
        raise RebnnError(
            f'{type(layer).__name__} {name!r} has {what} {values} ({type(quantizer).__name__}), which the packed '
            'format does not hold. Export a model whose binary layers are 1-bit, such as ReBNN or ReActNet.'
        )


def _check_attention(name: str, module: nn.Module) -> None:
    if isinstance(module, EncoderAttention) and type(module) is not BinaryAttention:
        raise RebnnError(
            f'{type(module).__name__} {name!r} is an attention that the packed format does not hold. Export a model '
            "with attention=dict(type='BinaryAttention') (ReBNN, BiBERT), or with full-precision attention "
            '(attention=None).'
        )


def _stays_real(layer: BinaryLayer) -> str:
    if not layer.binary:
        return layer.real_because
    if layer.weight_quantizer is None:
        return 'real weights (W32A1)'
    takes_signs = layer.activation_quantizer is not None or isinstance(layer, BinaryEmbedding)
    return '' if takes_signs else 'real inputs (W1A32)'


def _pack_layer(layer: BinaryLayer, name: str) -> PackedLayer | PackedEmbedding:
    values = two_values_of(layer)
    if values is not None and isinstance(layer, BinaryConv2d):
        return TwoValuedConv2d(layer, values, name)
    if values is not None:
        return TwoValuedLinear(cast(BinaryLinear, layer), values, name)
    if isinstance(layer, BinaryConv2d):
        return PackedConv2d(layer, name)
    if isinstance(layer, BinaryLinear):
        return PackedLinear(layer, name)
    if isinstance(layer, BinaryEmbedding):
        return PackedEmbedding(layer, name)
    raise RebnnError(f'{type(layer).__name__} {name!r} is neither a convolution nor a linear layer nor an embedding.')


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    # A module that hangs in the tree twice has one name only, and is one module afterwards, too.
    old = model.get_submodule(name)
    for parent in list(model.modules()):
        for key, child in list(parent._modules.items()):
            if child is old:
                parent.add_module(key, module)
