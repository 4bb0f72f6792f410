"""Small detectors with the structure of the configs, and what is needed to run them and their graphs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmdet.utils import register_all_modules
from mmengine.config import Config, ConfigDict
from mmengine.hub import get_config
from torch import Tensor, nn

from rebnn_mm.export.detection.graph import GraphBuilder

register_all_modules(init_default_scope=False)

CONFIGS = Path(__file__).parents[3] / 'configs'
Arrays = list[np.ndarray]

RETINA_ANCHORS = dict(
    type='AnchorGenerator', octave_base_scale=4, scales_per_octave=3, ratios=[0.5, 1.0, 2.0], strides=[4, 8, 16]
)
ONE_ANCHOR = dict(type='AnchorGenerator', ratios=[1.0], octave_base_scale=8, scales_per_octave=1, strides=[4, 8, 16])
DELTAS = dict(type='DeltaXYWHBBoxCoder', target_means=[0.0] * 4, target_stds=[0.1, 0.1, 0.2, 0.2])
DENSE_TEST = dict(nms_pre=100, min_bbox_size=0, score_thr=0.3, nms=dict(type='nms', iou_threshold=0.5), max_per_img=50)


def run(model: onnx.ModelProto | GraphBuilder, **feeds: np.ndarray | Tensor) -> Arrays:
    """The outputs of a checked graph in ONNX Runtime without our library."""
    proto = ir.to_proto(model.finish()) if isinstance(model, GraphBuilder) else model
    onnx.checker.check_model(proto)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=['CPUExecutionProvider'])
    return session.run(None, {name: np.asarray(value) for name, value in feeds.items()})


def computed(write: Callable[..., Any], outputs: str, *inputs: Tensor) -> Arrays:
    """What the operators that ``write(g, *values)`` appends give for these inputs, which are float32 or int64.

    ``outputs`` has type and rank of each, such as ``'f2 i1'``.
    """
    g = GraphBuilder('test')
    types = {'f': ir.DataType.FLOAT, 'i': ir.DataType.INT64}
    values = [
        g.input(f'x{i}', types['f' if x.is_floating_point() else 'i'], [f'x{i}_{dim}' for dim in range(x.dim())])
        for i, x in enumerate(inputs)
    ]
    results = write(g, *values)
    results = [results] if isinstance(results, ir.Value) else results
    for i, (value, (kind, rank)) in enumerate(zip(results, outputs.split(), strict=True)):
        g.output(f'y{i}', value, types[kind], [f'y{i}_{dim}' for dim in range(int(rank))])
    return run(g, **{f'x{i}': x for i, x in enumerate(inputs)})


def lively(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model in eval mode with random norms, shifts and slopes, so that no value is zero or one by default."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(value.shape, generator=generator) if value.is_floating_point() else None
        kind = name.rsplit('.', 1)[-1]
        if noise is None or 'quantizer.alpha' in name:
            continue
        if kind == 'running_var' or (kind in ('weight', 'slope') and value.dim() == 1):
            value.data.copy_(1 + 0.3 * noise.clamp(-2, 2))
        elif value.dim() > 1:
            value.data.copy_(noise * (2 / value[0].numel()) ** 0.5)
        else:
            value.data.copy_(0.1 * noise)
    return model.eval()


def of_config(name: str, narrow: Callable[[Any], None]) -> nn.Module:
    """A lively model of a config of this repository, made narrow by ``narrow(cfg.model)``."""
    cfg = Config.fromfile(CONFIGS / f'{name}.py')
    narrow(cfg.model)
    torch.manual_seed(0)
    return lively(MODELS.build(cfg.model))


def swapped(name: str, narrow: Callable[[Any], None]) -> nn.Module:
    """A lively model of a config of mmdet, narrow, with 1-bit layers wherever backbone and neck take them."""
    cfg = get_config(f'mmdet::{name}.py')
    narrow(cfg.model)
    for part in (cfg.model.backbone, cfg.model.neck):
        part.update(conv_cfg=dict(type='ReBNNConv2d'), norm_cfg=dict(type='BN'), init_cfg=None)
    torch.manual_seed(0)
    return lively(MODELS.build(cfg.model))


def narrow_csp(model: Any) -> None:
    """An eighth of the width of a RTMDet or YOLOX, and one block per stage."""
    model.backbone.update(deepen_factor=0.1, widen_factor=0.125)
    model.neck.update(in_channels=[32, 64, 128], out_channels=32, num_csp_blocks=1)
    model.bbox_head.update(in_channels=32, feat_channels=32, stacked_convs=1, num_classes=5, norm_cfg=dict(type='BN'))


def narrow_c4(model: Any) -> None:
    """An eighth of the width; few enough proposals and thresholds that give a few dozen detections."""
    model.backbone.update(base_channels=8)
    model.rpn_head.update(in_channels=32, feat_channels=32)
    model.rpn_head.anchor_generator.scales = [1, 2, 4]
    model.roi_head.shared_head.update(base_channels=8)
    model.roi_head.bbox_roi_extractor.out_channels = 32
    model.roi_head.bbox_head.update(in_channels=64, num_classes=5)
    model.test_cfg.rpn.update(nms_pre=200, max_per_img=40)
    model.test_cfg.rcnn.update(score_thr=0.2)


def narrow_fpn(model: Any) -> None:
    """An eighth of the width, with regions of all four levels in an image of 200 pixels."""
    model.backbone.update(base_channels=8)
    model.neck.update(in_channels=[8, 16, 32, 64], out_channels=16)
    model.rpn_head.update(in_channels=16, feat_channels=16)
    model.roi_head.bbox_roi_extractor.update(out_channels=16, finest_scale=14)
    model.roi_head.bbox_head.update(in_channels=16, fc_out_channels=32, num_classes=5)
    model.test_cfg.rpn.update(nms_pre=200, max_per_img=60)
    model.test_cfg.rcnn.update(score_thr=0.2)


def narrow_ssd(model: Any) -> None:
    """A sixteenth of VGG's width."""
    channels = (32, 64, 32, 16, 16, 16)
    model.backbone.base_channels = 4
    model.neck.update(in_channels=channels[:2], out_channels=channels)
    model.bbox_head.update(in_channels=channels, num_classes=5)
    model.test_cfg.update(score_thr=0.5)


