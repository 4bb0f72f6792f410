"""The flips of binary weights: signs that change, and change back, in one layer and in a whole model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..layers import BinaryLayer
from ..quantizers import SignWeight
from .optimizer_step import AroundSteps, refuse_sharded, trained_by

SIGN, CHANGED_IN_STEP, SIGN_AT_EPOCH, CHANGED_IN_EPOCH = 1, 2, 4, 8
"""The bits that are kept for each weight."""


class SignHistory:
    r"""Counts the flips of one layer over optimizer steps and epochs.

    :math:`b_j^t` is the sign of weight j after optimizer step t, as the layer computes with it
    (:func:`negative_weights`), :math:`c_j^e` that after the last step of epoch e.

    - A flip of step t: :math:`b_j^t \neq b_j^{t-1}`.
    - A sequential flip of step t: :math:`b_j^t \neq b_j^{t-1}` and :math:`b_j^{t-1} \neq b_j^{t-2}`, there and back.
    - A flip of epoch e and a sequential flip of epoch e: the same with c and e.

    A step counts if it moves the layer: not if the layer is frozen, not if AMP skips it; accumulated iterations are
    one step. What changes signs between two steps (RBNN turns its rotations before every epoch) counts with the
    second one. The memory is one byte per weight, on the weight's device.

    Source: the ReBNN paper, Eq. 10 to 12 (its Eq. 12 prints the second condition twice).
    """

    def __init__(self, layer: BinaryLayer) -> None:
        self._layer = layer
        sign = _negative_byte(layer)
        self.state = sign | sign * SIGN_AT_EPOCH
        """Four bits per weight, uint8, of the weight's shape."""
        self.steps = 0
        self._flips = torch.zeros((), dtype=torch.int64, device=sign.device)
        self._sequential = torch.zeros_like(self._flips)

    @property
    def weights(self) -> int:
        return self.state.numel()

    @property
    def moves(self) -> bool:
        """Whether the optimizer's step that has just been made changed the layer."""
        weight = self._layer.weight
        return weight.requires_grad and weight.grad is not None

    @torch.no_grad()
    def compare(self) -> None:
        """The part of a step that is about tensors, which a compiler can take."""
        sign = _negative_byte(self._layer)
        differing = self.state ^ sign
        changed = differing & SIGN
        self._flips += _count(changed)
        self._sequential += _count((differing >> 1).bitwise_and_(changed))
        self.state.bitwise_and_(SIGN_AT_EPOCH | CHANGED_IN_EPOCH).bitwise_or_(sign)
        self.state.add_(changed, alpha=CHANGED_IN_STEP)

    def take_step_counts(self) -> tuple[Tensor, Tensor]:
        """Flips and sequential flips of all steps since the last call, as int64 scalars on the device."""
        counts = self._flips, self._sequential
        self._flips, self._sequential = torch.zeros_like(self._flips), torch.zeros_like(self._flips)
        return counts

    def close_epoch(self) -> tuple[Tensor, Tensor]:
        sign = self.state & SIGN
        changed = (self.state >> 2).bitwise_xor_(sign).bitwise_and_(1)
        before = self.state >> 3
        self.state.bitwise_and_(SIGN | CHANGED_IN_STEP).add_(sign, alpha=SIGN_AT_EPOCH)
        self.state.add_(changed, alpha=CHANGED_IN_EPOCH)
        return _count(changed), _count(before.bitwise_and_(changed))


@torch.no_grad()
def negative_weights(layer: BinaryLayer) -> Tensor:
    """Return where the weight that the layer computes with has the lower sign: bool, of the latent weight's shape.

    That is where the integers of :meth:`rebnn_mm.quantizers.WeightQuantizer.codes` are below 0; for most methods where
    the latent weight is, for ReCU, IR-Net and BiBERT where the centred one is, for RBNN where the rotated one is, for
    SiMaN where the magnitude is below its channel's median, for BiPer where the sine is negative. Of two other values
    (AdaBin), which need not lie on both sides of 0, it is the lower one.
    """
    quantizer, weight = layer.weight_quantizer, layer.weight.detach()
    assert quantizer is not None
    # A tenth of the time of making the codes. The method and not the class: a subclass may have codes of its own.
    if type(quantizer).codes is SignWeight.codes:
        return quantizer.latent(weight) < 0
    if quantizer.values.has_codes:
        return quantizer.codes(weight)[0] < 0
    if quantizer.values.kind == 'two':
        return quantizer.two_values(weight)[0] < 0
    # In evaluation a method draws no noise.
    training = quantizer.training
    values = quantizer.eval()(weight)
    quantizer.train(training)
    return values < 0


