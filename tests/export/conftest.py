"""A small trained classifier and its export, made once."""

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

from rebnn_mm.export.exporter import Export, export
from rebnn_mm.export.options import Options
from tests.export.networks import lively

PREPROCESS = {'channels': 'rgb', 'mean': [120.0, 110.0, 100.0], 'std': [60.0, 55.0, 50.0]}


def tiny_parts() -> dict:
    """Backbone, neck and head: one stage, eight channels, four binary convolutions."""
    backbone = dict(
        type='BinaryResNet',
        depth=18,
        base_channels=8,
        num_stages=1,
        strides=(1,),
        dilations=(1,),
        out_indices=(0,),
        stem='cifar',
        block='react',
    )
    head = dict(type='LinearClsHead', num_classes=5, in_channels=8)
    return dict(backbone=backbone, neck=dict(type='GlobalAveragePooling'), head=head)


def tiny_classifier(**kwargs) -> nn.Module:
    """A classifier of these parts, or of others."""
    from mmpretrain.models import ImageClassifier

    parts = tiny_parts() | kwargs
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return lively(ImageClassifier(**parts))


@pytest.fixture(scope='session')
def classifier() -> nn.Module:
    pytest.importorskip('mmpretrain')
    return tiny_classifier()


@pytest.fixture(scope='session')
def exported(classifier) -> Export:
    """In half precision as well, which compares it with single precision."""
    about = dict(preprocess=PREPROCESS, config='tiny.py', classes=list('abcde'), size=(16, 12))
    return export(classifier, Options(half=True), **about)


@pytest.fixture
def random_images():
    """Eight images as the tiny classifier takes them."""
    return torch.from_numpy(np.random.default_rng(5).normal(size=(8, 3, 16, 12)).astype(np.float32))
