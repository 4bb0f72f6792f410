"""Accounting rules: what a size and an operation count include.

Two figures under different rules cannot be compared.
"""

from typing import ClassVar

from .layer_cost import REAL_BITS, LayerCost, NetworkCost

MB, MIB = 1e6, 2.0**20


class Rule:
    """Everything a prediction needs, and multiply-accumulates weighed by their bits.

    Size: every weight at its own bits, packed without gaps; 32 bits for each bias, factor per output channel, shift,
    slope and embedding; two 32-bit values per channel of a batch norm, into which its four vectors fold. MB is 10^6
    bytes.

    Operations: a multiply-accumulate costs ``w * a / 64`` where weight and activation have w and a bits, since a
    64-bit word holds 64 products of one bit: 1/64 for 1-1, 1/4 for 4-4. With a real factor on either side (32-1, 1-32)
    it costs one, as between real numbers: a sign before a real number saves the multiplication, not the addition.
    Norms, activations, pooling and additions are left out.

    Attributes:
        name: as given to ``--rule``.
        about: what it counts, in a sentence or two.
        bytes_per_unit: bytes in a unit of size.

    Example:
        >>> conv = LayerCost('conv', 'ReBNNConv2d', 1, 1, weights=6400, scales=10, macs=6400, calls=1)
        >>> rule = Rule()
        >>> rule.layer_bytes(conv), rule.layer_ops(conv)
        (840.0, 100.0)
    """

    name: ClassVar[str] = 'honest'
    about: ClassVar[str] = (
        'everything a prediction needs; weights at their bits, all else (biases, factors, shifts, slopes, two values '
        'per channel of a batch norm) at 32; w*a/64 operations per multiply-accumulate, 1 with a real factor; no '
        'elementwise operations'
    )
    bytes_per_unit: ClassVar[float] = MB

    @property
    def unit(self) -> str:
        """MB (10^6 bytes) or MiB (2^20)."""
        return 'MB' if self.bytes_per_unit == MB else 'MiB'

    def layer_bytes(self, layer: LayerCost) -> float:
        """Bytes of one layer."""
        return layer.weights * layer.weight_bits / 8 + 4 * (layer.bias + layer.scales + layer.vectors)

    def layer_ops(self, layer: LayerCost) -> float:
        """Operations of one layer."""
        if not layer.quantized:
            return float(layer.macs)
        return layer.macs * layer.weight_bits * layer.activation_bits / 64

    def size(self, network: NetworkCost) -> float:
        """Size of a network, in the rule's unit."""
        return sum(map(self.layer_bytes, network.layers)) / self.bytes_per_unit

    def ops(self, network: NetworkCost) -> float:
        """Operations of a network."""
        return sum(map(self.layer_ops, network.layers))


class BertDeployRule(Rule):
    name = 'bert-deploy'
    about = (
        'everything that a prediction needs, as honest counts it, in MiB; 2 operations per multiply-accumulate, '
        'w*a/64 of that where both factors are quantized (Table 4 counts two, Tables 2 and 3 one)'
    )
    bytes_per_unit = MIB

    def layer_ops(self, layer: LayerCost) -> float:
        return 2 * super().layer_ops(layer)


class BertBitsRule(BertDeployRule):
    name = 'bert-bits'
    about = 'bits of quantized weights and embeddings, nothing else, in MiB; operations as bert-deploy'

    def layer_bytes(self, layer: LayerCost) -> float:
        return layer.weights * layer.weight_bits / 8 if layer.weight_bits < REAL_BITS else 0.0


RULES: dict[str, Rule] = {rule.name: rule for rule in (Rule(), BertDeployRule(), BertBitsRule())}
"""The rules that ``rebnn ops --rule`` takes, by name."""
