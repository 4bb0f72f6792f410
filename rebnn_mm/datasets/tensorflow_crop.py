"""The middle of an image, sampled as networks trained with TensorFlow were tested."""

from typing import Any

import numpy as np
from mmengine.registry import TRANSFORMS
from numpy.typing import NDArray

SHARPNESS = -0.75
"""The free parameter of cubic interpolation."""


def cubic_samples(length: int, count: int) -> NDArray[np.float32]:
    r"""A matrix that takes ``count`` samples of a row of ``length`` values, at :math:`i \cdot length / count`.

    The samples begin on the first value; those of OpenCV and Pillow lie in the middle of the part that they stand for.
    Beyond its ends the row goes on with its last value.

    Source: Keys 1981, Eq. 4, with another parameter; ``tf.compat.v1.image.resize_bicubic``.
    """
    rows = np.arange(count)
    at = rows * (length / count)
    first = np.floor(at).astype(np.int64)
    weights = np.zeros((count, length))
    for offset in (-1, 0, 1, 2):
        d, a = np.abs(at - first - offset), SHARPNESS
        near = ((a + 2) * d - (a + 3)) * d**2 + 1
        far = a * (((d - 5) * d + 8) * d - 4)
        np.add.at(weights, (rows, np.clip(first + offset, 0, length - 1)), np.where(d <= 1, near, far))
    return weights.astype(np.float32)


@TRANSFORMS.register_module()
class TensorFlowCenterCrop:
    """Crops a square from the middle and brings it to a size by bicubic interpolation, as EfficientNet's code does.

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
        square = image[top : top + side, left : left + side].astype(np.float32)
        samples = cubic_samples(side, self.crop_size)
        # Along the height, then along the width.
        results['img'] = np.ascontiguousarray(samples @ np.tensordot(samples, square, 1))
        results['img_shape'] = results['img'].shape
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}(crop_size={self.crop_size}, crop_padding={self.crop_padding})'
