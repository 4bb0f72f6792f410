"""Storage and computation of a network's layers, as plain numbers that accounting rules read."""

from collections.abc import Iterable
from dataclasses import dataclass

REAL_BITS = 32
"""Bits of a real value."""

WORTH_PACKING = 32
"""Input channels from which a grouped convolution is faster packed (lab/reports/performance.md)."""

COUNTED = (
    'everything a prediction needs; weights at their bits, all else (biases, factors, shifts, slopes, two values per '
    'channel of a batch norm) at 32; w*a/64 operations per multiply-accumulate, 1 with a real factor; no elementwise '
    'operations'
)
"""What sizes and operations include; those that others print may not."""

SHOWN = 4
"""Names that a sentence lists before it says how many there are."""


@dataclass(frozen=True)
class LayerCost:
    """Facts about one layer, for one image.

    A product layer is one with a :attr:`weights` or :attr:`macs`: a convolution, a linear layer, or a module that
    multiplies two activations (attention). All others are norms, activations, pooling and the like.
    """

    name: str  # dotted, in the model
    kind: str  # name of the class
    weight_bits: int = REAL_BITS
    activation_bits: int = REAL_BITS
    why: str = ''  # why a product layer is real; empty if it quantizes
    parameters: int = 0  # learnable values, those of its quantizers included
    weights: int = 0  # values of the weight, as stored (0 if another layer holds the same one)
    bias: int = 0
    # factors that a prediction needs besides the quantized weight: one per output channel, or the two levels of each
    # channel where a method has no integer codes; 0 where weight or factor is real or absent
    scales: int = 0
    # all other values that a prediction needs: shift of the activation quantizer; scale and shift per channel of a
    # norm, into which a batch norm folds four vectors; slopes; embeddings
    vectors: int = 0
    running: int = 0  # running statistics of a batch norm: 2 values per channel
    checkpoint_bytes: int = 0  # of its entries in the state dict, those of its quantizers included
    macs: int = 0  # multiply-accumulates, summed over all calls
    calls: int = 0
    output: tuple[int, ...] = ()  # shape of the last call's output
    values_in: int = 0  # of the input, summed over all calls
    values_out: int = 0  # of the output, summed over all calls
    group_channels: int = 0  # input channels that an output of a grouped convolution sees; 0 for other layers

    @property
    def deployed_bytes(self) -> float:
        """Bytes that a prediction needs: weights at their own bits, packed without gaps; everything else at 32."""
        return self.weights * self.weight_bits / 8 + 4 * (self.bias + self.scales + self.vectors)

    @property
    def ops(self) -> float:
        """Multiply-accumulates at w * a / 64 for factors of w and a bits, as a 64-bit word holds 64 products of one.

        With a real factor on either side (32-1, 1-32) one costs as much as between real numbers: a sign before a real
        number saves the multiplication, not the addition. Norms, activations, pooling and additions are left out.
        """
        return self.macs * self.weight_bits * self.activation_bits / 64 if self.quantized else float(self.macs)

    @property
    def slow_packed(self) -> bool:
        """Whether it is binary and grouped so finely that a real convolution is faster."""
        return self.precision == 'W1A1' and 0 < self.group_channels < WORTH_PACKING

    @property
    def product(self) -> bool:
        """Whether the layer multiplies by a weight, or two activations."""
        return self.weights > 0 or self.macs > 0

    @property
    def norm(self) -> bool:
        """Whether it is a batch norm."""
        return 'BatchNorm' in self.kind or self.running > 0

    @property
    def real(self) -> bool:
        """Whether nothing is quantized in it."""
        return min(self.weight_bits, self.activation_bits) == REAL_BITS

    @property
    def quantized(self) -> bool:
        """Whether both factors of its products are quantized, so that it needs no multiplication of real numbers."""
        return max(self.weight_bits, self.activation_bits) < REAL_BITS

    @property
    def precision(self) -> str:
        """Bits of weight and activation, such as W1A1."""
        return f'W{self.weight_bits}A{self.activation_bits}'


def find_slow_packed_layers(layers: Iterable[LayerCost]) -> str:
    """Name the binary layers that are slower packed than real, in a sentence; empty if there are none."""
    slow = [layer for layer in layers if layer.slow_packed]
    if not slow:
        return ''
    few, most = (fewest(layer.group_channels for layer in slow) for fewest in (min, max))
    names = [layer.name for layer in slow]
    shown = ', '.join(names[:SHOWN]) + (f' and {len(names) - SHOWN} more' if len(names) > SHOWN else '')
    return (
        f'{len(slow)} grouped binary {"layers are" if len(slow) > 1 else "layer is"} slower packed than real: '
        f'{shown}. '
        f'An output sees {few if few == most else f"{few} to {most}"} input channel{"s" if most > 1 else ""} '
        f'of the {WORTH_PACKING} from which on bits pay; with one it takes 14 to 35 times as long. Name them in '
        'keep_real of their conv_cfg to keep them real.'
    )


@dataclass(frozen=True)
class NetworkCost:
    """The layers of a network at one input."""

    layers: tuple[LayerCost, ...]  # every one that holds values, multiplies, or was called and has no parts
    shape: tuple[int, ...] = ()  # height and width of the input, or the tokens of a text
    rois: int | None = None  # regions of an image that a detector's second stage looks at; None without one

    @property
    def products(self) -> list[LayerCost]:
        """The layers that multiply."""
        return [layer for layer in self.layers if layer.product]

    @property
    def others(self) -> list[LayerCost]:
        """Norms, activations, pooling and the like."""
        return [layer for layer in self.layers if not layer.product]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of whatever precision."""
        return sum(layer.macs for layer in self.layers)

    @property
    def bops(self) -> int:
        """Bit operations: bits of the weight times bits of the activation per multiply-accumulate of quantized layers.

        For one bit each that is one XNOR with its share of the bit count.
        """
        return sum(layer.macs * layer.weight_bits * layer.activation_bits for layer in self.layers if layer.quantized)

    @property
    def flops(self) -> int:
        """Multiply-accumulates with at least one real factor."""
        return sum(layer.macs for layer in self.layers if not layer.quantized)

    @property
    def ops(self) -> float:
        """Operations of all layers."""
        return sum(layer.ops for layer in self.layers)

    @property
    def deployed_bytes(self) -> float:
        """Bytes that a prediction needs."""
        return sum(layer.deployed_bytes for layer in self.layers)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the state dict, latent weights included."""
        return sum(layer.checkpoint_bytes for layer in self.layers)

    @property
    def float_bytes(self) -> int:
        """Bytes of the same network with every weight in 32 bits and without quantizers."""
        return 4 * sum(layer.weights + layer.bias + (layer.vectors if layer.real else 0) for layer in self.layers)

    def macs_by_precision(self) -> dict[str, int]:
        """Multiply-accumulates of each precision, in the order in which the network has them."""
        found: dict[str, int] = {}
        for layer in self.layers:
            if layer.macs:
                found[layer.precision] = found.get(layer.precision, 0) + layer.macs
        return found

    def binary_share(self) -> float:
        """Share of the multiply-accumulates that have one bit on both sides; 0 for a network without any."""
        return self.macs_by_precision().get('W1A1', 0) / self.macs if self.macs else 0.0
