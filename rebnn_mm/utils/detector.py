"""Shared parts of the demos: load a detector, detect on one image, draw the boxes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config

from rebnn_mm.deploy.draw import draw
from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors

Image = np.ndarray[Any, np.dtype[np.uint8]]


def check_input(image: str | Path, config: str | None, checkpoint: str) -> None:
    """Check that the files of a detection are there and what they should be.

    Args:
        image: image file.
        config: config of a detector; ``None`` stands for the one in the checkpoint.
        checkpoint: its checkpoint.

    Raises:
        RebnnError: the first that is not.

    Example:
        >>> check_input('nowhere.jpg', None, 'nowhere.pth')
        Traceback (most recent call last):
        rebnn_mm.errors.RebnnError: no image at nowhere.jpg.
    """
    if not Path(image).is_file():
        raise RebnnError(f'no image at {image}.')
    if config is not None and read_config(config).get('default_scope') == 'mmpretrain':
        raise RebnnError(
            f'{config} is the config of a classifier, which draws no boxes', fix='Name the config of a detector.'
        )
    check_checkpoint_file(checkpoint)
    data = np.fromfile(image, np.uint8)  # read as mmcv does: cv2.imread takes a file that is cut
    if not data.size or cv2.imdecode(data, cv2.IMREAD_COLOR) is None:
        raise RebnnError(f'{image} cannot be read as an image', fix='Name a JPEG or PNG file.')


def check_device(device: str | None) -> None:
    """Check that PyTorch knows and finds a device.

    Raises:
        RebnnError: it does not.

    Example:
        >>> check_device('gpu')
        Traceback (most recent call last):
        rebnn_mm.errors.RebnnError: --device gpu cannot be used (Expected one of cpu, cuda, ...). Take ...
    """
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:  # the first where PyTorch is built without CUDA
        what = f'--device {device} cannot be used ({first_sentence(error)})'
        raise RebnnError(what, fix='Take cpu, or leave it out.') from error


def load_detector(config: str | None, checkpoint: str, device: str | None = None) -> Any:
    """Make mmdet's ``DetInferencer`` of a config and a checkpoint.

    Args:
        config: config file; ``None`` takes the one in the checkpoint.
        checkpoint: checkpoint file.
        device: ``cpu``, ``cuda:0``, ...; ``None`` is the first GPU if there is one.

    Raises:
        RebnnError: one of them is broken or does not fit.
    """
    # imported here: it takes seconds, and the checks before it should not wait for it
    from mmdet.apis import DetInferencer

    check_device(device)
    # the inferencer has no folder for logs, and needs none
    warnings.filterwarnings('ignore', message='Failed to add .*VisBackend')
    with user_errors(None if config is None else Config.fromfile(config)):
        inferencer = DetInferencer(config, checkpoint, device=device, show_progress=False)
    check_checkpoint(inferencer.model, checkpoint)
    return inferencer


def detections(inferencer: Any, image: str | Path, score_thr: float) -> Any:
    """Find the objects of an image file that score at least ``score_thr``, best first.

    Returns:
        mmengine's ``InstanceData`` on the CPU: ``bboxes`` (n, 4) in pixels of the file, ``labels``, ``scores`` (n,).
    """
    sample = inferencer(str(image), return_datasamples=True, no_save_vis=True)['predictions'][0]
    found = sample.pred_instances.cpu()
    return found[found.scores >= score_thr]


def paint(image: str | Path, found: Any, classes: Sequence[str], width: int = 800) -> Image:
    """Draw boxes, class names and scores into an image file.

    Args:
        image: image file.
        found: what :func:`detections` returns.
        classes: names of the labels.
        width: the image is scaled to it first, so that lines and writing have the same size in every picture.

    Returns:
        RGB image (H, ``width``, 3).
    """
    import mmcv

    pixels = mmcv.imread(str(image), channel_order='rgb')
    factor = width / pixels.shape[1]
    labels = found.labels.tolist()
    texts = [f'{classes[label]} {score:.2f}' for label, score in zip(labels, found.scores, strict=True)]
    scaled = mmcv.imrescale(pixels, factor, interpolation='bicubic')
    return np.asarray(draw(scaled, found.bboxes.numpy() * factor, labels, texts))
