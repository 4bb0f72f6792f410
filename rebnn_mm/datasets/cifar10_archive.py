"""CIFAR-10 as its python archive holds it."""

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS

DOWNLOAD = 'https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz'


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
        self,
        split: str,
        *,
        data_root: str = '',
        data_prefix: dict[str, str] = dict(root='cifar-10-batches-py'),
        **kwargs: Any,
    ) -> None:
        if split not in self.BATCHES:
            raise ValueError(f"CIFAR10Archive: split={split!r} is unknown. Use 'train' or 'test'.")
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
                    'data_root of the data set to where cifar-10-batches-py lies.'
                )
            with path.open('rb') as file:
                batch = pickle.load(file, encoding='latin1')
            images = batch['data'].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            items += [
                dict(img=np.ascontiguousarray(image), gt_label=int(label))
                for image, label in zip(images, batch['labels'], strict=True)
            ]
        return items