def narrow_one_bit(model: Any) -> None:
    """Few channels, one convolution per stage and tower, a threshold that leaves a hundred detections."""
    model.backbone.update(channels=(8, 8, 16, 16), depths=(1, 1, 1, 1), stem_channels=(4,))
    model.neck.update(in_channels=[8, 16, 16], out_channels=16)
    model.bbox_head.update(in_channels=16, feat_channels=16, stacked_convs=1)
    model.test_cfg.update(score_thr=0.5)


def one_stage_config(head: dict[str, Any], detector: str = 'RetinaNet', **test_cfg: Any) -> dict[str, Any]:
    """A one-stage detector with a 1-bit backbone of two stages, a 1-bit FPN and this head."""
    binary = dict(type='ReBNNConv2d')
    backbone = dict(type='BinaryResNet', depth=18, base_channels=8, num_stages=2, strides=(1, 2), dilations=(1, 1))
    return dict(
        type=detector,
        data_preprocessor=dict(type='DetDataPreprocessor', pad_size_divisor=32),
        backbone=dict(**backbone, out_indices=(0, 1), conv_cfg=binary),
        neck=dict(type='FPN', in_channels=[8, 16], out_channels=16, num_outs=3, conv_cfg=binary),
        bbox_head=dict(num_classes=5, in_channels=16, feat_channels=16, stacked_convs=1, **head),
        test_cfg=ConfigDict(DENSE_TEST, **test_cfg),
    )


def one_stage(*args: Any, **kwargs: Any) -> nn.Module:
    """A lively model of :func:`one_stage_config`."""
    torch.manual_seed(0)
    return lively(MODELS.build(one_stage_config(*args, **kwargs)))


def image(height: int, width: int, seed: int = 0) -> Tensor:
    """A smooth random image as the network sees it, (1, 3, height, width)."""
    coarse = torch.randn(1, 3, height // 8 + 1, width // 8 + 1, generator=torch.Generator().manual_seed(seed))
    return nn.functional.interpolate(coarse, (height, width), mode='bilinear')


def predicted(model: Any, x: Tensor, valid_size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What mmdet itself predicts for the image: boxes in pixels of ``x``, scores, labels."""
    sample = DetDataSample(metainfo=dict(img_shape=valid_size, ori_shape=valid_size, scale_factor=(1.0, 1.0)))
    with torch.no_grad():
        (result,) = model.predict(x, [sample], rescale=False)
    found = result.pred_instances
    return found.bboxes.numpy(), found.scores.numpy(), found.labels.numpy()
