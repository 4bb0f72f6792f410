"""A detector as one graph: from the image to boxes, scores and labels."""

from typing import Any

import onnx
import onnx_ir as ir
import torch
from torch import Tensor, nn

from ..trace import trace
from .boxes import image_corners
from .graph import GraphBuilder
from .heads import Detections, one_stage_detections, pooled_regions, proposals, two_stage_detections
from .stages import ImageStage, RegionStage, example_image, two_stage, unsupported

EXAMPLE_REGIONS = 3


def detector_graph(model: nn.Module) -> onnx.ModelProto:
    """The graph of a detector, with dynamic image size; its inputs and outputs are in docs/format.md.

    Convolutions and linear layers are traced; what mmdet does around them when it predicts (anchors, decoding, top-k,
    non-maximum suppression, RoIAlign) is written with standard operators, in mmdet's order of operations. Packed
    layers are operators of ours, and the functions that define them are attached.

    Args:
        model: a one-stage or two-stage detector of mmdet in eval mode, as a rule packed by
            :func:`rebnn_mm.export.pack`. Thresholds and limits are those of its ``test_cfg``.

    Raises:
        ValueError: the model's prediction has no graph; the message says why.

    Example:
        >>> detector_graph(nn.Conv2d(3, 8, 1))
        Traceback (most recent call last):
        ValueError: Conv2d cannot be exported with boxes as outputs: it is no detector of mmdet.
    """
    reason = unsupported(model)
    if reason:
        raise ValueError(f'{type(model).__name__} cannot be exported with boxes as outputs: {reason}.')
    stage = ImageStage(model)
    example = example_image(model)
    with torch.no_grad():
        maps, features = stage(example)
    part = trace(stage, {'image': example}, _numbered('map', maps) + _numbered('feature', features), {'image': [2, 3]})

    g = GraphBuilder('detector')
    image = g.input('image', ir.DataType.FLOAT, [1, example.shape[1], 'height', 'width'])
    limit = image_corners(g, g.input('valid_size', ir.DataType.INT64, [2]))
    values = g.insert(ir.from_proto(part), image)
    head: Any = model.rpn_head if two_stage(model) else model.bbox_head
    levels = head.prior_generator.num_levels
    by_level = [tuple(values[level : len(maps) : levels]) for level in range(levels)]
    if two_stage(model):
        found = _second_stage(g, model, by_level, values[len(maps) :], features, limit)
    else:
        found = one_stage_detections(g, head, by_level, limit)
    g.output('boxes', found.boxes, ir.DataType.FLOAT, ['detections', 4])
    g.output('scores', found.scores, ir.DataType.FLOAT, ['detections'])
    g.output('labels', found.labels, ir.DataType.INT64, ['detections'])
    return ir.to_proto(g.finish())


def _second_stage(
    g: GraphBuilder,
    model: Any,
    maps: list[tuple[ir.Value, ...]],
    features: list[ir.Value],
    examples: tuple[Tensor, ...],
    limit: ir.Value,
) -> Detections:
    extractor, box_head = model.roi_head.bbox_roi_extractor, model.roi_head.bbox_head
    regions = proposals(g, model.rpn_head, maps, limit)
    pooled, place = pooled_regions(g, extractor, features[: extractor.num_inputs], regions)
    size = (EXAMPLE_REGIONS, examples[0].shape[1], *extractor.roi_layers[0].output_size)
    part = trace(RegionStage(model), {'regions': torch.zeros(size)}, ['logits', 'deltas'], {'regions': [0]})
    logits, deltas = (g('Gather', values, place) for values in g.insert(ir.from_proto(part), pooled))
    return two_stage_detections(g, box_head, model.roi_head.test_cfg, regions, logits, deltas, limit)


def _numbered(name: str, values: tuple[Tensor, ...]) -> list[str]:
    return [f'{name}_{i}' for i in range(len(values))]
