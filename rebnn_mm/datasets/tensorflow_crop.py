"""The middle of an image, sampled as networks trained with TensorFlow were tested."""

from typing import Any

import numpy as np
import torch
from mmengine.registry import TRANSFORMS
from torch.nn import functional


@TRANSFORMS.register_module()
class TensorFlowCenterCrop:
    """Crops a square from the middle and brings it to a size by bicubic interpolation, as EfficientNet's code does.

    Samples begin on the first pixel; those of OpenCV and Pillow lie in the middle of the part that they stand for.
    The image becomes real: what the interpolation gives beyond 0 and 255 is kept, as there. mmpretrain's
    ``EfficientNetCenterCrop`` cuts out the same part and samples it as OpenCV does, a fraction of a pixel off.

    Args:
        crop_size: height and width of the result.
        crop_padding: the square is ``crop_size / (crop_size + crop_padding)`` of the shorter edge.

    Takes ``img``, shape (H, W, C); gives ``img``, float32 of shape (crop_size, crop_size, C), and ``img_shape``.

    Source: Tan and Le 2019 (EfficientNet), released code; Larq Zoo's networks were tested so.

    Example:
        >>> TensorFlowCenterCrop(4, crop_padding=0)(dict(img=np.full((6, 8, 1), 7, np.uint8)))['img'].mean().item()
        7.0
    """

    def __init__(self, crop_size: int, crop_padding: int = 32) -> None:
        self.crop_size = crop_size
        self.crop_padding = crop_padding

    def __call__(self, results: dict[str, Any]) -> dict[str, Any]:
        image = results['img']
        height, width = image.shape[:2]
        side = int(self.crop_size / (self.crop_size + self.crop_padding) * min(height, width))
        top, left = (height - side + 1) // 2, (width - side + 1) // 2
        square = image[top : top + side, left : left + side].astype(np.float64)
        # PyTorch's cubic has TensorFlow's free parameter of -0.75, and its grid goes from -1 to 1.
        at = torch.arange(self.crop_size, dtype=torch.float64) * (2 * side / (self.crop_size * max(side - 1, 1))) - 1
        grid = torch.stack(torch.meshgrid(at, at, indexing='xy'), dim=-1)
        sampled = functional.grid_sample(
            torch.from_numpy(square).permute(2, 0, 1)[None],
            grid[None],
            mode='bicubic',
            padding_mode='border',
            align_corners=True,
        )
        results['img'] = np.ascontiguousarray(sampled[0].permute(1, 2, 0).float().numpy())
        results['img_shape'] = results['img'].shape
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}(crop_size={self.crop_size}, crop_padding={self.crop_padding})'
