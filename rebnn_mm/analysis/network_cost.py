"""Counts a whole network at one input shape, without data and without computing anything where that can be."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from rebnn_mm.deploy.errors import first_sentence

from ..errors import RebnnError
from .layer_cost import NetworkCost
from .layer_counter import count_layers


def network_cost(model: nn.Module, shape: tuple[int, ...], rois: int | None = None) -> NetworkCost:
    """Count the cost of predicting one image or one text, layer by layer; the model is copied.

    The pass runs on fake tensors, which have a shape and no values, so that it costs neither time nor memory. Where an
    operator knows no shapes (mmcv's deformable convolution) the network is computed for real, with a warning.

    Of a two-stage detector the second stage runs on ``rois`` regions of the right size, ``test_cfg.rpn.max_per_img``
    by default, since real ones depend on values. A mask head sees what mmdet's own ``forward`` shows it: the first 100
    of them, in a cascade all of them. Post-processing and a teacher do not count. ``shape`` is the height and width of
    the input, padding included, or the number of tokens.
    """
    if min(shape) < 1:
        raise RebnnError(f'network_cost: shape={shape!r} must be a height and a width above 0')
    rois = _regions(model, rois)
    # A copy for each pass, since some modules keep tensors that they meet in forward.
    measured = copy.deepcopy(model)
    measured.eval()  # gives None where a backbone of OpenMMLab's has a train() of its own
    try:
        with _silence_torch_tracebacks(), FakeTensorMode(allow_non_fake_inputs=True):
            layers = count_layers(measured, lambda: _predict(measured, shape, rois))
    except Exception as problem:  # what is wrong with the input or the network is wrong below, too
        computed = copy.deepcopy(model)
        computed.eval()
        layers = count_layers(computed, lambda: _predict(computed, shape, rois))
        warnings.warn(
            'network_cost: an operator does not run on shapes alone, so the network was computed for real '
            f'({type(problem).__name__}: {first_sentence(problem, 120)})',
            stacklevel=2,
        )
    return NetworkCost(layers, tuple(shape), rois)


@contextmanager
def _silence_torch_tracebacks() -> Iterator[None]:
    """Torch logs an operator's failure on fake tensors before it raises it."""
    logger = logging.getLogger('torch._subclasses.fake_tensor')
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _regions(model: nn.Module, rois: int | None) -> int | None:
    if not hasattr(model, 'roi_head'):
        if rois is not None:
            raise RebnnError(f'network_cost: {type(model).__name__} has no second stage, so rois={rois} has no use')
        return None
    learned = _count_learned_regions(model)
    if learned is not None and rois not in (None, learned):
        raise RebnnError(
            f'network_cost: {type(model).__name__} has learned its {learned} regions; leave rois={rois} out'
        )
    rois = learned if rois is None else rois
    if rois is None:
        test_cfg = getattr(model, 'test_cfg', None) or {}
        rois = (test_cfg.get('rpn') or {}).get('max_per_img')
        if rois is None:
            raise RebnnError(
                f'network_cost: {type(model).__name__} has a second stage, and its test_cfg.rpn.max_per_img does not '
                'say on how many regions. Give rois.'
            )
    if rois < 1:
        raise RebnnError(f'network_cost: rois={rois} must be above 0')
    return int(rois)


def _count_learned_regions(model: nn.Module) -> int | None:
    """Count the regions that a detector such as Sparse R-CNN has among its parameters."""
    return getattr(getattr(model, 'rpn_head', None), 'num_proposals', None)


def _predict(model: nn.Module, shape: tuple[int, ...], rois: int | None) -> None:
    if len(shape) == 1:
        device = next(model.parameters()).device
        ids = torch.zeros(1, *shape, dtype=torch.long, device=device)
        # Of the form that attention takes, so that nothing depends on its values.
        mask = torch.ones(1, 1, 1, *shape, dtype=torch.bool, device=device)
        model(dict(input_ids=ids, attention_mask=mask))
        return
    mean = getattr(getattr(model, 'data_preprocessor', None), 'mean', None)
    channels = mean.numel() if isinstance(mean, Tensor) else 3
    parameter = next(model.parameters(), torch.empty(0))
    image = torch.zeros(1, channels, *shape, device=parameter.device, dtype=parameter.dtype)
    if not isinstance(model, BaseModel):
        model(image)
    elif not any(base.__module__.startswith('mmdet.') for base in type(model).__mro__):
        model(image, mode='tensor')
    else:
        from mmdet.structures import DetDataSample

        size = dict(img_shape=shape, ori_shape=shape, pad_shape=shape, batch_input_shape=shape)
        sample = DetDataSample(metainfo=dict(img_id=0, scale_factor=(1.0, 1.0), **size))
        with _regions_of_right_size(model, rois):
            # With learned regions mmdet's forward computes losses, which need targets.
            model(image, [sample], mode='tensor' if _count_learned_regions(model) is None else 'predict')


@contextmanager
def _regions_of_right_size(model: Any, rois: int | None) -> Iterator[None]:
    """Replace what depends on values: the proposals, and the pooling that sorts regions by size."""
    if rois is None:
        yield
        return
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor
    from mmengine.structures import InstanceData

    def proposals(x: tuple[Tensor, ...], *args: Any, **kwargs: Any) -> list[InstanceData]:
        model.rpn_head(x)
        return [InstanceData(bboxes=x[0].new_zeros(rois, 4))]

    replaced = []
    if isinstance(getattr(model, 'rpn_head', None), BaseDenseHead):
        model.rpn_head.predict = proposals
        replaced.append((model.rpn_head, 'predict'))
    for module in model.roi_head.modules():
        if type(module) is SingleRoIExtractor:
            module.forward = _count_pooled(module)
            replaced.append((module, 'forward'))
    try:
        yield
    finally:
        for module, name in replaced:
            delattr(module, name)


def _count_pooled(extractor: Any) -> Any:
    def forward(features: tuple[Tensor, ...], regions: Tensor, *args: Any) -> Tensor:
        return features[0].new_zeros(len(regions), extractor.out_channels, *extractor.roi_layers[0].output_size)

    return forward
