"""CIFAR-10 as one tensor, from which whole batches are cropped, flipped and taken."""

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.registry import DATASETS, FUNCTIONS
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from .cifar10_archive import CIFAR10Archive


@FUNCTIONS.register_module(name='rebnn_whole_batch')
def whole_batch(batch: Any) -> Any:
    """The batch as the data set made it, for ``collate_fn=dict(type='rebnn_whole_batch')``."""
    return batch


@DATASETS.register_module()
class CIFAR10Resident(Dataset):
    """All images of a split in one tensor on the device, augmented by the batch.

    Where a step takes milliseconds, cropping image by image in Python takes longer than training. Here a batch is
    gathered and augmented in a few operations where it is used. The images are those of :class:`CIFAR10Archive` and
    the augmentation is the one of its configs: zeros around the image, a crop of its size at any place, and a flip of
    every second image on average.

    In a config: ``num_workers=0`` and ``collate_fn=dict(type='rebnn_whole_batch')``.

    Args:
        split: ``'train'`` or ``'test'``.
        data_root, data_prefix: as in :class:`CIFAR10Archive`.
        indices: keep the first so many images; None for all.
        padding: zeros on each side before the crop; 0 for no augmentation at all.
        device: where the images lie; None for the one that mmengine trains on.

    Each batch has ``inputs``, uint8 of shape (B, 3, 32, 32), channels last in memory on a GPU, and ``data_samples``.

    Raises:
        ValueError, FileNotFoundError: as :class:`CIFAR10Archive`; ``padding`` is below 0.

    Not tried on a GPU yet.

    Example:
        >>> import pickle, tempfile
        >>> import numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> with open(f'{folder}/test_batch', 'wb') as file:
        ...     pickle.dump(dict(data=np.zeros((2, 3072), np.uint8), labels=[3, 9]), file)
        >>> dataset = CIFAR10Resident('test', data_prefix=dict(root=folder), device='cpu')
        >>> len(dataset), dataset.images.shape, dataset.labels
        (2, torch.Size([2, 3, 32, 32]), tensor([3, 9]))
    """

    METAINFO = CIFAR10Archive.METAINFO

    def __init__(
        self,
        split: str,
        *,
        data_root: str = '',
        data_prefix: dict[str, str] = dict(root='cifar-10-batches-py'),
        indices: int | None = None,
        padding: int = 0,
        device: str | None = None,
    ) -> None:
        if padding < 0:
            raise ValueError(f'CIFAR10Resident: padding={padding} must be at least 0.')
        archive = CIFAR10Archive(split, data_root=data_root, data_prefix=data_prefix, indices=indices)
        self.metainfo = archive.metainfo
        self.padding = padding
        device = device or get_device()
        items = list(archive)
        self.images = torch.stack([torch.from_numpy(item['img']) for item in items]).permute(0, 3, 1, 2).to(device)
        if device == 'cpu':
            self.images = self.images.contiguous()
        self.labels = torch.tensor([item['gt_label'] for item in items], device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> dict[str, Any]:
        """The batch of these images, which PyTorch's loader asks for at once."""
        from mmpretrain.structures import DataSample

        chosen = torch.as_tensor(indices, device=self.labels.device)
        images = self.images[chosen]
        if self.padding:
            images = self._augmented(images)
        return dict(
            inputs=images,
            data_samples=[DataSample().set_gt_label(label) for label in self.labels[chosen].unbind()],
        )

    def _augmented(self, images: Tensor) -> Tensor:
        count, _, height, width = images.shape
        # On the CPU whatever the device, so that a seed gives the same images everywhere.
        top, left = torch.randint(0, 2 * self.padding + 1, (2, count)).to(images.device)
        flip = (torch.rand(count) < 0.5).to(images.device)
        rows = top[:, None] + torch.arange(height, device=images.device)
        forward = torch.arange(width, device=images.device)
        columns = left[:, None] + torch.where(flip[:, None], forward.flip(0), forward)
        # As (B, H, W, 3), because the pixels that are gathered together lie together then.
        padded = functional.pad(images, (self.padding,) * 4).permute(0, 2, 3, 1)
        which = torch.arange(count, device=images.device)
        taken = padded[which[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return taken.contiguous() if images.device.type == 'cpu' else taken
