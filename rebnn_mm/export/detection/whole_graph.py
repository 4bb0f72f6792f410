"""A detector as one graph, from the image to boxes, scores and labels, as mmdet's classes compute them."""

from importlib.util import find_spec
from typing import Any

import onnx
import onnx_ir as ir
import torch
from torch import Tensor, nn

from ..trace import trace
from .boxes import image_corners
from .graph import GraphBuilder
from .traced_parts import ImageStage, RegionStage, example_image, two_stage

EXAMPLE_REGIONS = 3


def explain_unsupported(model: nn.Module) -> str:
    """Say why a model's prediction has no graph of its own; empty if it has.

    The graph does what mmdet's own classes do when they predict. A class that does the same by inheritance is
    supported, whatever else it changes (BiDet's heads, for example); one that replaces a method on that way is not.
    """
    if find_spec('mmdet') is None:
        return 'it is not a detector of mmdet'
    from .heads import reasons

    return next(reasons(model), '')


def detector_graph(model: nn.Module) -> onnx.ModelProto:
    """The graph of a supported detector, with dynamic image size; its inputs and outputs are in docs/format.md.

    Convolutions and linear layers are traced; what mmdet does around them when it predicts (anchors, decoding, top-k,
    non-maximum suppression, RoIAlign) is written with standard operators, in mmdet's order of operations. Packed
    layers are operators of ours, and the functions that define them are attached.
    """
    from . import heads

    stage = ImageStage(model)
    example = example_image(model)
    with torch.no_grad():
        maps, features = stage(example)
    part = trace(
        stage, {'image': example}, _number_names('map', maps) + _number_names('feature', features), {'image': [2, 3]}
    )

    g = GraphBuilder('detector')
    image = g.input('image', ir.DataType.FLOAT, [1, example.shape[1], 'height', 'width'])
    limit = image_corners(g, g.input('valid_size', ir.DataType.INT64, [2]))
    values = g.insert(ir.from_proto(part), image)
    head: Any = model.rpn_head if two_stage(model) else model.bbox_head
    levels = head.prior_generator.num_levels
    by_level = [tuple(values[level : len(maps) : levels]) for level in range(levels)]
    if two_stage(model):
        roi_head: Any = model.roi_head
        extractor = roi_head.bbox_roi_extractor
        regions = heads.proposals(g, head, by_level, limit)
        given = values[len(maps) :][: extractor.num_inputs]
        pooled, place = heads.pool_regions(g, extractor, given, regions)
        size = (EXAMPLE_REGIONS, features[0].shape[1], *extractor.roi_layers[0].output_size)
        second = trace(RegionStage(model), {'regions': torch.zeros(size)}, ['logits', 'deltas'], {'regions': [0]})
        logits, deltas = (g('Gather', values, place) for values in g.insert(ir.from_proto(second), pooled))
        found = heads.two_stage_detections(g, roi_head.bbox_head, roi_head.test_cfg, regions, logits, deltas, limit)
    else:
        found = heads.one_stage_detections(g, head, by_level, limit)
    g.output('boxes', found.boxes, ir.DataType.FLOAT, ['detections', 4])
    g.output('scores', found.scores, ir.DataType.FLOAT, ['detections'])
    g.output('labels', found.labels, ir.DataType.INT64, ['detections'])
    return ir.to_proto(g.finish())


def _number_names(name: str, values: tuple[Tensor, ...]) -> list[str]:
    return [f'{name}_{i}' for i in range(len(values))]
