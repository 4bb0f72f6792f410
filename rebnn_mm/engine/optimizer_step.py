"""Functions that run around each step of a PyTorch optimizer, on final gradients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.optim import Optimizer

from rebnn_mm.errors import RebnnError
from rebnn_mm.layers import BinaryLayer


class AroundSteps:
    """Base of what works around the steps of optimizers, of each once."""

    def __init__(self, model: nn.Module) -> None:
        refuse_fsdp1(model)
        refuse_computed(model)
        self._handles: dict[Optimizer, list[Any]] = {}
        self._functions: dict[Optimizer, tuple[Callable[[], None] | None, Callable[[], None]]] = {}

    def _around(self, optimizer: Optimizer, before: Callable[[], None] | None, after: Callable[[], None]) -> None:
        if optimizer in self._handles:
            raise RebnnError(
                f'{type(self).__name__} is attached to this {type(optimizer).__name__} and would run twice in each '
                'step. Call attach() once for each optimizer, or detach() first.'
            )
        self._handles[optimizer] = around_step(optimizer, before, after, type(self).__name__)
        self._functions[optimizer] = before, after

    def go_last(self) -> None:
        """Work around each step after everything that has been attached since."""
        for optimizer, handles in self._handles.items():
            for handle in handles:
                handle.remove()
            self._handles[optimizer] = around_step(optimizer, *self._functions[optimizer], type(self).__name__)

    def detach(self) -> None:
        """Leave the optimizers' steps alone."""
        for handles in self._handles.values():
            for handle in handles:
                handle.remove()
        self._handles, self._functions = {}, {}


def trained_by(optimizer: Optimizer) -> set[int]:
    """Return the ``id`` of each parameter of an optimizer."""
    return {id(parameter) for group in optimizer.param_groups for parameter in group['params']}


def around_step(
    optimizer: Optimizer, before: Callable[[], None] | None, after: Callable[[], None], owner: str
) -> list[Any]:
    """Call functions before and after each step of an optimizer, also of a step that computes its own gradients.

    Step hooks see the gradient after accumulation, after DDP's reduction and after ``GradScaler`` has unscaled it, and
    are not called for a step that is skipped for inf. ``step(closure)``, which Lightning always uses, computes the
    gradient inside the step: ``before`` then follows the call of the closure. Both run without recording gradients.
    Returns handles, whose ``remove()`` takes the hooks away. ``owner`` is named where a step is refused.
    """
    if hasattr(optimizer, 'first_step') and hasattr(optimizer, 'second_step'):
        raise RebnnError(
            f'{type(optimizer).__name__} steps by first_step() and second_step(), where the rule at step() is not '
            'called. Attach to the optimizer that it wraps: attach(optimizer.base_optimizer).'
        )
    # A wrapper may be of the class Optimizer and have nothing of one, as that of accelerate.
    if not hasattr(optimizer, '_optimizer_step_pre_hooks'):
        raise RebnnError(
            f'{type(optimizer).__name__} was not set up as a torch.optim.Optimizer, so that its steps cannot be '
            'followed. Attach to the optimizer that it wraps.'
        )
    if type(optimizer).__name__ == 'ZeroRedundancyOptimizer':
        raise RebnnError(
            'ZeroRedundancyOptimizer shards the step, where the rule cannot see whole channels; use the plain '
            'optimizer, or FSDP2 (fully_shard).'
        )

    if before is not None and any(group.get('maximize') for group in optimizer.param_groups):
        what = f'{owner} adds to gradients what a step has to take off'
        raise RebnnError(what, fix='Turn the sign of the loss in place of maximize=True.')

    def before_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(stepping, 'grad_scale', None) is not None:
            raise RebnnError(
                f'{owner}: optimizer {type(stepping).__name__}(fused=True) with AMP sees scaled gradients, so that '
                'what is made of them would be wrong by the loss scale, and does not tell which steps it skips. Use '
                'fused=False in optim_wrapper.optimizer.'
            )
        if before is None:
            return None
        closure = kwargs['closure'] if kwargs.get('closure') else args[1] if len(args) > 1 else None
        finish = torch.no_grad()(before)
        if closure is None:
            finish()
            return None

        calls = 0

        def finished() -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise RebnnError(
                    f'{type(stepping).__name__} computes the gradient more than once in a step, and {owner} follows '
                    'steps of one gradient. Use an optimizer that computes it once, such as Adam.'
                )
            loss = closure()
            finish()
            return loss

        return (args[0], finished, *args[2:]), {key: value for key, value in kwargs.items() if key != 'closure'}

    def after_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with torch.no_grad():
            after()

    return [optimizer.register_step_pre_hook(before_step), optimizer.register_step_post_hook(after_step)]


def refuse_fsdp1(model: nn.Module) -> None:
    """Refuse ``FullyShardedDataParallel``, whose flat parameters hide the channels."""
    classes = {kind.__name__ for part in model.modules() for kind in type(part).__mro__}
    flat = any(hasattr(p, '_is_flat_param') or hasattr(p, '_flat_param') for p in model.parameters())
    if flat or 'FullyShardedDataParallel' in classes:
        raise RebnnError(
            'FullyShardedDataParallel flattens parameters, and rules of binary layers need whole channels. Use FSDP2 '
            "(torch.distributed.fsdp.fully_shard) or DistributedDataParallel (mmengine's --launcher)."
        )


def refuse_sharded(layers: Mapping[str, BinaryLayer], owner: str) -> None:
    """Refuse weights of which no process holds all, for an owner that looks at all signs of a layer."""
    for name, layer in layers.items():
        if isinstance(layer.weight, DTensor):
            raise RebnnError(
                f'{owner}: the weight of layer {name!r} is sharded (FSDP), so no process sees all of its signs; use '
                f"DistributedDataParallel (mmengine's --launcher) or remove the {owner}."
            )


def refuse_computed(model: nn.Module) -> None:
    """Refuse binary layers whose weight is made of others, as parametrizations, weight_norm and pruning do."""
    for layer in model.modules():
        if isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None and 'weight' not in layer._parameters:
            raise layer.computed_error()


def local(tensor: Tensor) -> Tensor:
    """Return the channels of a parameter that this process holds; the parameter itself if it is not sharded."""
    if not isinstance(tensor, DTensor):
        return tensor
    if not all(isinstance(p, Replicate) or p == Shard(0) for p in tensor.placements):
        raise RebnnError(f'rules of binary layers need whole channels, Shard(0); this one has {tensor.placements}')
    return tensor.to_local()


@contextmanager
def whole(weight: Tensor) -> Iterator[Tensor]:
    """Give a rule all channels of a weight and its gradient; this process keeps what it changes in its own ones."""
    if not isinstance(weight, DTensor):
        yield weight
        return
    joined = nn.Parameter(weight.full_tensor())
    joined.grad = weight.grad.full_tensor() if isinstance(weight.grad, DTensor) else None
    yield joined
    for own, changed in ((weight, joined.detach()), (weight.grad, joined.grad)):
        if own is not None and changed is not None:
            own.copy_(distribute_tensor(changed, weight.device_mesh, weight.placements))
