"""BiDet's SSD300 as a list of layers: the network that the SSD rows of the paper's Table 3 were counted on."""

from collections.abc import Iterator

from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
EXTRAS = ((256, 1, 1, 0), (512, 3, 2, 1), (128, 1, 1, 0), (256, 3, 2, 1), (128, 1, 1, 0), (256, 3, 1, 0)) + (
    (128, 1, 1, 0),
    (256, 3, 1, 0),
)
"""Channels, kernel, stride and padding of the extra layers."""


def bidet_ssd_cost(classes: int = 21, size: int = 300) -> NetworkCost:
    """The layers of a 1-bit SSD300 on BiDet's VGG-16, with four values per box.

    Every pooling but the last is a 3x3 convolution with stride 2 which widens, in addition to VGG's convolutions; its
    shortcut is average pooling and a real 1x1 convolution. The SSD configs of this package widen in the convolution
    after it instead, so that VGG's weights fit, and have other counts. Names are those of this package.

    Args:
        classes: outputs per anchor, background included: 21 on VOC, 81 on COCO.
        size: height and width of the input.

    Example:
        >>> network = bidet_ssd_cost()
        >>> network.macs, sum(layer.weights for layer in network.layers)
        (42920129024, 32166080)
    """
    layers: list[LayerCost] = []
    tapped: list[tuple[int, int]] = []
    channels = 3
    for i, (width, convs) in enumerate(STAGES, start=1):
        for j in range(1, convs + 1):
            layers += _conv(f'backbone.conv{i}_{j}', channels, width, 3, size, binary=channels != 3)
            channels = width
        tapped = [(width, size)] if i == 4 else tapped
        if i < len(STAGES):
            wider = STAGES[i][0]
            layers.append(_pool(f'backbone.pool{i}.pool', 'AvgPool2d', channels, size))
            size = -(-size // 2)
            layers += _conv(f'backbone.pool{i}', channels, wider, 3, size)
            layers += _conv(f'backbone.pool{i}.downsample', channels, wider, 1, size, binary=False)
            channels = wider
    layers.append(_pool('backbone.pool5', 'MaxPool2d', channels, size))
    layers += _conv('backbone.conv6', channels, 1024, 3, size)
    layers += _conv('backbone.conv7', 1024, 1024, 1, size, binary=False, bias=True)
    layers.append(LayerCost('neck.l2_norm', 'L2Norm', vectors=512, calls=1))
    tapped.append((1024, size))
    channels = 1024
    for i, (width, kernel, stride, padding) in enumerate(EXTRAS):
        size = (size + 2 * padding - kernel) // stride + 1
        layers += _conv(f'neck.extra_layers.{i // 2}.{i % 2}', channels, width, kernel, size)
        channels = width
        if i % 2:
            tapped.append((width, size))
    for i, ((width, side), anchors) in enumerate(zip(tapped, (4, 6, 6, 6, 4, 4), strict=True)):
        for branch, values in (('reg', 4), ('cls', classes)):
            name = f'bbox_head.{branch}_convs.{i}'
            layers += _conv(name, width, anchors * values, 3, side, binary=False, bias=True, norm=False)
    return NetworkCost(tuple(layers), (300, 300))


def _conv(
    name: str,
    inputs: int,
    outputs: int,
    kernel: int,
    side: int,
    *,
    binary: bool = True,
    bias: bool = False,
    norm: bool = True,
) -> Iterator[LayerCost]:
    """A convolution whose output is side x side, and its batch norm."""
    weights, positions = inputs * outputs * kernel**2, side**2
    yield LayerCost(
        f'{name}.conv',
        'BiDetConv2d' if binary else 'Conv2d',
        weight_bits=1 if binary else 32,
        activation_bits=1 if binary else 32,
        weights=weights,
        bias=outputs if bias else 0,
        scales=outputs if binary else 0,
        macs=weights * positions,
        calls=1,
        output=(1, outputs, side, side),
        values_out=outputs * positions,
    )
    if norm:
        vectors = 2 * outputs
        shape = (1, outputs, side, side)
        yield LayerCost(
            f'{name}.bn',
            'BatchNorm2d',
            vectors=vectors,
            running=vectors,
            calls=1,
            output=shape,
            values_out=outputs * positions,
        )


def _pool(name: str, kind: str, channels: int, side: int) -> LayerCost:
    return LayerCost(name, kind, calls=1, values_in=channels * side**2)
