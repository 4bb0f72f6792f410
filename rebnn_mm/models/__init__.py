"""Networks whose structure is made for binary convolutions.

Only what needs nothing but mmengine and mmcv's layers is imported here; :mod:`rebnn_mm.models.detection` needs mmdet,
:mod:`rebnn_mm.models.classification` mmpretrain, :mod:`rebnn_mm.models.language` transformers, and
:data:`rebnn_mm.registry.MODELS` loads them when a config asks for it.
"""

from .backbones import BinaryMobileNet, BinarySSDVGG, BinaryVGGSmall, ReBNNResLayer, ReBNNResNet
from .blocks import BinaryBasicBlock, BinaryBiRealBlock, BinaryReActBlock, block_styles
from .convert import binarize, plan_binary, plan_table
from .flatten_neck import FlattenNeck
from .losses import DistributionLoss
from .stages import BinaryUnit

__all__ = [
    'BinaryBasicBlock',
    'BinaryBiRealBlock',
    'BinaryReActBlock',
    'BinaryMobileNet',
    'BinarySSDVGG',
    'BinaryUnit',
    'BinaryVGGSmall',
    'DistributionLoss',
    'FlattenNeck',
    'ReBNNResLayer',
    'ReBNNResNet',
    'binarize',
    'block_styles',
    'plan_binary',
    'plan_table',
]
