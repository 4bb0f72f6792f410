"""Networks whose structure is made for binary convolutions.

Only what needs nothing but mmengine and mmcv's layers is imported here; :mod:`rebnn_mm.models.detection` needs mmdet
and is loaded through :data:`rebnn_mm.registry.MODELS` when a config asks for it.
"""

from .backbones import ReBNNResLayer, ReBNNResNet
from .blocks import BinaryBasicBlock, BinaryBiRealBlock, BinaryReActBlock

__all__ = ['BinaryBasicBlock', 'BinaryBiRealBlock', 'BinaryReActBlock', 'ReBNNResLayer', 'ReBNNResNet']
