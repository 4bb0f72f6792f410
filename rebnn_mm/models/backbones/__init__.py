"""Backbones and shared heads usable from mmdet and mmpretrain alike."""

from .binary_bottleneck_resnet import BinaryBottleneckResNet
from .binary_mobile_net import BinaryMobileNet
from .binary_res_layer import BinaryResLayer
from .binary_resnet import BinaryResNet
from .binary_ssd_vgg import BinarySSDVGG
from .binary_vgg_small import BinaryVGGSmall
from .bnext import BNext
from .melius_net import MeliusNet
from .one_bit_backbone import OneBitBackbone
from .quick_net import QuickNet
