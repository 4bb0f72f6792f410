from io import StringIO

import onnx
import pytest
import torch
from mmengine.registry import DefaultScope
from onnx import numpy_helper
from rich.console import Console
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.export import pack
from rebnn_mm.export.examples import Image
from rebnn_mm.export.report import print_report, report_of
from rebnn_mm.export.tasks import Task, graph_of, torch_outputs
from rebnn_mm.methods import ReBNNConv2d


@pytest.mark.slow
def test_the_weight_of_a_layer_that_is_called_for_every_level_counts_once():
    pytest.importorskip('mmdet')
    from .detection.detectors import DELTAS, RETINA_ANCHORS, one_stage

    task, image = Task('detection'), torch.zeros(1, 3, 64, 96)
    with DefaultScope.overwrite_default_scope('mmdet'):
        binary = dict(type='ReBNNConv2d')
        head = dict(type='RetinaHead', conv_cfg=binary, anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS)
        model = one_stage(head)
        packed = pack(model)
        graph = graph_of(packed.model, task, image)
        costs = count_layers(model, lambda: torch_outputs(model, task, Image(image.numpy(), (64, 96))))
    report = report_of(graph, costs, packed.packed, packed.real, 'an image', len(graph.SerializeToString()))
    sizes = {tensor.name: numpy_helper.to_array(tensor).nbytes for tensor in graph.graph.initializer}
    real = {name: size for name, size in sizes.items() if not name.endswith('.bits')}
    assert report.real_size == sum(real.values()) > 0
    assert report.packed_size == sum(sizes.values()) - report.real_size > 0
    assert {f'bbox_head.{name}_convs.0.conv' for name in ('cls', 'reg')} <= set(packed.packed)
    out = StringIO()
    print_report(report, Console(file=out))
    assert f'{report.real_size:,} of real constants' in ' '.join(out.getvalue().split())


def test_packed_layers_that_are_slower_than_real_ones_are_named():
    net = nn.Sequential(ReBNNConv2d(32, 32, 3, groups=32), ReBNNConv2d(32, 32, 1), nn.Conv2d(32, 32, 3, groups=32))
    costs = count_layers(net, lambda: net(torch.ones(1, 32, 8, 8)))
    report = report_of(onnx.ModelProto(), costs, ['0', '1'], {}, 'an image of 8 x 8', 2000)
    out = StringIO()
    print_report(report, Console(file=out, width=400))
    assert (
        'Slow: 1 grouped binary layer is slower packed than real: 0. An output sees 1 input channel' in out.getvalue()
    )
    assert report_of(onnx.ModelProto(), costs, ['1'], {'0': 'named'}, '', 2000).slow == ''
