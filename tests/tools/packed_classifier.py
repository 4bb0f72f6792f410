"""A tiny classifier with its config, checkpoint, packed file and images, as a user would have them."""

import pickle

import cv2
import numpy as np
import torch
from mmengine.config import Config

from rebnn_mm.export.exporter import export, write
from rebnn_mm.export.source import load_source
from tests.export.conftest import tiny_classifier

NORMAL = dict(mean=[120.0, 110.0, 100.0], std=[60.0, 55.0, 50.0])


def write_config(folder, **entries):
    imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
    Config(dict(custom_imports=imports, work_dir=str(folder / 'work'), **entries)).dump(folder / 'tiny.py')


def load(folder):
    return load_source(str(folder / 'tiny.py'), str(folder / 'tiny.pth'))


def write_packed(folder, source):
    entries = {key: getattr(source, key) for key in ('preprocess', 'config', 'classes', 'size')}
    write(export(source.model, **entries).data, folder / 'tiny.onnx')


def write_classifier(folder):
    """Write a config, a checkpoint and a packed file to a folder; 40 images in the layout of CIFAR-10."""
    rng = np.random.default_rng(0)
    blobs = [cv2.resize(rng.integers(0, 256, (4, 4, 3), np.uint8), (32, 32)) for _ in range(40)]
    pixels = np.stack(blobs).transpose(0, 3, 1, 2).reshape(40, 3072)
    (folder / 'test_batch').write_bytes(pickle.dumps(dict(data=pixels, labels=rng.integers(0, 10, 40).tolist())))
    model = tiny_classifier(head=dict(type='LinearClsHead', num_classes=10, in_channels=8))
    images = torch.from_numpy(pixels.reshape(40, 3, 32, 32)).float()
    with torch.no_grad():  # otherwise every image is of the same class
        logits = model(
            (images - torch.tensor(NORMAL['mean'])[:, None, None]) / torch.tensor(NORMAL['std'])[:, None, None]
        )
        model.head.fc.bias -= logits.mean(0)
    torch.save(model.state_dict(), folder / 'tiny.pth')
    backbone = dict(depth=18, base_channels=8, num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,))
    loader = dict(
        batch_size=16,
        num_workers=0,
        sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(
            type='CIFAR10Archive',
            split='test',
            data_prefix=dict(root=str(folder)),
            pipeline=[dict(type='PackInputs')],
            test_mode=True,
        ),
    )
    write_config(
        folder,
        default_scope='mmpretrain',
        data_preprocessor=dict(NORMAL, to_rgb=False),
        model=dict(
            type='ImageClassifier',
            backbone=dict(type='BinaryResNet', stem='cifar', block='react', **backbone),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=10, in_channels=8),
        ),
        test_dataloader=loader,
        test_cfg=dict(),
        test_evaluator=dict(type='Accuracy', topk=(1,)),
    )
    write_packed(folder, load(folder))
    return folder
