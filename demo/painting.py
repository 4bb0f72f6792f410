"""What the demos share: the objects that a detector finds in an image, and their boxes painted into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def detections(inferencer: Any, image: str | Path, score_thr: float) -> Any:
    """Find the objects of an image file that score at least ``score_thr``, best first."""
    sample = inferencer(str(image), return_datasamples=True, no_save_vis=True)['predictions'][0]
    found = sample.pred_instances.cpu()
    return found[found.scores >= score_thr]


def paint(image: str | Path, found: Any, dataset_meta: dict[str, Any], width: int = 800) -> np.ndarray:
    """Draw boxes, class names and scores into an image file, scaled to ``width`` so that writing has one size: RGB."""
    import mmcv
    from mmdet.visualization import DetLocalVisualizer
    from mmdet.visualization.palette import get_palette

    pixels = mmcv.imread(str(image), channel_order='rgb')
    factor = width / pixels.shape[1]
    visualizer = DetLocalVisualizer(image=mmcv.imrescale(pixels, factor, interpolation='bicubic'))
    if len(found):
        boxes = found.bboxes * factor
        classes = dataset_meta['classes']
        palette = get_palette(dataset_meta['palette'], len(classes))
        visualizer.draw_bboxes(boxes, edge_colors=[palette[label] for label in found.labels], line_widths=2, alpha=1)
        # mmdet's add_datasample writes the names of small objects too small to read next to another picture.
        visualizer.draw_texts(
            [f'{classes[label]} {score:.2f}' for label, score in zip(found.labels, found.scores, strict=True)],
            boxes[:, :2] + 2,
            font_sizes=11,
            colors='white',
            bboxes=[dict(facecolor='black', alpha=0.7, pad=0.7, edgecolor='none')] * len(found),
        )
    painted: np.ndarray = visualizer.get_image()
    return painted