def _negative_byte(layer: BinaryLayer) -> Tensor:
    negative = negative_weights(layer)
    # The compiler of PyTorch 2.11 has no view of a bool.
    return negative.to(torch.uint8) if torch.compiler.is_compiling() else negative.view(torch.uint8)


def _count(ones: Tensor) -> Tensor:
    # In 32 bits this takes half the time, and no layer has so many weights.
    return ones.sum(dtype=torch.int32)


@dataclass
class FlipCounts:
    """Flips of one layer, and the optimizer steps that moved it, since counting began."""

    weights: int
    steps: int = 0
    flips: int = 0
    sequential_flips: int = 0

    def add(self, other: 'FlipCounts') -> None:
        self.steps += other.steps
        self.flips += other.flips
        self.sequential_flips += other.sequential_flips


class FlipRecorder(AroundSteps):
    """Counts, for every binary layer of any method, the signs that optimizer steps and epochs change.

    It runs after ``optimizer.step``, so it counts real steps, and changes nothing: training is the same to the last
    bit. It costs one byte of memory per weight and some passes over the weights per step. What constrains weights
    after a step (:class:`MethodDriver`) has to be attached first. Layers given to the model or the optimizer later are
    not counted. Inside mmengine use :class:`BinaryWeightRecorderHook`.

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
        super().__init__(model)
        self.layers = {
            name.removeprefix('module.'): module
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and module.weight_quantizer is not None
        }
        """The layers with binary weights, in the model's order; those of an attached optimizer are recorded."""
        self._histories: dict[str, SignHistory] = {}
        self._compare = _compare

    @property
    def recorded(self) -> Sequence[str]:
        """Names of the layers that an attached optimizer trains."""
        return [name for name in self.layers if name in self._histories]

    def attach(self, optimizer: Optimizer) -> 'FlipRecorder':
        """Count the flips of the layers that an optimizer trains, from now on; call once for each. Returns itself.

        Raises:
            ValueError: the weights are sharded (FSDP), so that no process sees whole layers.
        """
        held = trained_by(optimizer)
        layers = {name: layer for name, layer in self.layers.items() if id(layer.weight) in held}
        refuse_sharded(layers, type(self).__name__)
        own = {name: SignHistory(layer) for name, layer in layers.items()}

        def after_step() -> None:
            moving = [history for history in own.values() if history.moves]
            self._compare(moving)
            for history in moving:
                history.steps += 1

        self._around(optimizer, None, after_step)
        self._histories |= own
        return self

    def compile(self, **options: Any) -> None:
        self._compare = torch.compile(_compare, **options)

    def take_counts(self) -> dict[str, FlipCounts]:
        """Counts by layer since the last call; brings the numbers from the device once."""
        histories = [self._histories[name] for name in self.recorded]
        numbers = _bring([history.take_step_counts() for history in histories])
        counts = {}
        for name, history, (flips, sequential) in zip(self.recorded, histories, numbers, strict=True):
            counts[name] = FlipCounts(history.weights, history.steps, flips, sequential)
            history.steps = 0
        return counts

    def close_epoch(self) -> dict[str, tuple[int, int]]:
        """Flips and sequential flips of the epoch that ends, by layer; the next one begins."""
        numbers = _bring([self._histories[name].close_epoch() for name in self.recorded])
        return dict(zip(self.recorded, numbers, strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        return {name: self._histories[name].state.to('cpu', copy=True) for name in self.recorded}

    def load_state_dict(self, states: dict[str, Tensor]) -> None:
        """Go on where another recorder stood; layers that are missing or of another shape begin again."""
        for name, state in states.items():
            history = self._histories.get(name)
            if history is not None and history.state.shape == state.shape:
                history.state.copy_(state)


def _compare(histories: Sequence[SignHistory]) -> None:
    for history in histories:
        history.compare()


def _bring(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[int, int]]:
    """Numbers from the device, together, because each transfer waits for it."""
    if not pairs:
        return []
    together = torch.stack([torch.stack([one.long(), other.long()]) for one, other in pairs])
    return [(int(one), int(other)) for one, other in together.tolist()]
