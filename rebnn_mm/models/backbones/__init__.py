"""Backbones and shared heads usable from mmdet and mmpretrain alike."""

from .binary_mobile_net import BinaryMobileNet
from .binary_ssd_vgg import BinarySSDVGG
from .binary_vgg_small import BinaryVGGSmall
from .rebnn_res_layer import ReBNNResLayer
from .rebnn_resnet import ReBNNResNet

__all__ = ['BinaryMobileNet', 'BinarySSDVGG', 'BinaryVGGSmall', 'ReBNNResLayer', 'ReBNNResNet']
