"""CIFAR-10 in one archive: read image by image, or resident on the device that trains."""

import pickle
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.device import get_device
from mmengine.registry import DATASETS, FUNCTIONS
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from rebnn_mm.errors import RebnnError

DOWNLOAD = 'https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz'
FOLDER = 'cifar-10-batches-py'
"""What the archive unpacks to."""


@DATASETS.register_module()
class CIFAR10Archive(BaseDataset):
    """The images of CIFAR-10 from the folder ``cifar-10-batches-py`` of its python archive, in the archive's order.

    mmpretrain's ``CIFAR10`` checks the checksums of the original files. This class reads every folder of that layout,
    also one that ``tools/dataset_converters/npz_webp_to_cifar10.py`` wrote. Nothing is downloaded.

    Args:
        split: ``'train'`` (``data_batch_1`` to ``data_batch_5``) or ``'test'`` (``test_batch``).
        data_root: folder that ``data_prefix`` is relative to.
        data_prefix: ``dict(root=...)``, the folder with the batches.
        kwargs: those of mmengine's ``BaseDataset``; ``indices=10000`` keeps the first 10,000 images.

    Each item has ``img``, uint8 of shape (32, 32, 3) in RGB order, and ``gt_label`` before the pipeline sees it.

    Raises:
        ValueError: an unknown split.
        FileNotFoundError: a batch is missing; the message says where to get it.

    Example:
        >>> import pickle, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with open(f'{folder}/test_batch', 'wb') as file:
        ...     pickle.dump(dict(data=np.zeros((2, 3072), np.uint8), labels=[3, 9]), file)
        >>> dataset = CIFAR10Archive('test', data_prefix=dict(root=folder))
        >>> len(dataset), dataset[1]['img'].shape, dataset.metainfo['classes'][dataset[1]['gt_label']]
        (2, (32, 32, 3), 'truck')

    Source: Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """

    METAINFO: ClassVar[dict[str, Any]] = dict(
        classes=('airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck')
    )
    BATCHES: ClassVar[dict[str, tuple[str, ...]]] = dict(
        train=tuple(f'data_batch_{number}' for number in range(1, 6)), test=('test_batch',)
    )

    def __init__(
        self, split: str, *, data_root: str = '', data_prefix: dict[str, str] = dict(root=FOLDER), **kwargs: Any
    ) -> None:
        if split not in self.BATCHES:
            raise RebnnError(f"CIFAR10Archive: split={split!r} is unknown. Use 'train' or 'test'.")
        self.split = split
        super().__init__(data_root=data_root, data_prefix=data_prefix, **kwargs)

    def load_data_list(self) -> list[dict[str, Any]]:
        """Images and labels of all batches of the split, in order."""
        items = []
        for name in self.BATCHES[self.split]:
            path = Path(self.data_prefix['root'], name)
            if not path.is_file():
                raise FileNotFoundError(
                    f'CIFAR10Archive: no {path}. Download {DOWNLOAD} and unpack it to {path.parent.parent}, or set '
                    f'data_root of the data set to where {FOLDER} lies.'
                )
            with path.open('rb') as file:
                batch = pickle.load(file, encoding='latin1')
            images = batch['data'].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            items += [
                dict(img=np.ascontiguousarray(image), gt_label=int(label))
                for image, label in zip(images, batch['labels'], strict=True)
            ]
        return items


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
        data_prefix: dict[str, str] = dict(root=FOLDER),
        indices: int | None = None,
        padding: int = 0,
        device: str | None = None,
    ) -> None:
        if padding < 0:
            raise RebnnError(f'CIFAR10Resident: padding={padding} must be at least 0.')
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

    @cached_property
    def _samples(self) -> list[Any]:
        """One for each image; made again for each batch, they would take longer than the rest of it."""
        from mmpretrain.structures import DataSample

        # Each label as a vector, which stays on its device; DataSample copies a scalar to the CPU.
        return [DataSample().set_gt_label(label) for label in self.labels.split(1)]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> dict[str, Any]:
        """The batch of these images, which PyTorch's loader asks for at once."""
        chosen = torch.as_tensor(indices, device=self.labels.device)
        images = self.images[chosen]
        if self.padding:
            images = self._augment(images)
        return dict(inputs=images, data_samples=[self._samples[index] for index in indices])

    def _augment(self, images: Tensor) -> Tensor:
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
