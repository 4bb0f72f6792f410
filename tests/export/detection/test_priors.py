"""Anchors and points: equal to mmdet's to the last bit, for every size of the map."""

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from mmdet.registry import TASK_UTILS

from rebnn_mm.export.detection.graph import GraphBuilder
from rebnn_mm.export.detection.priors import priors

from .detectors import ONE_ANCHOR, RETINA_ANCHORS, computed

SSD = dict(
    type='SSDAnchorGenerator',
    scale_major=False,
    input_size=300,
    basesize_ratio_range=(0.15, 0.9),
    strides=[8, 16, 32, 64, 100, 300],
    ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]],
)
GENERATORS = {
    'retina': RETINA_ANCHORS,
    'atss': ONE_ANCHOR,
    'ssd': SSD,
    'not square': dict(type='AnchorGenerator', scales=[2, 3], ratios=[0.3, 1.7], strides=[(12, 7)], center_offset=0.5),
    'points': dict(type='MlvlPointGenerator', strides=[8, (16, 24)], offset=0.5),
    'corners': dict(type='MlvlPointGenerator', strides=[8], offset=0),
}


def _written(generator: Any, level: int, g: GraphBuilder, feature_map: ir.Value) -> ir.Value:
    return priors(g, feature_map, generator, level)


@pytest.mark.parametrize('name', GENERATORS)
def test_priors_are_those_of_mmdet(name):
    generator = TASK_UTILS.build(GENERATORS[name])
    columns = 2 if 'Point' in type(generator).__name__ else 4
    for level in range(len(generator.strides)):
        for size in ((5, 3), (1, 1), (2, 17)):
            (found,) = computed(partial(_written, generator, level), 'f2', torch.zeros(1, 7, *size))
            wanted = generator.single_level_grid_priors(size, level, device='cpu').numpy()
            assert wanted.shape[1] == columns
            np.testing.assert_array_equal(found, wanted)
