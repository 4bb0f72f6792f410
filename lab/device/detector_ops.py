"""Whether mmcv's own compiled operators give on a device what torchvision's give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .finding import Finding, Findings, Outcome, differences

TOLERANCE = 1e-5
"""Of the largest value; both add up the same products in orders of their own."""


def missing_ops(device: str) -> str | None:
    """Why detectors cannot run on the device, if they cannot.

    Example:
        >>> missing_ops('cpu') is None
        True
    """
    try:
        from mmcv.ops import get_compiling_cuda_version
    except ImportError as error:
        return f"needs mmcv's compiled ops ({error}): docs/install.md"
    if device.startswith('cuda') and get_compiling_cuda_version() == 'not available':
        return "needs mmcv's ops compiled with CUDA, these are for a CPU: docs/install.md, With a GPU"
    return None


def check_detector_ops(device: str) -> Findings:
    """NMS, RoIAlign and the focal loss: what is kept, outputs and gradients."""
    reason = missing_ops(device)
    if reason:
        yield Finding('mmcv', 'skipped', reason)
        return
    import mmcv.ops
    import torchvision.ops

    torch.manual_seed(0)
    boxes = _boxes(3000)
    scores, classes = torch.rand(len(boxes)), torch.randint(0, 3, (len(boxes),))
    there = boxes.to(device), scores.to(device)
    for threshold in (0.3, 0.5, 0.7):
        _, kept = mmcv.ops.nms(*there, threshold)
        yield _same_boxes(f'NMS, {threshold}', kept, torchvision.ops.nms(boxes, scores, threshold))
        _, kept = mmcv.ops.batched_nms(*there, classes.to(device), dict(type='nms', iou_threshold=threshold))
        expected = torchvision.ops.batched_nms(boxes, scores, classes, threshold)
        yield _same_boxes(f'NMS by class, {threshold}', kept, expected)

    maps = torch.randn(2, 16, 60, 80)
    regions = torch.cat([torch.randint(0, 2, (300, 1)).float(), _boxes(300)], 1)
    for aligned in (True, False):
        layer = mmcv.ops.RoIAlign(7, 1 / 4, sampling_ratio=0, aligned=aligned)
        reference = partial(
            torchvision.ops.roi_align, boxes=regions, output_size=7, spatial_scale=1 / 4, aligned=aligned
        )
        found = _step(maps, device, partial(layer, rois=regions.to(device)))
        expected = _step(maps, 'cpu', reference)
        yield differences(f'RoIAlign, {"" if aligned else "not "}aligned', found, expected, TOLERANCE)

    if torch.device(device).type == 'cpu':
        yield Finding('focal loss', 'skipped', 'mmcv has it for a GPU only')
        return
    logits, targets = torch.randn(500, 3), torch.randint(0, 4, (500,))
    ones = torch.nn.functional.one_hot(targets, 4)[:, :3].float()  # class 3 is the background
    focal_loss = mmcv.ops.SigmoidFocalLoss(gamma=2.0, alpha=0.25)
    found = _step(logits, device, lambda x: focal_loss(x, targets.to(device)))
    expected = _step(logits, 'cpu', lambda x: torchvision.ops.sigmoid_focal_loss(x, ones, 0.25, 2.0, 'mean') * 3)
    yield differences('focal loss', found, expected, TOLERANCE)


def _boxes(count: int) -> Tensor:
    """Random boxes (count, 4) in an image of 320x240, as corners."""
    corner = torch.rand(count, 2) * torch.tensor([260.0, 180.0])
    return torch.cat([corner, corner + 5 + torch.rand(count, 2) * 55], 1)


def _same_boxes(check: str, found: Tensor, expected: Tensor) -> Finding:
    return Finding.of(check, torch.equal(found.cpu(), expected), f'{len(found)} of {len(expected)} boxes kept')


def _step(x: Tensor, device: str, operator: Callable[..., Any]) -> Outcome:
    """Output of an operator and gradient of its input, on the CPU."""
    x = x.detach().to(device, copy=True).requires_grad_()
    y = operator(x)
    upstream = torch.cos(torch.arange(y.numel(), dtype=torch.float32)).view(y.shape)
    (gradient,) = torch.autograd.grad(y, x, upstream.to(y))
    return {'output': y.detach().cpu(), 'gradient of the input': gradient.cpu()}
