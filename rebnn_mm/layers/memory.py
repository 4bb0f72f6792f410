"""Memory of blocks of binary layers: PyTorch's checkpointing, told what to keep."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from ..functional.native import is_transformed

MEMORY = ('plain', 'sums', 'recompute')
"""What a block keeps for the backward pass: what PyTorch keeps of its operators; its input and the integer sums of its
binary layers; or its input only. The rest is computed again. Results are the same."""


def keep_sums(context: SelectiveCheckpointContext, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Policy of selective checkpointing: keep sums of signs, which are integers and expensive, and nothing else."""
    if operator is torch.ops.rebnn.sign_sums.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


class SecondPass:
    """Runs a block again in its context, without norms following the batch a second time."""

    def __init__(self, context: AbstractContextManager[Any], norms: Sequence[_NormBase]) -> None:
        self.context = context
        self.norms = norms
        self._before: list[tuple[_NormBase, float | None, Tensor | None]] = []
        self._sums: dict[Any, Any] = {}

    def __enter__(self) -> None:
        # PyTorch takes each out of its storage, so that a second backward pass (retain_graph=True) would find none.
        self._sums = {operator: copy(sums) for operator, sums in getattr(self.context, 'storage', {}).items()}
        for norm in self.norms:
            if norm.training and norm.track_running_stats:
                self._before.append((norm, norm.momentum, norm.num_batches_tracked))
                # Not track_running_stats=False, with which a norm saves fewer tensors than in the first pass.
                norm.momentum, norm.num_batches_tracked = 0.0, None
        self.context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)
        getattr(self.context, 'storage', {}).update(self._sums)
        for norm, momentum, count in self._before:
            norm.momentum, norm.num_batches_tracked = momentum, count
        self._before.clear()


def _contexts(
    norms: Sequence[_NormBase], memory: str
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return what the first and the second pass run in."""
    if memory != 'sums':
        return nullcontext(), SecondPass(nullcontext(), norms)
    first, second = create_selective_checkpoint_contexts(keep_sums)
    return first, SecondPass(second, norms)


def memory_of(*layers: nn.Module) -> str:
    """Return what a block of these layers keeps; ``'plain'`` where one is real, which is expensive to repeat."""
    found = [getattr(layer, 'memory', 'plain') for layer in layers if getattr(layer, 'binary', False)]
    return found[0] if layers and len(found) == len(layers) else 'plain'


def run_block(block: Callable[[Tensor], Tensor], x: Tensor, owners: Sequence[nn.Module], memory: str) -> Tensor:
    """Run a block and keep for the backward pass what ``memory`` says, one of :data:`MEMORY`.

    Values and gradients are those of the block itself; running statistics of norms follow the batch once. Where
    PyTorch traces or transforms the call, and where parameters have been swapped for other tensors
    (``torch.func.functional_call``, ``nn.DataParallel``), the block is simply called. ``owners`` are the modules whose
    parameters and norms it uses.
    """
    if memory == 'plain' or not torch.is_grad_enabled() or is_transformed():
        return block(x)
    modules = [module for owner in owners for module in owner.modules()]
    held = [tensor for module in modules for tensor in module._parameters.values() if tensor is not None]
    if any(not isinstance(tensor, nn.Parameter) for tensor in held) or not any(t.requires_grad for t in (x, *held)):
        return block(x)
    norms = [module for module in modules if isinstance(module, _NormBase)]
    return checkpoint(block, x, use_reentrant=False, context_fn=partial(_contexts, norms, memory))
