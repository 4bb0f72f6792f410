"""Accounting rules: what a size and an operation count include.

Two figures under different rules cannot be compared.
"""

from typing import ClassVar

from rebnn_mm.analysis.layer_cost import COUNTED, REAL_BITS, LayerCost, NetworkCost

MB, MIB = 1e6, 2.0**20


class Rule:
    """What the package counts: everything a prediction needs in MB, and multiply-accumulates weighed by their bits.

    Attributes:
        name: by which it is chosen.
        about: what it counts, in a sentence or two.
        bytes_per_unit: bytes in a unit of size.
    """

    name: ClassVar[str] = 'honest'
    about: ClassVar[str] = COUNTED
    bytes_per_unit: ClassVar[float] = MB

    @property
    def unit(self) -> str:
        """MB (10^6 bytes) or MiB (2^20)."""
        return 'MB' if self.bytes_per_unit == MB else 'MiB'

    def layer_bytes(self, layer: LayerCost) -> float:
        """Bytes of one layer."""
        return layer.deployed_bytes

    def layer_ops(self, layer: LayerCost) -> float:
        """Operations of one layer."""
        return layer.ops

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
