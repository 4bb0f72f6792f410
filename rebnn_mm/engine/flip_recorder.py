"""The flips of a whole model's binary weights, around any PyTorch optimizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..layers import BinaryLayer
from .resilient_gradient import SHARDED_TYPES
from .sign_history import SignHistory


@dataclass
class FlipCounts:
    """Flips of one layer since counting began.

    Attributes:
        weights: how many weights the layer has.
        steps: optimizer steps that moved it.
        flips, sequential_flips: summed over these steps (:class:`rebnn_mm.engine.sign_history.SignHistory`).
    """

    weights: int
    steps: int = 0
    flips: int = 0
    sequential_flips: int = 0

    def add(self, other: 'FlipCounts') -> None:
        """Add what came later."""
        self.steps += other.steps
        self.flips += other.flips
        self.sequential_flips += other.sequential_flips


class FlipRecorder:
    """Counts, for every binary layer of any method, the signs that optimizer steps and epochs change.

    It hangs behind ``optimizer.step``, so it counts real steps: accumulated iterations are one, and a step that AMP
    skips is none. It reads weights, draws no random number and changes nothing, so training is the same to the last
    bit. It costs one byte of memory per weight and some passes over the weights per step.

    What constrains weights after a step (:class:`MethodDriver`) has to be attached first. Inside mmengine use
    :class:`BinaryWeightRecorderHook`.

    Args:
        model: a model with binary layers; wrapped in DDP or not.

    Example:
        >>> from rebnn_mm.methods import BNNLinear
        >>> model = nn.Sequential(BNNLinear(8, 4))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
        >>> recorder = FlipRecorder(model).attach(optimizer)
        >>> model(torch.randn(16, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> counts = recorder.take_counts()['0']
        >>> counts.weights, counts.steps, counts.flips > 0, counts.sequential_flips
        (32, 1, True, 0)
    """

    def __init__(self, model: nn.Module) -> None:
        self.layers = {
            name.removeprefix('module.'): module
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and module.weight_quantizer is not None
        }
        """The layers with binary weights, in the model's order; those of an attached optimizer are recorded."""
        self._histories: dict[str, SignHistory] = {}
        self._handles: list[Any] = []

    @property
    def recorded(self) -> Sequence[str]:
        """Names of the layers that an attached optimizer trains."""
        return [name for name in self.layers if name in self._histories]

    def attach(self, optimizer: Optimizer) -> 'FlipRecorder':
        """Count the flips of the layers that this optimizer trains, from now on; call once per optimizer.

        Args:
            optimizer: holds the weights of some or all binary layers.

        Returns:
            FlipRecorder: itself.

        Raises:
            ValueError: the weights are sharded (FSDP), so that no process sees whole layers.
        """
        held = {id(parameter) for group in optimizer.param_groups for parameter in group['params']}
        layers = {name: layer for name, layer in self.layers.items() if id(layer.weight) in held}
        for name, layer in layers.items():
            if {type(layer.weight).__name__, type(layer.weight.data).__name__} & set(SHARDED_TYPES):
                raise ValueError(
                    f'FlipRecorder: the weight of layer {name!r} is sharded (FSDP), so its flips cannot be counted in '
                    "one process; use DistributedDataParallel (mmengine's --launcher) or remove the recorder."
                )
        own = {name: SignHistory(layer) for name, layer in layers.items()}

        def after_step(stepping: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for history in own.values():
                if history.moves:
                    history.step()

        self._histories |= own
        self._handles.append(optimizer.register_step_post_hook(after_step))
        return self

    def detach(self) -> None:
        """Stop counting."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def take_counts(self) -> dict[str, FlipCounts]:
        """Counts by layer since the last call; brings the numbers from the device once."""
        histories = [self._histories[name] for name in self.recorded]
        numbers = _brought([history.take_step_counts() for history in histories])
        counts = {}
        for name, history, (flips, sequential) in zip(self.recorded, histories, numbers, strict=True):
            counts[name] = FlipCounts(history.weights, history.steps, flips, sequential)
            history.steps = 0
        return counts

    def close_epoch(self) -> dict[str, tuple[int, int]]:
        """Flips and sequential flips of the epoch that ends, by layer; the next one begins."""
        numbers = _brought([self._histories[name].close_epoch() for name in self.recorded])
        return dict(zip(self.recorded, numbers, strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        """What is remembered of each weight, by layer: uint8 on the CPU."""
        return {name: self._histories[name].state.to('cpu', copy=True) for name in self.recorded}

    def load_state_dict(self, states: dict[str, Tensor]) -> None:
        """Go on where another recorder stood; layers that are missing or of another shape begin anew."""
        for name, state in states.items():
            history = self._histories.get(name)
            if history is not None and history.state.shape == state.shape:
                history.state.copy_(state)


def _brought(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[int, int]]:
    """Numbers from the device, together, because each transfer waits for it."""
    if not pairs:
        return []
    together = torch.stack([torch.stack([one.long(), other.long()]) for one, other in pairs])
    return [(int(one), int(other)) for one, other in together.tolist()]
