"""Counts what every layer of a model holds and computes during a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from rebnn_mm.layers.attention import EncoderAttention
from rebnn_mm.layers.base import BinaryLayer
from rebnn_mm.layers.report import layer_rows

from .layer_cost import REAL_BITS, LayerCost


@dataclass
class _Seen:
    """Observations of one module in the forward pass."""

    macs: int = 0
    calls: int = 0
    output: tuple[int, ...] = ()
    values_in: int = 0
    values_out: int = 0


def count_layers(model: nn.Module, forward: Callable[[], Any]) -> tuple[LayerCost, ...]:
    r"""Describe every layer of a model, from one forward pass of one image, which ``forward`` runs.

    The multiply-accumulates of a convolution (transposed and deformable ones too) or a linear layer with :math:`|W|`
    weights are

    .. math::
        |W| \cdot \frac{\text{values of the output}}{C_{out}} \quad \text{(of the input and } C_{in}
        \text{ if transposed)}

    summed over its calls, so a layer shared by several feature levels counts on each. Other products, those of
    attention, are counted by torch's own formulas (:mod:`torch.utils.flop_counter`) for the innermost module that is
    running, between real numbers unless it is an :class:`rebnn_mm.layers.EncoderAttention`, which says its bits. What
    a weight quantizer computes to make its weight is not counted: a prediction finds the weight ready.
    """
    names = _names(model)
    seen: dict[nn.Module, _Seen] = {module: _Seen() for module in names}
    running: list[nn.Module] = []
    handles = []
    for module in names:
        handles.append(module.register_forward_pre_hook(lambda module, args: running.append(module)))
        handles.append(module.register_forward_hook(_Hook(seen[module], running), with_kwargs=True))
    fast_attention = torch.backends.mha.get_fastpath_enabled()
    # Attention as matrix products instead of one operator that has no formula on the CPU.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _LooseProducts(seen, running):
            forward()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_attention)
        for handle in handles:
            handle.remove()
    why = {row.name: row.why for row in layer_rows(model)}
    stored: set[int] = set()
    layers = [_cost(name, module, seen[module], why.get(name, ''), stored) for module, name in names.items()]
    return tuple(layer for layer in layers if layer is not None)


def _names(model: nn.Module) -> dict[nn.Module, str]:
    """Every module but the parts of binary layers, which count as one."""
    names: dict[nn.Module, str] = {}
    inside: list[str] = []
    for name, module in model.named_modules():
        if name.startswith(tuple(inside)):
            continue
        names[module] = name
        if isinstance(module, BinaryLayer):
            inside.append(f'{name}.'.lstrip('.'))
    return names


def _is_conv(module: nn.Module) -> bool:
    # mmcv's deformable convolutions are not subclasses of torch's.
    weight = getattr(module, 'weight', None)
    deformable = isinstance(weight, Tensor) and weight.dim() == 4 and hasattr(module, 'deform_groups')
    return isinstance(module, _ConvNd) or deformable


def _is_product(module: nn.Module) -> bool:
    looked_up = isinstance(module, nn.Embedding)
    return not looked_up and (_is_conv(module) or isinstance(module, nn.Linear | BinaryLayer))


class _Hook:
    """Forward hook of one module."""

    def __init__(self, seen: _Seen, running: list[nn.Module]) -> None:
        self.seen = seen
        self.running = running

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self.running.pop()
        given = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
        self.seen.calls += 1
        self.seen.values_in += 0 if given is None else given.numel()
        if not isinstance(output, Tensor):
            return
        self.seen.output = tuple(output.shape)
        self.seen.values_out += output.numel()
        if _is_product(module):
            transposed = isinstance(module, _ConvTransposeNd)
            values = given if transposed and given is not None else output
            channels = _channels(module, 'in' if transposed else 'out')
            self.seen.macs += cast(Tensor, module.weight).numel() * (values.numel() // channels)


def _channels(module: nn.Module, side: str) -> int:
    return int(getattr(module, f'{side}_features', None) or getattr(module, f'{side}_channels'))


class _LooseProducts(TorchDispatchMode):
    """Counts convolutions and matrix products that run outside of a product layer."""

    def __init__(self, seen: dict[nn.Module, _Seen], running: list[nn.Module]) -> None:
        super().__init__()
        self.seen = seen
        self.running = running

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula and self.running and not any(map(_is_product, self.running)):
            # torch counts a multiply-accumulate as two.
            self.seen[self.running[-1]].macs += formula(*args, **(kwargs or {}), out_val=result) // 2
        return result


def _cost(name: str, module: nn.Module, seen: _Seen, why: str, stored: set[int]) -> LayerCost | None:
    """The facts of one module, or None if it is only a container; ``stored`` are tensors that others hold already."""
    whole = isinstance(module, BinaryLayer)
    tensors = _state(module, recurse=whole)
    new = {key: value for key, value in tensors.items() if id(value) not in stored}
    stored.update(map(id, tensors.values()))
    works = not isinstance(module, nn.Identity | nn.Dropout) and not any(True for _ in module.children())
    if not new and not seen.macs and not (works and seen.calls):
        return None
    parameters = {key: value.numel() for key, value in new.items() if isinstance(value, nn.Parameter)}
    learnable = sum(parameters.values())
    weights = bias = scales = running = 0
    if _is_product(module) or whole:
        weights, bias = parameters.pop('weight', 0), parameters.pop('bias', 0)
    if isinstance(module, BinaryLayer):
        scales = _scales(module)
        parameters = {key: n for key, n in parameters.items() if _in_a_prediction(key)}
    vectors = sum(parameters.values())
    if isinstance(module, _NormBase) and module.running_mean is not None and 'running_mean' in new:
        running = 2 * module.num_features
        vectors = 2 * module.num_features
    weight_bits, activation_bits = _bits(module)
    return LayerCost(
        name=name,
        kind=type(module).__name__,
        weight_bits=weight_bits,
        activation_bits=activation_bits,
        why=why,
        parameters=learnable,
        weights=weights,
        bias=bias,
        scales=scales,
        vectors=vectors,
        running=running,
        checkpoint_bytes=sum(value.numel() * value.element_size() for value in new.values()),
        macs=seen.macs,
        calls=seen.calls,
        output=seen.output,
        values_in=seen.values_in,
        values_out=seen.values_out,
        group_channels=module.in_channels // module.groups if isinstance(module, _ConvNd) and module.groups > 1 else 0,
    )


def _bits(module: nn.Module) -> tuple[int, int]:
    if isinstance(module, BinaryLayer):
        return module.weight_bits, module.activation_bits
    # Both factors of an attention's products are activations.
    bits = module.operand_bits if isinstance(module, EncoderAttention) else REAL_BITS
    return bits, bits


def _state(module: nn.Module, recurse: bool) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; not ``state_dict``, whose tensors are new objects at every call."""
    found: dict[str, Tensor] = {}
    for prefix, part in module.named_modules() if recurse else [('', module)]:
        buffers = {key: b for key, b in part._buffers.items() if key not in part._non_persistent_buffers_set}
        for key, value in (*part._parameters.items(), *buffers.items()):
            if value is not None:
                found[f'{prefix}.{key}'.lstrip('.')] = value
    return found


def _scales(layer: BinaryLayer) -> int:
    quantizer = layer.weight_quantizer
    if quantizer is None:
        return 0
    if quantizer.factors is not None:
        return quantizer.factors
    if not quantizer.values.has_codes:
        return 2**quantizer.bits * int(layer.weight.shape[0])
    with torch.no_grad():
        scale = quantizer.codes(layer.weight)[1]
    return 0 if scale is None else scale.numel()


def _in_a_prediction(key: str) -> bool:
    """Whether a quantizer's parameter is needed once training is over; those of weights are in the codes by then."""
    return key.startswith('activation_quantizer.') and key.count('.') == 1
