"""A GPU without a card: tensors on ``cuda`` that have a shape, a type and a device, but no values."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OnlyCuda(TorchDispatchMode):
    """Refuses whatever gives a tensor on another device.

    Together with a tensor on the card it is an error there, or, if it is a single number, a copy at each step.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        elsewhere = {t.device.type for t in tree_leaves(result) if isinstance(t, torch.Tensor)} - {'cuda'}
        assert not elsewhere, f'{func} gives a tensor on {", ".join(elsewhere)}'
        return result


@contextmanager
def fake_gpu() -> Iterator[None]:
    """Compute with tensors that stand for a card's; what needs a value of theirs is an error, such as ``item()``."""
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(), OnlyCuda():
        # PyTorch's own pass backwards asks the driver for streams, and its autocast for a card.
        patch.setattr(torch.autograd, 'backward', backward)
        patch.setattr(torch.autograd, 'grad', grad)
        patch.setattr(torch.cuda.amp.common, 'amp_definitely_not_available', lambda: False)
        patch.setattr(torch.cuda, 'is_bf16_supported', lambda: True)
        yield


def stand_in(*shape: int, **options: Any) -> torch.Tensor:
    """A tensor on the card."""
    return torch.empty(shape, device='cuda', **options)


def to_fake_gpu(module: nn.Module) -> nn.Module:
    """Put stand-ins in the place of a module's parameters and buffers."""
    new: dict[torch.Tensor, torch.Tensor] = {}
    for owner in module.modules():
        for held in (owner._parameters, owner._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if tensor not in new:
                    there = stand_in(*tensor.shape, dtype=tensor.dtype)
                    is_parameter = isinstance(tensor, nn.Parameter)
                    new[tensor] = nn.Parameter(there, tensor.requires_grad) if is_parameter else there
                held[name] = new[tensor]
    return module


def backward(tensors: torch.Tensor, grad_tensors: torch.Tensor | None = None, *args: Any, **kwargs: Any) -> None:
    """``torch.autograd.backward`` of one tensor."""
    for leaf, found in _gradients(tensors, grad_tensors):
        leaf.grad = found if leaf.grad is None else leaf.grad + found


def grad(
    outputs: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    grad_outputs: torch.Tensor | None = None,
    allow_unused: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """``torch.autograd.grad`` of one tensor with respect to leaves."""
    found = dict(_gradients(outputs, grad_outputs))
    assert allow_unused or set(found) >= set(inputs)
    return tuple(found.get(leaf) for leaf in inputs)


@torch.no_grad()
def _gradients(y: torch.Tensor, first: torch.Tensor | None) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """Leaves with their gradients."""
    waiting: dict[Any, int] = defaultdict(int)
    seen, stack = {y.grad_fn}, [y.grad_fn]
    while stack:
        for node, _ in stack.pop().next_functions:
            waiting[node] += 1
            if node is not None and node not in seen:
                seen.add(node)
                stack.append(node)
    arrived: dict[Any, dict[int, torch.Tensor]] = defaultdict(dict)
    arrived[y.grad_fn][y.output_nr] = torch.ones_like(y) if first is None else first
    ready = [y.grad_fn]
    while ready:
        node = ready.pop()
        grads = arrived.pop(node, {})
        if hasattr(node, 'variable'):
            if grads:
                yield node.variable, grads[0]
            continue
        results = _call(node, [grads.get(i) for i in range(len(node._input_metadata))]) if grads else []
        wanting = [edge for edge in node.next_functions if edge[0] is not None]
        for (following, index), result in zip_longest(wanting, results):
            if result is not None:
                asked = following._input_metadata[index]
                result = result.sum_to_size(asked.shape).to(asked.dtype)
                before = arrived[following].get(index)
                arrived[following][index] = result if before is None else before + result
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)


def _call(node: Any, grads: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """What a node gives those of its inputs that want a gradient."""
    if hasattr(node, 'apply'):  # written in Python
        results = _as_tuple(node.apply(*grads))
        return [result for result, wanted in zip(results, node.needs_input_grad, strict=True) if wanted]
    edges = zip_longest(node.next_functions, _as_tuple(node(*grads)))
    return [result for (following, _), result in edges if following is not None]


def _as_tuple(results: Any) -> tuple:
    return results if isinstance(results, tuple) else (results,)
