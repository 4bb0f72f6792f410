"""Accounting rules of the paper's Tables 2 and 3, found by fitting their figures."""

import re
from typing import ClassVar

from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost

from .rule import MB, MIB, BertBitsRule, BertDeployRule, Rule


def _norm_ops(layer: LayerCost) -> float:
    return 2.0 * layer.values_out if layer.norm else 0.0


class ImageNetRule(Rule):
    name = 'paper-imagenet'
    about = 'Table 2, 1-bit rows: weights and biases only, no batch norm, factor, shift or slope; BOPs/64 + FLOPs'

    def layer_bytes(self, layer: LayerCost) -> float:
        return layer.weights * layer.weight_bits / 8 + 4 * layer.bias


class ImageNetRealRule(Rule):
    name = 'paper-imagenet-real'
    about = (
        'Table 2, full-precision rows: all parameters; multiply-accumulates, 2 operations per value of a batch norm, '
        "1 per value of each ReLU module's last call, and the max pooling's input (torchstat's total)"
    )

    def layer_ops(self, layer: LayerCost) -> float:
        last = 1
        for size in layer.output:
            last *= size
        return (
            layer.macs
            + _norm_ops(layer)
            + (last if layer.kind == 'ReLU' else 0)
            + (layer.values_in if layer.kind == 'MaxPool2d' else 0)
        )


class HookCounterRule(Rule):
    """Base of the full-precision detectors' rules: the counter of module hooks that came with mmdet 2.0."""

    bytes_per_unit = MIB

    def layer_ops(self, layer: LayerCost) -> float:
        pool = layer.values_in if layer.kind in ('MaxPool2d', 'AvgPool2d') else 0
        relu = layer.values_out if layer.kind == 'ReLU' else 0
        bias = layer.values_out if layer.bias and 'Conv' in layer.kind else 0
        return layer.macs + bias + _norm_ops(layer) + relu + pool


class FasterRCNNRealRule(HookCounterRule):
    name = 'paper-faster-rcnn-real'
    about = (
        "Table 3, full-precision Faster R-CNN: all parameters and running statistics, in MiB; mmdet 2.0's hook "
        'counter (multiply-accumulates, biases of convolutions, 2 per value of a batch norm, ReLU, input of pooling)'
    )

    def layer_bytes(self, layer: LayerCost) -> float:
        return super().layer_bytes(layer) + 4 * layer.running


class FasterRCNN4BitRule(HookCounterRule):
    """4-bit Faster R-CNN of Table 3; its operations are counted on the full-precision network as if it had 4 bits."""

    name = 'paper-faster-rcnn-4bit'
    about = (
        'Table 3, 4-4 Faster R-CNN: quantized weights at 4 bits, other weights and biases, nothing else, in MiB; '
        "mmdet 2.0's hook counter divided by 8, except for the first layer, the predictors, the biases and the batch "
        "norms of the backbone; shortcuts and the second stage's batch norms are divided, too"
    )
    bits: ClassVar[int] = 4
    cost: ClassVar[float] = 1 / 8

    def layer_bytes(self, layer: LayerCost) -> float:
        return layer.weights * self.bits / 8 if layer.quantized else 4.0 * (layer.weights + layer.bias)

    def layer_ops(self, layer: LayerCost) -> float:
        counted = super().layer_ops(layer)
        real: float = counted - layer.macs if layer.product else 0.0
        ends = re.fullmatch(r'backbone\.conv1|rpn_head\.rpn_(cls|reg)|roi_head\.bbox_head\.fc_(cls|reg)', layer.name)
        if ends or (layer.norm and layer.name.startswith('backbone.')):
            real = counted
        return real + (counted - real) * self.cost


class FasterRCNN1BitRule(FasterRCNN4BitRule):
    name = 'paper-faster-rcnn-1bit'
    about = (
        'Table 3, 1-1 Faster R-CNN: as paper-faster-rcnn-4bit with 1 bit and 1/64, and one 32-bit factor per output '
        'channel of a quantized layer'
    )
    bits = 1
    cost = 1 / 64

    def layer_bytes(self, layer: LayerCost) -> float:
        return super().layer_bytes(layer) + 4 * layer.scales


class SSDRealRule(HookCounterRule):
    name = 'paper-ssd-real'
    about = "Table 3, full-precision SSD300: parameters in millions to two decimals, times 4 bytes; mmdet 2.0's hooks"
    bytes_per_unit = MB

    def size(self, network: NetworkCost) -> float:
        return 4 * round(super().size(network) / 4, 2)


class SSD4BitRule(Rule):
    """4-bit SSD300 of Table 3; the structure is BiDet's restructured VGG-16.

    Its size keeps other layers real than its operations do: the paper's two columns fit no common choice.
    """

    name = 'paper-ssd-4bit'
    about = (
        'Table 3, 4-4 SSD300: size of quantized weights at 4 bits, first layer, conv7 and predictors at 32, '
        'without the 1x1 convolutions of shortcuts, in MiB; multiply-accumulates / 8 except for first layer and '
        'predictors, 2 operations per value of a batch norm, 1 per value that enters pooling'
    )
    bytes_per_unit = MIB
    bits: ClassVar[int] = 4
    cost: ClassVar[float] = 1 / 8

    def layer_bytes(self, layer: LayerCost) -> float:
        if layer.quantized:
            return layer.weights * self.bits / 8
        if not layer.product or self._shortcut(layer):
            return 0.0
        return 4.0 * (layer.weights + layer.bias)

    def layer_ops(self, layer: LayerCost) -> float:
        real = re.match(r'backbone\.conv1_1\.|bbox_head\.', layer.name)
        pool = layer.values_in if layer.kind in ('MaxPool2d', 'AvgPool2d') else 0
        return layer.macs * (1 if real else self.cost) + _norm_ops(layer) + pool

    @staticmethod
    def _shortcut(layer: LayerCost) -> bool:
        return '.downsample.' in layer.name


class SSD1BitRule(SSD4BitRule):
    name = 'paper-ssd-1bit'
    about = (
        'Table 3, 1-1 SSD300: size of quantized weights at 1 bit with one factor per output channel, all other '
        'weights and biases, four vectors per batch norm, in MiB; operations as paper-ssd-4bit with 1/64'
    )
    bits = 1
    cost = 1 / 64

    def layer_bytes(self, layer: LayerCost) -> float:
        if layer.product:
            return (4.0 * layer.weights if self._shortcut(layer) else super().layer_bytes(layer)) + 4 * layer.scales
        return 4.0 * (layer.vectors + layer.running)


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(),
        BertDeployRule(),
        BertBitsRule(),
        ImageNetRule(),
        ImageNetRealRule(),
        FasterRCNNRealRule(),
        FasterRCNN4BitRule(),
        FasterRCNN1BitRule(),
        SSDRealRule(),
        SSD4BitRule(),
        SSD1BitRule(),
    )
}
"""The rules by name."""
