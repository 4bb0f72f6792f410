"""Find objects in an image and paint their boxes into it, for all demos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rebnn_mm.deploy.draw import draw


def detections(inferencer: Any, image: str | Path, score_thr: float) -> Any:
    """Find the objects of an image file that score at least ``score_thr``, best first."""
    sample = inferencer(str(image), return_datasamples=True, no_save_vis=True)['predictions'][0]
    found = sample.pred_instances.cpu()
    return found[found.scores >= score_thr]


def paint(image: str | Path, found: Any, classes: Sequence[str], width: int = 800) -> np.ndarray:
    """Draw boxes, class names and scores into an image file, scaled to ``width`` so that writing has one size: RGB."""
    import mmcv

    pixels = mmcv.imread(str(image), channel_order='rgb')
    factor = width / pixels.shape[1]
    labels = found.labels.tolist()
    texts = [f'{classes[label]} {score:.2f}' for label, score in zip(labels, found.scores, strict=True)]
    scaled = mmcv.imrescale(pixels, factor, interpolation='bicubic')
    return np.asarray(draw(scaled, found.bboxes.numpy() * factor, labels, texts))
