"""Backbones and shared heads usable from mmdet and mmpretrain alike."""

from .rebnn_res_layer import ReBNNResLayer
from .rebnn_resnet import ReBNNResNet

__all__ = ['ReBNNResLayer', 'ReBNNResNet']
