"""Networks whose structure is made for binary convolutions.

Only what needs nothing but mmengine and mmcv's layers is imported here; :mod:`rebnn_mm.models.detection` needs mmdet,
:mod:`rebnn_mm.models.classification` mmpretrain, :mod:`rebnn_mm.models.language` transformers, and
:data:`rebnn_mm.registry.MODELS` loads them when a config asks for it.
"""

from .backbones import (
    BinaryBottleneckResNet,
    BinaryMobileNet,
    BinaryResLayer,
    BinaryResNet,
    BinarySSDVGG,
    BinaryVGGSmall,
    BNext,
    MeliusNet,
    OneBitBackbone,
    QuickNet,
)
from .binary_plan import plan_binary, plan_table
from .blocks import BinaryBasicBlock, BinaryBiRealBlock, BinaryReActBlock
from .convert import binarize
from .flatten_neck import FlattenNeck
from .losses import DistributionLoss
from .stages import BinaryUnit, block_styles
